#pragma once

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/runtime/running_program.h"
#include "craton/runtime/socket.h"

namespace craton::bench {

/// nginx that serves the files below `root()`; ends with this program.
class Nginx {
 public:
  /// On 127.0.0.1 and `addresses`; `root`: a folder that is there, else one of its own.
  explicit Nginx(const std::vector<std::string>& addresses = {}, std::filesystem::path root = {})
      : root_(root.empty() ? folder_.path() / "www" : std::move(root)) {
    { runtime::FileDescriptor taken = runtime::listen_tcp("127.0.0.1", port_); }
    std::string listen = fmt::format("listen 127.0.0.1:{};", port_);
    for (const std::string& address : addresses)
      listen += fmt::format(" listen {}:{};", address, port_);
    const std::string folder = folder_.path();
    runtime::write_file_atomically(
        folder_.path() / "nginx.conf",
        fmt::format(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\n"
            "events {{ worker_connections 1024; }}\n"
            "http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000;\n"
            "  client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0};\n"
            "  uwsgi_temp_path {0}; scgi_temp_path {0};\n"
            "  server {{ {1} root {2}; }} }}\n",
            folder, listen, root_.string()));
    std::filesystem::create_directories(root_);
    runtime::write_file_atomically(root_ / "ready", std::string_view("yes\n"));
    program_ = std::make_unique<runtime::RunningProgram>(
        std::vector<std::string>{"nginx", "-p", folder, "-c", folder + "/nginx.conf"});
    for (int i = 0; i < 200; ++i) {
      if (runtime::run_program({"curl", "-sfI", "-o", "/dev/null", origin() + "/ready"})
              .exit_code == 0)
        return;
      if (program_->wait(std::chrono::milliseconds(50))) break;
    }
    throw std::runtime_error("nginx did not start");
  }
  const std::filesystem::path& root() const { return root_; }
  uint16_t port() const { return port_; }
  std::string origin() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  runtime::TemporaryDirectory folder_;
  std::filesystem::path root_;
  uint16_t port_ = 0;
  std::unique_ptr<runtime::RunningProgram> program_;
};

}  // namespace craton::bench
