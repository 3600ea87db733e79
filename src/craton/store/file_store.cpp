#include "craton/store/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/runtime/file.h"

namespace craton::store {

namespace fs = std::filesystem;
using runtime::FileDescriptor;

namespace {

/// Part of the names of files that are being written; never listed.
constexpr std::string_view kTemporaryMark = ".craton-tmp-";

constexpr size_t kKeptBufferBytes = 16 << 20;

bool is_absent(int error_number) { return error_number == ENOENT || error_number == ENOTDIR; }

void check_key(std::string_view key) {
  std::string_view rest = key;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos)
      fail(ErrorCode::kInvalidArgument,
           "\"{}\" is no object key: parts between \"/\" must be names", key);
    if (slash == rest.npos) return;
    rest.remove_prefix(slash + 1);
  }
}

struct OpenFile {
  FileDescriptor fd;
  uint64_t size = 0;
  std::string etag;
};

std::string etag_of(const struct stat& info) {
  return fmt::format("{:x}-{:x}-{:x}{:09}", info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

/// nullopt when there is no such object; a folder is none.
std::optional<OpenFile> open_object(const fs::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (is_absent(errno)) return std::nullopt;
    fail_errno(fmt::format("cannot open {}", path.string()), errno);
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0)
    fail_errno(fmt::format("cannot stat {}", path.string()), errno);
  if (S_ISDIR(info.st_mode)) return std::nullopt;
  return OpenFile{std::move(fd), static_cast<uint64_t>(info.st_size), etag_of(info)};
}

ObjectInfo make_info(std::string key, const struct stat& info) {
  return {std::move(key), static_cast<uint64_t>(info.st_size), etag_of(info)};
}

void make_parent(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    fail_errno(fmt::format("cannot create folder {}", path.parent_path().string()), error.value());
}

/// A file under a temporary name beside `path`; gone unless published.
class FileUpload final : public Upload {
 public:
  FileUpload(fs::path path, Durability durability)
      : path_(std::move(path)), durability_(durability) {
    static std::atomic<uint64_t> counter{0};
    temporary_ = path_.string() + std::string(kTemporaryMark) + std::to_string(::getpid()) + "-" +
                 std::to_string(++counter);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    fd_ = FileDescriptor(::open(temporary_.c_str(), flags, 0644));
    if (!fd_.valid() && errno == ENOENT) {
      make_parent(path_);
      fd_ = FileDescriptor(::open(temporary_.c_str(), flags, 0644));
    }
    if (!fd_.valid()) fail_errno(fmt::format("cannot create {}", path_.string()), errno);
  }

  ~FileUpload() override {
    if (!published_) ::unlink(temporary_.c_str());
  }

  void append(std::span<const std::byte> bytes) override {
    runtime::write_exactly(fd_.get(), bytes, size_, path_.string());
    size_ += bytes.size();
  }

  void finish() override {
    flush();
    CRATON_FAULT_POINT("object.publish");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      fail_errno(fmt::format("cannot write {}", path_.string()), errno);
    published_ = true;
    sync_parent();
  }

  /// False when the object exists already: a hard link never replaces.
  bool finish_if_absent() {
    flush();
    if (::link(temporary_.c_str(), path_.c_str()) != 0) {
      if (errno == EEXIST) return false;
      fail_errno(fmt::format("cannot write {}", path_.string()), errno);
    }
    sync_parent();
    return true;
  }

 private:
  void flush() {
    if (durability_ == Durability::kEachObject && ::fsync(fd_.get()) != 0)
      fail_errno(fmt::format("cannot write {}", path_.string()), errno);
    fd_.reset();
  }
  void sync_parent() {
    if (durability_ == Durability::kEachObject) runtime::sync_directory(path_.parent_path());
  }

  fs::path path_, temporary_;
  Durability durability_;
  FileDescriptor fd_;
  uint64_t size_ = 0;
  bool published_ = false;
};

}  // namespace

FileStore::FileStore(fs::path root, Durability durability)
    : root_(fs::absolute(root).lexically_normal()), durability_(durability) {
  if (!root_.has_filename() && root_.has_relative_path()) root_ = root_.parent_path();
}

