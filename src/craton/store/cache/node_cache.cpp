#include "craton/store/cache/node_cache.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/log.h"

namespace craton::store {

namespace fs = std::filesystem;
using runtime::FileDescriptor;

namespace {

constexpr std::array<char, 8> kMagic = {'C', 'R', 'A', 'T', 'C', 'H', '1', '\n'};
constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr uint64_t kUsagePlace = uint64_t{1} << 62;  ///< claims lie below
constexpr auto kUsageTimeout = std::chrono::seconds(1);
constexpr auto kPoll = std::chrono::milliseconds(2);
constexpr auto kOldTemporary = std::chrono::hours(1);
constexpr int64_t kMostClockStepMs = 60'000;  ///< an entry of the future is not trusted

/// The start of an entry's file. Then: key, ETag, zeros up to `header_bytes`, the bytes.
struct Header {
  std::array<char, 8> magic;
  uint64_t header_hash;  ///< of all of the header behind `confirmed_ms`, with key and ETag
  int64_t confirmed_ms;  ///< changes in place; no checksum covers it
  uint32_t key_bytes, etag_bytes;
  uint64_t header_bytes;
  uint64_t object_size;
  uint64_t payload_bytes, payload_hash;
};
constexpr size_t kHashedFrom = offsetof(Header, key_bytes);

int64_t to_ms(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

int64_t now_ms() { return to_ms(std::chrono::system_clock::now()); }

uint64_t header_hash(std::span<const std::byte> header) {
  return XXH3_64bits(header.data() + kHashedFrom, header.size() - kHashedFrom);
}

/// An entry's file in its parts; views of the file.
struct ParsedEntry {
  Header header;
  std::string_view key, etag;
  std::span<const std::byte> bytes;
};

/// nullopt for what is not in order.
std::optional<ParsedEntry> parse_entry(std::span<const std::byte> file) {
  if (file.size() < sizeof(Header)) return std::nullopt;
  ParsedEntry entry;
  Header& header = entry.header;
  std::memcpy(&header, file.data(), sizeof(header));
  const uint64_t names = uint64_t{header.key_bytes} + header.etag_bytes;
  if (header.magic != kMagic || header.header_bytes > file.size() ||
      header.header_bytes < sizeof(Header) + names ||
      header.payload_bytes != file.size() - header.header_bytes ||
      header.header_hash != header_hash(file.first(header.header_bytes)))
    return std::nullopt;
  entry.bytes = file.subspan(header.header_bytes);
  if (XXH3_64bits(entry.bytes.data(), entry.bytes.size()) != header.payload_hash)
    return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(file.data()) + sizeof(Header);
  entry.key = {text, header.key_bytes};
  entry.etag = {text + header.key_bytes, header.etag_bytes};
  return entry;
}

bool is_name(std::string_view name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

/// The folder's own name for itself: the first process makes it.
std::string read_or_make_id(const fs::path& path) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::error_code error;
    if (fs::exists(path, error)) {
      const std::string id = runtime::read_text(path);
      if (is_name(id)) return id;
    }
    std::array<uint64_t, 2> random{};
    if (::getentropy(random.data(), sizeof(random)) != 0) fail_errno("no random numbers", errno);
    const std::string id = fmt::format("{:016x}{:016x}", random[0], random[1]);
    const std::string temporary = fmt::format("{}.{}", path.string(), ::getpid());
    runtime::write_file_atomically(temporary, id);
    // link, not rename: of two that do this at once one wins, and both read its id.
    const int linked = ::link(temporary.c_str(), path.c_str());
    if (linked != 0 && errno == EEXIST && attempt > 0) ::unlink(path.c_str());  // damaged
    ::unlink(temporary.c_str());
  }
  fail(ErrorCode::kIo, "cannot write {}", path.string());
}

/// What a file of this size takes.
uint64_t disk_bytes(uint64_t size) { return (size + 4095) / 4096 * 4096; }

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

struct CachedFile {
  fs::path path;
  uint64_t bytes = 0;
  timespec used{};
  bool temporary = false;
};

std::vector<CachedFile> list_files(const fs::path& folder) {
  std::vector<CachedFile> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder / "v1", error), end; !error && it != end;
       it.increment(error)) {
    struct stat info;
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const bool temporary = it->path().filename().string().find(kTemporaryMark) != std::string::npos;
    out.push_back(
        {it->path(), disk_bytes(static_cast<uint64_t>(info.st_size)), info.st_atim, temporary});
  }
  return out;
}

