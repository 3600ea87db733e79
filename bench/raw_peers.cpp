#include "raw_peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>

#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/runtime/running_program.h"

namespace craton::bench {

void for_all_at_once(const std::function<void(size_t)>& body) {
  std::vector<std::future<void>> all;
  for (size_t i = 0; i < RawObjects::kCount; ++i)
    all.push_back(std::async(std::launch::async, body, i));
  for (auto& one : all) one.get();
}

namespace {

constexpr const char* kPython = "/usr/bin/python3";  // Debian's has Debian's modules

bool succeeds(const std::vector<std::string>& command) {
  return runtime::run_program(command).exit_code == 0;
}

void run(const std::vector<std::string>& command, const runtime::ProgramOptions& options = {}) {
  const auto result = runtime::run_program(command, options);
  if (result.exit_code != 0) throw std::runtime_error(command.front() + ": " + result.errors);
}

/// The same command for each object, `repeats` times.
void run_for_each(const RawObjects& objects,
                  const std::function<std::vector<std::string>(size_t)>& command) {
  for_all_at_once([&](size_t i) {
    for (int r = 0; r < objects.repeats; ++r) run(command(i));
  });
}

RawPeer curl(const RawObjects& objects) {
  return {.name = "curl x8", .reach = 0.9, .work = [objects] {
            for_all_at_once([&](size_t i) {
              std::vector<std::string> command = {"curl", "-sf"};
              for (int r = 0; r < objects.repeats; ++r)
                command.insert(command.end(),
                               {"-o", "/dev/null", objects.origin + "/bucket/" + objects.key(i)});
              run(command);
            });
          }};
}

RawPeer aws(const RawObjects& objects) {
  return {.name = "aws s3 cp x8", .work = [objects] {
            run_for_each(objects, [&](size_t i) -> std::vector<std::string> {
              return {"aws",
                      "--endpoint-url",
                      objects.origin,
                      "--no-sign-request",
                      "s3",
                      "cp",
                      "s3://bucket/" + objects.key(i),
                      "/dev/null"};
            });
          }};
}

/// Into files: elsewhere it writes only after asking for a listing.
RawPeer rclone(const RawObjects& objects) {
  auto files = std::make_shared<runtime::TemporaryDirectory>();
  return {.name = "rclone copyto x8", .work = [objects, files] {
            run_for_each(objects, [&](size_t i) -> std::vector<std::string> {
              return {"env",
                      "-u",
                      "AWS_CA_BUNDLE",
                      "rclone",
                      "copyto",
                      "-I",
                      fmt::format(":s3,provider=Other,env_auth=false,endpoint='{}':bucket/{}",
                                  objects.origin, objects.key(i)),
                      (files->path() / objects.key(i)).string()};
            });
          }};
}

/// One process for each object, which reads it piece by piece into the same memory; malloc is told
/// to keep its pages.
RawPeer gdal(const RawObjects& objects, const std::string& handler) {
  return {.name = "GDAL /" + handler + " x8", .work = [objects, handler] {
            runtime::ProgramOptions options;
            options.environment = {"MALLOC_MMAP_THRESHOLD_=1073741824",
                                   "MALLOC_TRIM_THRESHOLD_=1073741824",
                                   "MALLOC_TOP_PAD_=268435456"};
            run({kPython, CRATON_SOURCE_DIR "/bench/peers/read_vsis3.py", objects.origin, handler,
                 std::to_string(objects.kCount), std::to_string(objects.kBytes),
                 std::to_string(objects.repeats)},
                options);
          }};
}

/// A bucket as a folder, in a mount namespace of its own: however this program ends, nothing stays
/// mounted. What is read goes through a file in memory, which goes when its last reader closes it.
class S3fsMount {
 public:
  explicit S3fsMount(const RawObjects& objects)
      : program_({"unshare",      "--mount",
                  "s3fs",         "bucket",
                  folder_.path(), "-f",
                  "-o",           "public_bucket=1",
                  "-o",           "url=" + objects.origin,
                  "-o",           "use_path_request_style",
                  "-o",           "parallel_count=4",
                  "-o",           "multipart_size=16",
                  "-o",           "direct_io",
                  "-o",           "tmpdir=/dev/shm"}) {
    for (int i = 0; i < 100 && !works_; ++i) {
      if (program_.wait(std::chrono::milliseconds(50))) return;
      works_ = succeeds(inside({"test", "-f", file(0)}));
    }
  }
  bool works() const { return works_; }
  std::string file(size_t i) const { return folder_.path() / RawObjects::key(i); }
  /// `command` where the folder is mounted.
  std::vector<std::string> inside(std::vector<std::string> command) const {
    command.insert(command.begin(), {"nsenter", "-t", std::to_string(program_.pid()), "--mount"});
    return command;
  }
  double processor_seconds() const {
    std::ifstream file(fmt::format("/proc/{}/stat", program_.pid()));
    std::string stat;
    std::getline(file, stat);
    unsigned long user = 0, system = 0;  // fields 14 and 15; the name, in brackets, is the second
    if (std::sscanf(stat.c_str() + stat.rfind(')') + 1,
                    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
      throw std::runtime_error("no processor time of s3fs in " + stat);
    return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

 private:
  runtime::TemporaryDirectory folder_;
  runtime::RunningProgram program_;
  bool works_ = false;
};

/// Null where nothing can be mounted.
std::shared_ptr<S3fsMount> mount_s3fs(const RawObjects& objects) {
  // It asks for a listing first. For a folder, nginx gives this one.
  runtime::write_file_atomically(
      objects.folder / "index.html",
      std::string_view("<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult "
                       "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>bucket</Name>"
                       "<IsTruncated>false</IsTruncated></ListBucketResult>"));
  auto mount = std::make_shared<S3fsMount>(objects);
  return mount->works() ? mount : nullptr;
}

RawPeer s3fs(const RawObjects& objects, std::shared_ptr<S3fsMount> mount) {
  return {.name = "s3fs x8",
          .work =
              [objects, mount] {
                for_all_at_once([&](size_t i) {
                  std::vector<std::string> command = {"sh", "-c", "cat \"$@\" > /dev/null", "sh"};
                  command.insert(command.end(), static_cast<size_t>(objects.repeats),
                                 mount->file(i));
                  run(mount->inside(command));
                });
              },
          .daemon_seconds = [mount] { return mount->processor_seconds(); }};
}

}  // namespace

std::vector<RawPeer> raw_peers(const RawObjects& objects) {
  std::vector<RawPeer> peers = {curl(objects)};
  const auto missing = [](const char* what) {
    std::fprintf(stderr, "bench_stream: no %s here; its rows are left out\n", what);
  };
  if (succeeds({"sh", "-c", "aws --version"}))
    peers.push_back(aws(objects));
  else
    missing("aws");
  if (succeeds({"sh", "-c", "rclone version"}))
    peers.push_back(rclone(objects));
  else
    missing("rclone");
  if (succeeds({"sh", "-c", std::string(kPython) + " -c 'from osgeo import gdal'"})) {
    peers.push_back(gdal(objects, "vsis3"));
    peers.push_back(gdal(objects, "vsis3_streaming"));
  } else {
    missing("python3-gdal");
  }
  if (!succeeds({"sh", "-c", "command -v s3fs"}))
    missing("s3fs");
  else if (auto mount = mount_s3fs(objects))
    peers.push_back(s3fs(objects, mount));
  else
    missing("right to mount for s3fs");
  return peers;
}

}  // namespace craton::bench
