#include "craton/store/http/plain_service.h"

namespace craton::store::http {

void PlainService::prepare(Request& request, const std::optional<Url>& elsewhere) {
  if (elsewhere) {
    request.url = *elsewhere;
    return;
  }
  Url url = root_;
  if (!request.url.path.empty() && url.path.ends_with('/')) url.path.pop_back();
  url.path += request.url.path;
  if (!request.url.query.empty()) url.query = request.url.query;
  request.url = std::move(url);
}

std::vector<std::pair<std::string, std::string>> PlainService::facts() const {
  return {{"server", root_.origin()}};
}

}  // namespace craton::store::http
