#include "craton/tensor/lent_storage.h"

namespace craton::tensor {
namespace {

void put(const torch::Tensor& tensor, void* memory) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(memory, tensor.device()));
}

}  // namespace

LentStorage::LentStorage(torch::Tensor tensor) : tensor_(std::move(tensor)) {
  torch::NoGradGuard no_grad;
  // A storage of its own: the model's may be shared with others.
  static char nowhere[1];
  tensor_.set_data(torch::from_blob(nowhere, tensor_.sizes(), tensor_.options()));
  take_back();
}

void LentStorage::lend(void* memory) { put(tensor_, memory); }

void LentStorage::take_back() noexcept { put(tensor_, nullptr); }

}  // namespace craton::tensor
