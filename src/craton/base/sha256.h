#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace craton {

/// SHA-256 (FIPS 180-4) of a stream of bytes.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Ends the stream; call once.
  std::array<std::byte, 32> digest();
  std::string hex_digest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string to_hex(std::span<const std::byte> bytes);

}  // namespace craton
