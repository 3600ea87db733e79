#include "craton/tokens/token_file.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/store/uri.h"

namespace craton::tokens {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kHeaderBytes = 256 * sizeof(int32_t);  // of llm.c
constexpr uint64_t kIndexHeaderBytes = 34;
constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);

template <typename T>
T value_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  CRATON_CHECK(offset + sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct NamedType {
  TokenType type;
  std::string_view name;
  size_t bytes;
};
constexpr std::array kTypes = {
    NamedType{TokenType::kUint8, "uint8", 1},   NamedType{TokenType::kUint16, "uint16", 2},
    NamedType{TokenType::kInt16, "int16", 2},   NamedType{TokenType::kInt32, "int32", 4},
    NamedType{TokenType::kUint32, "uint32", 4}, NamedType{TokenType::kInt64, "int64", 8}};

const NamedType& facts_of(TokenType type) {
  return *std::ranges::find(kTypes, type, &NamedType::type);
}

std::optional<TokenType> type_named(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &NamedType::name);
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

/// Megatron's numbers for NumPy's types; nullopt for those that are no whole numbers.
std::optional<TokenType> type_of_code(uint8_t code) {
  switch (code) {
    case 1:
      return TokenType::kUint8;
    case 3:
      return TokenType::kInt16;
    case 4:
      return TokenType::kInt32;
    case 5:
      return TokenType::kInt64;
    case 8:
      return TokenType::kUint16;
    default:
      return std::nullopt;
  }
}

/// Opens the files of one folder.
class Folder {
 public:
  Folder(std::string root, const OpenOptions& options)
      : root_(std::move(root)), options_(options), store_(store::open_store(root_, options.cache)) {
    if (options.type.empty()) return;
    raw_type_ = type_named(options.type);
    if (!raw_type_)
      fail(ErrorCode::kInvalidArgument,
           "no tokens of type {}; expected uint8, uint16, int16, int32, uint32 or int64",
           options.type);
  }

  std::vector<TokenFile> open(const std::string& name) const {
    if (name.find_first_of("*?") != name.npos) return open_matching(name);
    if (name.ends_with(".idx")) return {open_one(name.substr(0, name.size() - 4) + ".bin")};
    if (!store_->head(name) && store_->head(name + ".bin")) return {open_one(name + ".bin")};
    return {open_one(name)};
  }

 private:
  std::string uri_of(const std::string& name) const { return store::join_uri(store_->uri(), name); }

  std::vector<TokenFile> open_matching(const std::string& pattern) const {
    std::vector<TokenFile> files;
    for (const std::string& name : store_->list_children("")) {
      if (name.ends_with("/") || name.ends_with(".idx")) continue;
      if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0)
        files.push_back(open_one(name));
    }
    if (files.empty())
      fail(ErrorCode::kNotFound, "no file in {} matches {}", store_->uri(), pattern);
    return files;
  }

  TokenFile open_one(const std::string& name) const {
    const auto info = store_->head(name);
    if (!info) fail(ErrorCode::kNotFound, "there is no token file {}", uri_of(name));
    TokenFile file;
    file.store = store_;
    file.key = name;
    file.etag = info->etag;
    file.uri = uri_of(name);
    const std::string index =
        (name.ends_with(".bin") ? name.substr(0, name.size() - 4) : name) + ".idx";
    if (const auto index_info = store_->head(index)) {
      read_index(index, index_info->size, info->size, file);
    } else {
      read_header(info->size, file);
    }
    if (file.count < 2)
      fail(ErrorCode::kInvalidArgument, "{} holds {} tokens; leave it out", file.uri, file.count);
    return file;
  }

  store::Bytes range(const std::string& key, uint64_t offset, uint64_t length) const {
    auto bytes = store_->get_range(key, offset, length);
    if (!bytes) fail(ErrorCode::kNotFound, "{} was removed meanwhile", uri_of(key));
    return *bytes;
  }

  void read_header(uint64_t size, TokenFile& file) const;
  void read_raw(uint64_t size, std::span<const std::byte> head, TokenFile& file) const;
  void read_index(const std::string& index, uint64_t index_size, uint64_t size,
                  TokenFile& file) const;

  std::string root_;
  const OpenOptions& options_;
  std::shared_ptr<store::ObjectStore> store_;
  std::optional<TokenType> raw_type_;
};

