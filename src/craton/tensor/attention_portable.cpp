#include "craton/tensor/attention_kernel.h"
#include "craton/tensor/vector_portable.h"

namespace craton::tensor {

template <typename T>
AttentionKernelTable<T> portable_attention() {
  return AttentionKernel<PlainVector<T>>::table();
}
template AttentionKernelTable<float> portable_attention();
template AttentionKernelTable<double> portable_attention();

}  // namespace craton::tensor
