#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "craton/store/cache/cache_policy.h"
#include "craton/store/object_store.h"

namespace craton::tokens {

/// How one token is stored; little-endian.
enum class TokenType { kUint8, kUint16, kInt16, kInt32, kUint32, kInt64 };

size_t bytes_of(TokenType type);
std::string_view name_of(TokenType type);

/// A file of tokens that was opened: where they are, and of which version of the object.
struct TokenFile {
  std::shared_ptr<store::ObjectStore> store;
  std::string key, etag;
  std::string uri;     ///< for messages
  std::string format;  ///< "llm.c", "Megatron" or "raw"; for people
  TokenType type = TokenType::kUint16;
  uint64_t first_byte = 0;  ///< of token 0
  int64_t count = 0;        ///< tokens
  int64_t documents = 0;    ///< Megatron's sequences; 0 where the format does not say

  uint64_t data_bytes() const { return static_cast<uint64_t>(count) * bytes_of(type); }
};

struct OpenOptions {
  std::string type;          ///< "uint16", ... of files without header; empty: they are refused
  store::CachePolicy cache;  ///< that files are read through
};

/// Opens what `uri` names, in the order of names:
///   .../train.bin          with llm.c's header (magic 20240520: uint16, 20240801: uint32), or
///                          Megatron's, when train.idx lies beside it
///   .../train  .../train.idx    Megatron's, by prefix or index
///   .../train_*.bin        all that match (`*` and `?` in the last part; the store must list)
/// Reads headers only, some hundred bytes a file. Error (kNotFound, kCorrupt, kUnsupported,
/// kInvalidArgument) that names the file, what was found and what to do.
std::vector<TokenFile> open_token_files(const std::string& uri, const OpenOptions& options);

/// Stored tokens as numbers: `bytes` holds out.size() of them. kCorrupt for a negative one and for
/// one that is not below `vocabulary` (0: unlimited); `first` is its number in the file.
void decode_tokens(const TokenFile& file, std::span<const std::byte> bytes, int64_t first,
                   int64_t vocabulary, std::span<int64_t> out);

}  // namespace craton::tokens