void Folder::read_header(uint64_t size, TokenFile& file) const {
  const store::Bytes head = range(file.key, 0, std::min(size, kHeaderBytes));
  const int32_t magic = head.size() >= 12 ? value_at<int32_t>(head, 0) : 0;
  if (magic == 20240522)
    fail(ErrorCode::kUnsupported,
         "{} is an evaluation file of llm.c (multiple choice), no stream of tokens", file.uri);
  if (magic != 20240520 && magic != 20240801) return read_raw(size, head, file);
  const int32_t version = value_at<int32_t>(head, 4);
  const int32_t known = magic == 20240520 ? 1 : 7;
  if (version != known)
    fail(ErrorCode::kUnsupported,
         "{} has version {} of llm.c's header with magic {}; version {} is known", file.uri,
         version, magic, known);
  file.format = "llm.c";
  file.type = magic == 20240520 ? TokenType::kUint16 : TokenType::kUint32;
  file.first_byte = kHeaderBytes;
  file.count = value_at<int32_t>(head, 8);
  if (file.count < 0 || size != kHeaderBytes + file.data_bytes())
    fail(ErrorCode::kCorrupt,
         "{} has {} bytes, but its header says {} tokens of {}, which take {}: it is cut or the "
         "header is wrong",
         file.uri, size, file.count, name_of(file.type),
         kHeaderBytes + (file.count < 0 ? 0 : file.data_bytes()));
}

void Folder::read_raw(uint64_t size, std::span<const std::byte> head, TokenFile& file) const {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("\x93NUMPY"))
    fail(ErrorCode::kUnsupported,
         "{} is a NumPy file; write its numbers as they are (`array.tofile(...)`) and give their "
         "type",
         file.uri);
  if (!raw_type_)
    fail(ErrorCode::kInvalidArgument,
         "{} begins with no header of llm.c (magic 20240520 or 20240801) and has no Megatron .idx "
         "beside it; if it holds nothing but numbers, as nanoGPT writes them, give their type: "
         "`type: uint16`",
         file.uri);
  file.format = "raw";
  file.type = *raw_type_;
  if (size % bytes_of(file.type) != 0)
    fail(ErrorCode::kCorrupt,
         "{} has {} bytes, no multiple of {} ({}): it is cut, or of another type", file.uri, size,
         bytes_of(file.type), name_of(file.type));
  file.count = static_cast<int64_t>(size / bytes_of(file.type));
}