/// Whether nobody will finish it: its process is gone, or it is very old.
bool is_abandoned(const CachedFile& file) {
  const std::string name = file.path.filename().string();
  const int pid = std::atoi(name.c_str() + name.find(kTemporaryMark) + kTemporaryMark.size());
  if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) return true;
  const int64_t age_ms = now_ms() - int64_t{file.used.tv_sec} * 1000;
  return age_ms > std::chrono::milliseconds(kOldTemporary).count();
}

}  // namespace

struct NodeCache::Usage {
  std::atomic<uint64_t> bytes;  ///< of all files; may be too high, never too low
};

/// One process and thread at a time books room; the kernel releases it when the holder dies.
class NodeCache::UsageLock {
 public:
  explicit UsageLock(NodeCache& cache) : cache_(cache), mutex_(cache.usage_mutex_) {
    const auto end = std::chrono::steady_clock::now() + kUsageTimeout;
    while (!(held_ = cache_.lock_place(kUsagePlace, true)) &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kPoll);
  }
  ~UsageLock() {
    if (held_) cache_.lock_place(kUsagePlace, false);
  }
  bool held() const { return held_; }

 private:
  NodeCache& cache_;
  std::lock_guard<std::mutex> mutex_;
  bool held_ = false;
};

NodeCache::Entry::~Entry() {
  if (map_ != nullptr) ::munmap(map_, map_bytes_);
}

NodeCache::Claim::~Claim() {
  if (cache_ == nullptr) return;
  const std::lock_guard lock(cache_->claims_mutex_);
  cache_->lock_place(place_, false);
  cache_->claims_.erase(place_);
}

std::shared_ptr<NodeCache> NodeCache::open(const NodeCacheOptions& options) {
  return std::shared_ptr<NodeCache>(new NodeCache(options));
}

NodeCache::NodeCache(NodeCacheOptions options) : options_(std::move(options)) {
  options_.folder = fs::absolute(options_.folder).lexically_normal();
  std::error_code error;
  fs::create_directories(options_.folder / "v1", error);
  if (error)
    fail_errno(fmt::format("cannot make the cache folder {}", options_.folder.string()),
               error.value());
  const auto open_file = [&](const char* name) {
    const fs::path path = options_.folder / name;
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd.valid()) fail_errno(fmt::format("cannot open {}", path.string()), errno);
    return fd;
  };
  id_ = read_or_make_id(options_.folder / "id");
  lock_file_ = open_file("lock");
  usage_file_ = open_file("usage");
  if (::ftruncate(usage_file_.get(), sizeof(Usage)) != 0)
    fail_errno(fmt::format("cannot write {}", (options_.folder / "usage").string()), errno);
  void* map =
      ::mmap(nullptr, sizeof(Usage), PROT_READ | PROT_WRITE, MAP_SHARED, usage_file_.get(), 0);
  if (map == MAP_FAILED)
    fail_errno(fmt::format("cannot map {}", (options_.folder / "usage").string()), errno);
  usage_ = static_cast<Usage*>(map);
}

