#include <string>

#include "craton/store/object_store.h"

namespace craton::store {

std::string join_uri(std::string_view uri, std::string_view key) {
  std::string out(uri);
  while (!out.empty() && out.back() == '/' && !out.ends_with("://")) out.pop_back();
  while (!key.empty() && key.front() == '/') key.remove_prefix(1);
  if (key.empty()) return out;
  if (!out.ends_with('/')) out += '/';
  return out + std::string(key);
}

}  // namespace craton::store
