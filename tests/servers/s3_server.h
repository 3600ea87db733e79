#pragma once

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/runtime/running_program.h"
#include "craton/runtime/socket.h"

namespace craton::tests {

/// A real S3 server: Ceph's RADOS gateway over one monitor and one OSD in memory, on free ports of
/// 127.0.0.1, in a folder of its own. Its daemons are children of this process and end with it.
/// Ready in some 15 seconds on an idle machine.
class S3Server {
 public:
  static constexpr const char* kAccessKey = "CRATONKEY";
  static constexpr const char* kSecretKey = "CRATONSECRET";

  /// The packages that are not there, "" when the server can be started.
  static std::string missing() {
    std::string out;
    for (const char* program : {"ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph"})
      if (std::system((std::string("command -v ") + program + " > /dev/null").c_str()) != 0)
        out += (out.empty() ? "" : ", ") + std::string(program);
    return out.empty() ? std::string() : out + " not installed (tools/install-dependencies --s3)";
  }

  S3Server() {
    const uint16_t monitor_port = free_port();
    s3_port_ = free_port();
    tool({std::string(CRATON_TEST_SERVERS) + "/s3_prepare.sh", folder_.path(),
          std::to_string(monitor_port), std::to_string(s3_port_)});
    daemon({"ceph-mon", "-f", "-c", conf(), "-i", "a"});
    tool({std::string(CRATON_TEST_SERVERS) + "/s3_prepare_osd.sh", folder_.path()});
    daemon({"ceph-osd", "-f", "-c", conf(), "-i", "0"});
    // radosgw-admin waits for the cluster, so the user is there before the gateway is.
    add_user("craton", kAccessKey, kSecretKey);
    daemon({"radosgw", "-f", "-c", conf(), "-n", "client.rgw"});
    wait_until_it_listens();
  }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;
  ~S3Server() {
    while (!daemons_.empty()) daemons_.pop_back();  // the gateway first
  }

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(s3_port_); }
  std::vector<std::string> environment() const {
    return {"CRATON_S3_ENDPOINT=" + endpoint(),
            std::string("AWS_ACCESS_KEY_ID=") + kAccessKey,
            std::string("AWS_SECRET_ACCESS_KEY=") + kSecretKey,
            "AWS_EC2_METADATA_DISABLED=true",
            "AWS_REGION=us-east-1",
            "CRATON_CACHE_DIR=" + (folder_.path() / "cache").string()};
  }
  void add_user(const std::string& name, const std::string& key, const std::string& secret) {
    tool({"radosgw-admin", "-c", conf(), "user", "create", "--uid=" + name,
          "--display-name=" + name, "--access-key=" + key, "--secret-key=" + secret});
  }
  /// Of the user with these keys.
  void make_bucket(const std::string& name, const std::string& key = kAccessKey,
                   const std::string& secret = kSecretKey) const {
    const auto made =
        runtime::run_program({"curl", "-sf", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3",
                              "--user", key + ":" + secret, "-H",
                              "x-amz-content-sha256:UNSIGNED-PAYLOAD", endpoint() + "/" + name});
    if (made.exit_code != 0) fail(ErrorCode::kIo, "no bucket {}: {}", name, made.errors);
  }
  /// `environment` for this process, so that `open_store` finds the server.
  void enter_environment() const {
    for (const std::string& setting : environment()) {
      const size_t equals = setting.find('=');
      ::setenv(setting.substr(0, equals).c_str(), setting.c_str() + equals + 1, 1);
    }
  }
  /// SIGSTOP and SIGCONT of the OSD: the gateway accepts requests and answers none.
  void freeze() { std::next(daemons_.begin())->signal(SIGSTOP); }
  void thaw() { std::next(daemons_.begin())->signal(SIGCONT); }

 private:
  static uint16_t free_port() {
    uint16_t port = 0;
    runtime::listen_tcp("127.0.0.1", port);
    return port;
  }
  std::string conf() const { return folder_.path() / "ceph.conf"; }

  void tool(const std::vector<std::string>& argv) {
    runtime::ProgramOptions options;
    options.timeout = std::chrono::seconds(300);
    const auto result = runtime::run_program(argv, options);
    if (result.exit_code != 0)
      fail(ErrorCode::kIo, "{} ended with {}: {}", argv.front(), result.exit_code, result.errors);
  }
  void daemon(const std::vector<std::string>& argv) { daemons_.emplace_back(argv); }

  void wait_until_it_listens() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (std::chrono::steady_clock::now() < end) {
      const auto probe = runtime::run_program({"curl", "-s", "-o", "/dev/null", endpoint()});
      if (probe.exit_code == 0) return;
      if (daemons_.back().wait(std::chrono::milliseconds(200))) break;
    }
    fail(ErrorCode::kTimeout, "the S3 gateway did not come up");
  }

  runtime::TemporaryDirectory folder_;
  uint16_t s3_port_ = 0;
  std::list<runtime::RunningProgram> daemons_;
};

}  // namespace craton::tests
