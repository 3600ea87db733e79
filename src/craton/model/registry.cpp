#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>

#include "craton/model/model.h"
#include "craton/model/sfm.h"

namespace craton::model {
namespace {

// The kinds that come with the library are put in here by name, so that a static library loses none
// of them.
struct Registry {
  std::mutex mutex;
  std::map<std::string, ModelFactory> factories{
      {"sfm", [](const recipe::Settings& settings, uint64_t seed) {
         return std::make_shared<Sfm>(SfmSettings::read(settings), seed);
       }}};
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

bool register_model(const std::string& kind, ModelFactory factory) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.factories[kind] = std::move(factory);
  return true;
}

std::shared_ptr<Model> create_model(const recipe::Settings& settings, uint64_t seed) {
  Registry& r = registry();
  ModelFactory factory;
  {
    const std::lock_guard lock(r.mutex);
    std::vector<std::string> kinds;
    for (const auto& entry : r.factories) kinds.push_back(entry.first);
    factory = r.factories.at(settings.choice("kind", "sfm", kinds));
  }
  return factory(settings, seed);
}

}  // namespace craton::model
