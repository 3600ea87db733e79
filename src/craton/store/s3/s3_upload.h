#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "craton/runtime/thread_pool.h"
#include "craton/store/s3/s3_store.h"

namespace craton::store::s3 {

/// One object in parts. Memory: one part that is being filled and at most five on their way. An
/// object that fits into one part is one put.
class S3Upload final : public Upload {
 public:
  S3Upload(std::shared_ptr<S3Service> service, const http::Limits& limits, std::string key);
  ~S3Upload() override;

  void append(std::span<const std::byte> bytes) override;
  void finish() override;

 private:
  void start();
  void send_part();
  void take_results(bool all);
  void complete();
  void abort() noexcept;

  std::unique_ptr<S3Store> store_;
  std::string key_, id_;
  Bytes part_;
  uint64_t size_ = 0;
  std::vector<std::string> etags_;  ///< by part; guarded by mutex_
  std::mutex mutex_;
  std::vector<std::future<void>> sending_;
  std::unique_ptr<runtime::ThreadPool> threads_;
  bool finished_ = false;
};

/// The size of part `number` (from 0): 16 MiB, and more from the 8,000th on, so that the 10,000
/// parts that S3 allows hold the 5 TiB that it allows.
size_t part_size(size_t number);

}  // namespace craton::store::s3