uint64_t NodeCache::booked_bytes(const fs::path& folder) {
  const FileDescriptor fd(::open((folder / "usage").c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t bytes = 0;
  const bool read = fd.valid() && ::pread(fd.get(), &bytes, sizeof(bytes), 0) == sizeof(bytes);
  return read ? bytes : 0;
}

NodeCache::~NodeCache() { ::munmap(usage_, sizeof(Usage)); }

/// Takes or gives back one byte of the lock file for this process; never waits.
bool NodeCache::lock_place(uint64_t place, bool take) const {
  struct flock lock {};
  lock.l_type = take ? F_WRLCK : F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(place);
  lock.l_len = 1;
  return ::fcntl(lock_file_.get(), F_OFD_SETLK, &lock) == 0;
}

std::string NodeCache::name_of(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

fs::path NodeCache::path_of(std::string_view name) const {
  return options_.folder / "v1" / name.substr(0, 2) / name.substr(2);
}

void NodeCache::warn_once(const std::string& what) {
  if (!warned_.exchange(true))
    log_warning("{}; the cache {} is not filled further", what, options_.folder.string());
}

std::shared_ptr<NodeCache::Entry> NodeCache::read_entry(std::string_view name,
                                                        std::string_view key) {
  const fs::path path = path_of(name);
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return nullptr;
  const auto damaged = [&]() -> std::shared_ptr<Entry> {
    ++damaged_;
    ::unlink(path.c_str());
    return nullptr;
  };
  const auto size = static_cast<size_t>(info.st_size);
  if (size < sizeof(Header)) return damaged();
  // All of it is read at once, for its checksum.
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (map == MAP_FAILED) return nullptr;
  std::shared_ptr<Entry> entry(new Entry());
  entry->map_ = static_cast<std::byte*>(map);
  entry->map_bytes_ = size;
  const auto parsed = parse_entry(entry->image());
  if (!parsed) return damaged();
  if (!key.empty() && parsed->key != key) return nullptr;
  entry->bytes_ = parsed->bytes;
  entry->etag_ = parsed->etag;
  entry->object_size_ = parsed->header.object_size;
  entry->confirmed_ = parsed->header.confirmed_ms >= to_ms(options_.trusted_since) &&
                      parsed->header.confirmed_ms <= now_ms() + kMostClockStepMs;
  entry->fd_ = std::move(fd);
  return entry;
}

std::shared_ptr<NodeCache::Entry> NodeCache::find_name(std::string_view name) {
  return is_name(name) ? read_entry(name, "") : nullptr;
}

std::shared_ptr<NodeCache::Entry> NodeCache::find(std::string_view key) {
  auto entry = read_entry(name_of(key), key);
  if (!entry) {
    ++misses_;
    return nullptr;
  }
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};  // used now
  ::futimens(entry->fd_.get(), times);
  ++hits_;
  return entry;
}

void NodeCache::confirm(Entry& entry) {
  const int64_t now = now_ms();
  [[maybe_unused]] const auto written =
      ::pwrite(entry.fd_.get(), &now, sizeof(now), offsetof(Header, confirmed_ms));
  entry.confirmed_ = true;
}

/// With the usage lock held: makes the files fit with `bytes` more. Counts anew, so that what
/// killed processes booked in vain is found again.
bool NodeCache::make_room(uint64_t bytes) {
  if (usage_->bytes.load() + bytes <= options_.bytes) return true;
  std::vector<CachedFile> files = list_files(options_.folder);
  uint64_t total = 0;
  for (CachedFile& file : files) {
    if (file.temporary && is_abandoned(file) && ::unlink(file.path.c_str()) == 0) file.bytes = 0;
    total += file.bytes;
  }
  std::ranges::sort(files, {}, [](const CachedFile& file) {
    return std::pair(file.used.tv_sec, file.used.tv_nsec);
  });
  // Some more than is needed, so that not every entry costs a listing.
  const uint64_t goal = options_.bytes - std::min(options_.bytes, options_.bytes / 8 + bytes);
  if (total + bytes > options_.bytes) {
    for (const CachedFile& file : files) {
      if (total <= goal) break;
      if (file.temporary || file.bytes == 0) continue;
      CRATON_FAULT_POINT("cache.evict");
      if (::unlink(file.path.c_str()) != 0 && errno != ENOENT) continue;
      total -= file.bytes;
      ++evicted_;
    }
  }
  usage_->bytes.store(total);
  return total + bytes <= options_.bytes;
}

bool NodeCache::put(std::string_view key, std::string_view etag, uint64_t object_size,
                    std::span<const std::byte> bytes) {
  return write_entry(key, etag, object_size, bytes, now_ms());
}

bool NodeCache::put_absence(std::string_view key) {
  return write_entry(key, "", Entry::kAbsent, {}, now_ms());
}

bool NodeCache::put_image(std::string_view name, std::span<const std::byte> image) {
  const auto parsed = parse_entry(image);
  if (!parsed || parsed->key.empty() || name_of(parsed->key) != name) return false;
  return write_entry(parsed->key, parsed->etag, parsed->header.object_size, parsed->bytes,
                     parsed->header.confirmed_ms);
}

bool NodeCache::write_entry(std::string_view key, std::string_view etag, uint64_t object_size,
                            std::span<const std::byte> bytes, int64_t confirmed_ms) {
  Header header{};
  header.magic = kMagic;
  header.confirmed_ms = confirmed_ms;
  header.key_bytes = static_cast<uint32_t>(key.size());
  header.etag_bytes = static_cast<uint32_t>(etag.size());
  header.header_bytes = (sizeof(Header) + key.size() + etag.size() + 63) / 64 * 64;
  header.object_size = object_size;
  header.payload_bytes = bytes.size();
  header.payload_hash = XXH3_64bits(bytes.data(), bytes.size());
  std::vector<std::byte> head(header.header_bytes);
  std::memcpy(head.data(), &header, sizeof(header));
  std::memcpy(head.data() + sizeof(header), key.data(), key.size());
  std::memcpy(head.data() + sizeof(header) + key.size(), etag.data(), etag.size());
  header.header_hash = header_hash(head);
  std::memcpy(head.data(), &header, sizeof(header));

  const uint64_t size = head.size() + bytes.size(), booked = disk_bytes(size);
  if (booked > options_.bytes / 8) return false;
  const fs::path path = path_of(name_of(key));
  const std::string temporary =
      fmt::format("{}{}{}-{}", path.string(), kTemporaryMark, ::getpid(), temporary_.fetch_add(1));
  FileDescriptor fd;
  {
    const UsageLock lock(*this);
    if (!lock.held() || !make_room(booked)) return false;
    usage_->bytes += booked;  // before the file is there: killed in between, it is too high
    const auto create = [&] {
      return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    };
    fd = FileDescriptor(create());
    if (!fd.valid() && errno == ENOENT) {
      ::mkdir(path.parent_path().c_str(), 0755);
      fd = FileDescriptor(create());
    }
    if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
      warn_once(fmt::format("cannot write {}: {}", temporary, std::strerror(errno)));
      if (fd.valid()) ::unlink(temporary.c_str());
      usage_->bytes -= booked;
      return false;
    }
  }
  CRATON_FAULT_POINT("cache.write");
  const bool full = CRATON_FAULT_POINT("cache.full");
  const bool written = !full && write_all(fd.get(), head) && write_all(fd.get(), bytes);
  const int reason = full ? ENOSPC : errno;
  CRATON_FAULT_POINT("cache.publish");
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    if (!written) warn_once(fmt::format("cannot write {}: {}", temporary, std::strerror(reason)));
    ::unlink(temporary.c_str());  // stays booked until the next count
    return false;
  }
  ++stored_;
  return true;
}

std::optional<NodeCache::Claim> NodeCache::try_claim(std::string_view key) {
  const uint64_t place = XXH3_64bits(key.data(), key.size()) & (kUsagePlace - 1);
  const std::lock_guard lock(claims_mutex_);
  if (claims_.contains(place) || !lock_place(place, true)) return std::nullopt;
  claims_.insert(place);
  return Claim(this, place);
}

std::optional<NodeCache::Claim> NodeCache::claim(std::string_view key,
                                                 std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (auto claim = try_claim(key)) return claim;
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kPoll);
  }
}

NodeCacheCounters NodeCache::counters() const {
  return {hits_, misses_, stored_, evicted_, damaged_};
}

uint64_t NodeCache::count_bytes() const {
  uint64_t total = 0;
  for (const CachedFile& file : list_files(options_.folder)) total += file.bytes;
  return total;
}

}  // namespace craton::store
