#include "craton/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "craton/base/error.h"
#include "craton/checkpoint/safetensors_header.h"

namespace craton::checkpoint {
namespace {

constexpr uint64_t kAlignment = 8;
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr uint64_t kLengthBytes = 8;

void put_length(uint64_t value, std::byte* out) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

uint64_t get_length(const std::byte* in) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= std::to_integer<uint64_t>(in[i]) << (8 * i);
  return value;
}

}  // namespace

uint64_t dtype_bytes(std::string_view dtype) {
  static const std::map<std::string_view, uint64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

uint64_t element_count(std::span<const int64_t> shape) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t count = 1;
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) fail(ErrorCode::kCorrupt, "a shape has the extent {}", extent);
    if (extent == 0) {
      empty = true;
    } else if (count > kMost / static_cast<uint64_t>(extent)) {
      fail(ErrorCode::kCorrupt, "a shape has more elements than can be");
    } else {
      count *= static_cast<uint64_t>(extent);
    }
  }
  return empty ? 0 : count;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)) {
  for (const TensorInfo& tensor : tensors) {
    if (dtype_bytes(tensor.dtype) == 0) {
      fail(ErrorCode::kUnsupported,
           "tensor '{}' has the type '{}', which safetensors does not know", tensor.name,
           tensor.dtype);
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return dtype_bytes(a.dtype) > dtype_bytes(b.dtype);
  });
  uint64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    tensor.offset = end;
    tensor.bytes = element_count(tensor.shape) * dtype_bytes(tensor.dtype);
    end += tensor.bytes;
  }
  std::string header = header_text(tensors, metadata);
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  if (header.size() > kLongestHeader) {
    fail(ErrorCode::kUnsupported,
         "{} tensors need a header of {} bytes, more than a safetensors file may have",
         tensors.size(), header.size());
  }
  const uint64_t data_start = kLengthBytes + header.size();
  file_bytes_ = data_start + end;
  for (TensorInfo& tensor : tensors) {
    tensor.offset += data_start;
    const std::string name = tensor.name;
    if (!entries_.emplace(name, Entry{std::move(tensor), 0}).second) {
      fail(ErrorCode::kInvalidArgument, "two tensors are named '{}'", name);
    }
  }
  fd_ = runtime::FileDescriptor(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd_.valid()) fail_errno(fmt::format("cannot create {}", path_.string()), errno);
  std::byte length[kLengthBytes];
  put_length(header.size(), length);
  try {
    runtime::write_exactly(fd_.get(), length, 0, path_.string());
    runtime::write_exactly(fd_.get(), std::as_bytes(std::span(header)), kLengthBytes,
                           path_.string());
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!finished_ && fd_.valid()) ::unlink(path_.c_str());
}

void SafetensorsWriter::write(std::string_view name, uint64_t offset,
                              std::span<const std::byte> bytes) {
  const auto found = entries_.find(std::string(name));
  if (found == entries_.end()) {
    fail(ErrorCode::kInvalidArgument, "{} has no tensor '{}'", path_.string(), name);
  }
  Entry& entry = found->second;
  if (offset > entry.info.bytes || bytes.size() > entry.info.bytes - offset) {
    fail(ErrorCode::kOutOfRange, "tensor '{}' has {} bytes; {} at {} do not fit", name,
         entry.info.bytes, bytes.size(), offset);
  }
  runtime::write_exactly(fd_.get(), bytes, entry.info.offset + offset, path_.string());
  entry.written += bytes.size();
}

void SafetensorsWriter::finish() {
  for (const auto& [name, entry] : entries_) {
    if (entry.written != entry.info.bytes) {
      fail(ErrorCode::kInternal, "tensor '{}' of {} has {} bytes, {} were written", name,
           path_.string(), entry.info.bytes, entry.written);
    }
  }
  if (::fsync(fd_.get()) != 0) fail_errno(fmt::format("cannot write {}", path_.string()), errno);
  fd_.reset();
  finished_ = true;
}

SafetensorsReader::SafetensorsReader(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = runtime::open_for_reading(path_);
  struct stat info;
  if (::fstat(fd_.get(), &info) != 0)
    fail_errno(fmt::format("cannot stat {}", path_.string()), errno);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < kLengthBytes) {
    fail(ErrorCode::kCorrupt, "{} is no safetensors file: {} bytes long", path_.string(), size);
  }
  std::byte length[kLengthBytes];
  runtime::read_exactly(fd_.get(), length, 0, path_.string());
  const uint64_t header_bytes = get_length(length);
  if (header_bytes > kLongestHeader || header_bytes > size - kLengthBytes) {
    fail(ErrorCode::kCorrupt, "{} is no safetensors file: its header would have {} of {} bytes",
         path_.string(), header_bytes, size);
  }
  std::string header(header_bytes, '\0');
  runtime::read_exactly(fd_.get(), std::as_writable_bytes(std::span(header)), kLengthBytes,
                        path_.string());
  const uint64_t data_start = kLengthBytes + header_bytes;
  try {
    parse_header(header, size - data_start, tensors_, metadata_);
  } catch (const Error& e) {
    fail(ErrorCode::kCorrupt, "{} is no valid safetensors file: {}", path_.string(), e.message());
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].offset += data_start;
    by_name_.emplace(tensors_[i].name, i);
  }
}

const TensorInfo* SafetensorsReader::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsReader::read(const TensorInfo& tensor, uint64_t offset,
                             std::span<std::byte> out) const {
  if (offset > tensor.bytes || out.size() > tensor.bytes - offset) {
    fail(ErrorCode::kOutOfRange, "tensor '{}' of {} has {} bytes; asked for {} at {}", tensor.name,
         path_.string(), tensor.bytes, out.size(), offset);
  }
  runtime::read_exactly(fd_.get(), out, tensor.offset + offset, path_.string());
}

}  // namespace craton::checkpoint
