#include "craton/model/job_callback.h"

#include "craton/model/model.h"

namespace craton::model {
namespace {

std::vector<JobCallbackFactory>& factories() {
  static std::vector<JobCallbackFactory> all;
  return all;
}

}  // namespace

bool register_job_callback(JobCallbackFactory factory) {
  factories().push_back(std::move(factory));
  return true;
}

std::vector<std::shared_ptr<JobCallback>> make_job_callbacks(const std::shared_ptr<Model>& model) {
  std::vector<std::shared_ptr<JobCallback>> callbacks;
  if (auto own = std::dynamic_pointer_cast<JobCallback>(model)) callbacks.push_back(std::move(own));
  for (const auto& factory : factories()) callbacks.push_back(factory(*model));
  return callbacks;
}

}  // namespace craton::model
