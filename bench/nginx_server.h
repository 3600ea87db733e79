#pragma once

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/runtime/running_program.h"
#include "craton/runtime/socket.h"

namespace craton::bench {

/// nginx that serves the files below `root()`; ends with this program.
class Nginx {
 public:
  Nginx() {
    { runtime::FileDescriptor taken = runtime::listen_tcp("127.0.0.1", port_); }
    const std::string folder = folder_.path();
    runtime::write_file_atomically(
        folder_.path() / "nginx.conf",
        fmt::format(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\n"
            "events {{ worker_connections 1024; }}\n"
            "http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000;\n"
            "  client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0};\n"
            "  uwsgi_temp_path {0}; scgi_temp_path {0};\n"
            "  server {{ listen 127.0.0.1:{1}; root {0}/www; }} }}\n",
            folder, port_));
    std::filesystem::create_directories(root());
    runtime::write_file_atomically(root() / "ready", std::string_view("yes\n"));
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
  std::filesystem::path root() const { return folder_.path() / "www"; }
  uint16_t port() const { return port_; }
  std::string origin() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  runtime::TemporaryDirectory folder_;
  uint16_t port_ = 0;
  std::unique_ptr<runtime::RunningProgram> program_;
};

}  // namespace craton::bench