std::string FileStore::uri() const { return "file://" + root_.string(); }

void FileStore::sync() {
  FileDescriptor fd(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::syncfs(fd.get()) != 0)
    fail_errno(fmt::format("cannot sync {}", root_.string()), errno);
}

void FileStore::remove_unfinished() {
  std::vector<fs::path> unfinished;
  std::error_code error;
  fs::recursive_directory_iterator it(root_, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().filename().string().find(kTemporaryMark) != std::string::npos)
      unfinished.push_back(it->path());
  }
  if (error && !is_absent(error.value()))
    fail_errno(fmt::format("cannot list {}", root_.string()), error.value());
  for (const fs::path& path : unfinished) ::unlink(path.c_str());
}

Lustre* FileStore::lustre() {
  std::call_once(lustre_once_, [&] { lustre_ = Lustre::of(root_, process_environment()); });
  return lustre_.get();
}

void FileStore::expect_objects(std::string_view folder, uint64_t bytes) {
  if (lustre() == nullptr) return;
  const fs::path path = path_of(folder);
  make_parent(path / "object");
  lustre_->expect_objects(path, bytes);
}

fs::path FileStore::path_of(std::string_view key) const {
  check_key(key);
  return root_ / key;
}

std::optional<Bytes> FileStore::get(std::string_view key) {
  const fs::path path = path_of(key);
  auto file = open_object(path);
  if (!file) return std::nullopt;
  Bytes bytes(file->size);
  runtime::read_exactly(file->fd.get(), bytes, 0, path.string());
  return bytes;
}

std::optional<std::span<const std::byte>> FileStore::get_into(std::string_view key, Bytes& buffer) {
  const fs::path path = path_of(key);
  auto file = open_object(path);
  if (!file) return std::nullopt;
  if (buffer.size() < file->size) buffer.resize(file->size);
  const std::span<std::byte> target(buffer.data(), file->size);
  runtime::read_exactly(file->fd.get(), target, 0, path.string());
  return target;
}

std::optional<Bytes> FileStore::get_range(std::string_view key, uint64_t offset, uint64_t length) {
  const fs::path path = path_of(key);
  auto file = open_object(path);
  if (!file) return std::nullopt;
  if (offset > file->size || length > file->size - offset)
    fail(ErrorCode::kOutOfRange, "{} has {} bytes; bytes {} to {} were asked for", path.string(),
         file->size, offset, offset + length);
  Bytes bytes(length);
  runtime::read_exactly(file->fd.get(), bytes, offset, path.string());
  return bytes;
}

std::optional<Bytes> FileStore::get_suffix(std::string_view key, uint64_t length) {
  const fs::path path = path_of(key);
  auto file = open_object(path);
  if (!file) return std::nullopt;
  Bytes bytes(std::min(length, file->size));
  runtime::read_exactly(file->fd.get(), bytes, file->size - bytes.size(), path.string());
  return bytes;
}