/// Magic, version, code of the type, sequences, document marks; then per sequence an int32 length,
/// per sequence an int64 byte offset, per mark an int64, and in newer files an int8 per sequence.
/// Only both ends of the lists are read: sequences follow each other without gaps.
void Folder::read_index(const std::string& index, uint64_t index_size, uint64_t size,
                        TokenFile& file) const {
  const std::string where = uri_of(index);
  const auto corrupt = [&](const std::string& why) {
    fail(ErrorCode::kCorrupt, "{} {}; write the pair anew with Megatron's preprocess_data.py",
         where, why);
  };
  if (index_size < kIndexHeaderBytes)
    corrupt(fmt::format("has {} bytes and no header", index_size));
  const store::Bytes head = range(index, 0, kIndexHeaderBytes);
  if (std::memcmp(head.data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
    corrupt("does not begin with MMIDIDX: it is no Megatron index");
  const auto version = value_at<uint64_t>(head, 9);
  if (version != 1)
    fail(ErrorCode::kUnsupported, "{} has version {}; version 1 is known", where, version);
  const auto code = value_at<uint8_t>(head, 17);
  const auto type = type_of_code(code);
  if (!type)
    fail(ErrorCode::kUnsupported, "{} has tokens of type code {}; known are 1, 3, 4, 5 and 8",
         where, code);
  const auto sequences = value_at<uint64_t>(head, 18), marks = value_at<uint64_t>(head, 26);
  const uint64_t room = index_size - kIndexHeaderBytes;
  const bool fits = sequences <= room / 12 && marks <= (room - 12 * sequences) / 8;
  const uint64_t rest = fits ? room - 12 * sequences - 8 * marks : 1;
  if (!fits || (rest != 0 && rest != sequences))
    corrupt(fmt::format("has {} bytes, which do not fit {} sequences and {} document marks",
                        index_size, sequences, marks));
  file.format = "Megatron";
  file.type = *type;
  const uint64_t width = bytes_of(*type);
  uint64_t end = 0;
  if (sequences > 0) {
    const uint64_t lengths = kIndexHeaderBytes, pointers = lengths + 4 * sequences;
    const auto last_length = value_at<int32_t>(range(index, lengths + 4 * (sequences - 1), 4), 0);
    const auto first_at = value_at<int64_t>(range(index, pointers, 8), 0);
    const auto last_at = value_at<int64_t>(range(index, pointers + 8 * (sequences - 1), 8), 0);
    if (last_length < 0 || first_at != 0 || last_at < 0)
      corrupt("has sequences that do not follow each other from the start");
    end = static_cast<uint64_t>(last_at) + static_cast<uint64_t>(last_length) * width;
  }
  if (end != size)
    fail(ErrorCode::kCorrupt,
         "{} has {} bytes, but its index {} describes {}: one of them is cut or of another pair",
         file.uri, size, where, end);
  file.count = static_cast<int64_t>(size / width);
  file.documents = static_cast<int64_t>(sequences);
}

template <typename T>
void widen(const TokenFile& file, std::span<const std::byte> bytes, int64_t first,
           int64_t vocabulary, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(T), sizeof(T));
    const auto token = static_cast<int64_t>(stored);
    if (token < 0 || (vocabulary > 0 && token >= vocabulary))
      fail(ErrorCode::kCorrupt,
           "{}: token number {} is {}; expected {}: another tokenizer, or another type than {}",
           file.uri, first + static_cast<int64_t>(i), token,
           vocabulary > 0 ? fmt::format("0 to {} (data.vocabulary)", vocabulary - 1)
                          : std::string("no negative number"),
           name_of(file.type));
    out[i] = token;
  }
}

}  // namespace

size_t bytes_of(TokenType type) { return facts_of(type).bytes; }
std::string_view name_of(TokenType type) { return facts_of(type).name; }

std::vector<TokenFile> open_token_files(const std::string& uri, const OpenOptions& options) {
  const store::ObjectPlace place = store::split_uri(uri);
  if (place.key.empty())
    fail(ErrorCode::kInvalidArgument, "{} names a folder; name a file or a pattern, e.g. {}", uri,
         store::join_uri(uri, "train_*.bin"));
  return Folder(place.root, options).open(place.key);
}

void decode_tokens(const TokenFile& file, std::span<const std::byte> bytes, int64_t first,
                   int64_t vocabulary, std::span<int64_t> out) {
  CRATON_CHECK(bytes.size() == out.size() * bytes_of(file.type));
  switch (file.type) {
    case TokenType::kUint8:
      return widen<uint8_t>(file, bytes, first, vocabulary, out);
    case TokenType::kUint16:
      return widen<uint16_t>(file, bytes, first, vocabulary, out);
    case TokenType::kInt16:
      return widen<int16_t>(file, bytes, first, vocabulary, out);
    case TokenType::kInt32:
      return widen<int32_t>(file, bytes, first, vocabulary, out);
    case TokenType::kUint32:
      return widen<uint32_t>(file, bytes, first, vocabulary, out);
    case TokenType::kInt64:
      return widen<int64_t>(file, bytes, first, vocabulary, out);
  }
}

}  // namespace craton::tokens
