#pragma once

#include "craton/store/http/client.h"

namespace craton::store::http {

/// A web server without signatures: requests go below `root`, whose query goes with each of them.
class PlainService final : public Service {
 public:
  explicit PlainService(Url root, bool no_proxy = false)
      : root_(std::move(root)), no_proxy_(no_proxy) {}
  void prepare(Request& request, const std::optional<Url>& elsewhere) override;
  std::vector<std::pair<std::string, std::string>> facts() const override;
  bool no_proxy() const override { return no_proxy_; }

 private:
  Url root_;
  bool no_proxy_;
};

}  // namespace craton::store::http
