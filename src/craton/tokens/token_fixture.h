#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "craton/store/object_store.h"

namespace craton::tokens::fixture {

/// Files as the tools of users write them, from the formats' descriptions.
class FileBuilder {
 public:
  template <typename T>
  FileBuilder& add(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  FileBuilder& text(std::string_view value) {
    for (const char c : value) add(c);
    return *this;
  }
  template <typename T>
  FileBuilder& tokens(int64_t count, int64_t first = 0) {
    for (int64_t i = 0; i < count; ++i) add(static_cast<T>(first + i));
    return *this;
  }
  const store::Bytes& bytes() const { return bytes_; }
  store::Bytes& bytes() { return bytes_; }

 private:
  store::Bytes bytes_;
};

/// llm.c: 256 int32, then tokens 0, 1, 2, ...
inline FileBuilder llm_c(int64_t count, int32_t magic = 20240520, int32_t version = 1) {
  FileBuilder file;
  file.add(magic).add(version).add(static_cast<int32_t>(count));
  for (int i = 3; i < 256; ++i) file.add(int32_t{0});
  return magic == 20240801 ? file.tokens<uint32_t>(count) : file.tokens<uint16_t>(count);
}

/// Megatron's index of documents with these lengths.
inline FileBuilder megatron_index(const std::vector<int32_t>& lengths, uint8_t code,
                                  int64_t width) {
  FileBuilder file;
  file.text(std::string_view("MMIDIDX\0\0", 9)).add(uint64_t{1}).add(code);
  file.add(static_cast<uint64_t>(lengths.size())).add(static_cast<uint64_t>(lengths.size() + 1));
  for (const int32_t length : lengths) file.add(length);
  int64_t at = 0;
  for (const int32_t length : lengths) {
    file.add(at);
    at += length * width;
  }
  for (size_t d = 0; d <= lengths.size(); ++d) file.add(static_cast<int64_t>(d));
  return file;
}

/// A folder of its own in memory.
inline std::string fresh_uri() {
  static int counter = 0;
  return "memory://tokens-" + std::to_string(++counter);
}

}  // namespace craton::tokens::fixture