void FileStore::fetch_many(std::span<const ObjectRead> reads, size_t parallel,
                           const ReadSink& sink) {
  thread_local Bytes buffer;  // only ever grows, up to kKeptBufferBytes between calls
  const auto range_of = [](const ObjectRead& read, uint64_t size) {
    const uint64_t length = read.is_whole() ? size
                            : read.from_end ? std::min(read.length, size)
                                            : read.length;
    return std::pair(read.from_end ? size - length : read.is_whole() ? 0 : read.offset, length);
  };
  if (lustre() != nullptr) {
    std::vector<fs::path> files;
    for (const ObjectRead& read : reads) files.push_back(path_of(read.key));
    lustre_->restore(files);
  }
  std::deque<std::optional<OpenFile>> ahead;  // of the reads from i on
  size_t opened = 0;
  for (size_t i = 0; i < reads.size(); ++i) {
    for (; opened < reads.size() && opened < i + std::max<size_t>(1, parallel); ++opened) {
      auto& file = ahead.emplace_back(open_object(path_of(reads[opened].key)));
      if (!file || parallel < 2) continue;
      const auto [offset, length] = range_of(reads[opened], file->size);
      ::posix_fadvise(file->fd.get(), static_cast<off_t>(offset), static_cast<off_t>(length),
                      POSIX_FADV_WILLNEED);
    }
    const ObjectRead& read = reads[i];
    const std::optional<OpenFile> file = std::move(ahead.front());
    ahead.pop_front();
    ObjectFound found;
    if (!file) {
      found.state = ObjectFound::State::kMissing;
      sink(i, found);
      continue;
    }
    found.etag = file->etag;
    found.object_size = file->size;
    if (!read.etag.empty() && read.etag != file->etag) {
      found.state = ObjectFound::State::kChanged;
    } else if (!read.unless_etag.empty() && read.unless_etag == file->etag) {
      found.state = ObjectFound::State::kUnchanged;
    } else {
      const auto [offset, length] = range_of(read, file->size);
      const std::string name = path_of(read.key).string();
      if (offset > file->size || length > file->size - offset)
        fail(ErrorCode::kOutOfRange, "{} has {} bytes; bytes {} to {} were asked for", name,
             file->size, offset, offset + length);
      Bytes own = std::move(buffer);  // the sink may come here again
      if (own.size() < length) own.resize(length);
      const std::span<std::byte> target(own.data(), length);
      runtime::read_exactly(file->fd.get(), target, offset, name);
      found.bytes = target;
      sink(i, found);
      if (own.size() <= kKeptBufferBytes) buffer = std::move(own);
      continue;
    }
    sink(i, found);
  }
}

std::optional<ObjectInfo> FileStore::head(std::string_view key) {
  const fs::path path = path_of(key);
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (is_absent(errno)) return std::nullopt;
    fail_errno(fmt::format("cannot stat {}", path.string()), errno);
  }
  if (S_ISDIR(info.st_mode)) return std::nullopt;
  return make_info(std::string(key), info);
}

std::vector<ObjectInfo> FileStore::list(std::string_view prefix) {
  const size_t slash = prefix.rfind('/');
  const std::string folder(slash == prefix.npos ? "" : prefix.substr(0, slash));
  if (!folder.empty()) check_key(folder);
  std::vector<ObjectInfo> out;
  std::error_code error;
  fs::recursive_directory_iterator it(root_ / folder, error);
  if (error && is_absent(error.value())) return out;
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::string key = it->path().lexically_relative(root_).string();
    if (!key.starts_with(prefix) || key.find(kTemporaryMark) != key.npos) continue;
    struct stat info;
    if (::stat(it->path().c_str(), &info) != 0) continue;  // removed since it was seen
    if (S_ISREG(info.st_mode)) out.push_back(make_info(std::move(key), info));
  }
  if (error) fail_errno(fmt::format("cannot list {}", (root_ / folder).string()), error.value());
  std::ranges::sort(out, {}, &ObjectInfo::key);
  return out;
}

std::vector<std::string> FileStore::list_children(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  if (!folder.empty()) check_key(folder);
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator it(root_ / folder, error);
  if (error && is_absent(error.value())) return out;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find(kTemporaryMark) != name.npos) continue;
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      out.push_back(name + "/");
    } else if (it->is_regular_file(ignored)) {
      out.push_back(name);
    }
  }
  if (error) fail_errno(fmt::format("cannot list {}", (root_ / folder).string()), error.value());
  std::ranges::sort(out);
  return out;
}

void FileStore::put(std::string_view key, std::span<const std::byte> bytes) {
  FileUpload upload(path_of(key), durability_);
  upload.append(bytes);
  upload.finish();
}

bool FileStore::put_if_absent(std::string_view key, std::span<const std::byte> bytes) {
  FileUpload upload(path_of(key), durability_);
  upload.append(bytes);
  return upload.finish_if_absent();
}

std::unique_ptr<Upload> FileStore::start_upload(std::string_view key) {
  return std::make_unique<FileUpload>(path_of(key), durability_);
}

void FileStore::remove(std::string_view key) {
  const fs::path path = path_of(key);
  if (::unlink(path.c_str()) != 0 && !is_absent(errno) && errno != EISDIR)
    fail_errno(fmt::format("cannot remove {}", path.string()), errno);
}

}  // namespace craton::store
