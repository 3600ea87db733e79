#include "craton/store/uri.h"

namespace craton::store {

ObjectPlace split_uri(const std::string& uri) {
  const bool has_options = uri.starts_with("s3://") || uri.starts_with("http");
  const size_t question = has_options ? uri.find('?') : uri.npos;
  const std::string options = question == uri.npos ? "" : uri.substr(question);
  const std::string path = uri.substr(0, question);
  const size_t scheme = path.find("://");
  const size_t first = scheme == path.npos ? 0 : scheme + 3;
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {".", path};
  if (slash < first) return {uri, ""};  // a bucket alone
  const bool at_root = slash == 0 || (scheme != path.npos && slash == first);
  return {path.substr(0, at_root ? slash + 1 : slash) + options, path.substr(slash + 1)};
}

}  // namespace craton::store
