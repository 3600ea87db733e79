#include "craton/base/sha256.h"

#include <openssl/evp.h>

#include "craton/base/check.h"

namespace craton {

struct Sha256::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(handle); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  CRATON_CHECK(EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  CRATON_CHECK(EVP_DigestUpdate(context_->handle, bytes.data(), bytes.size()) == 1);
}

std::array<std::byte, 32> Sha256::digest() {
  std::array<std::byte, 32> out;
  CRATON_CHECK(EVP_DigestFinal_ex(context_->handle, reinterpret_cast<unsigned char*>(out.data()), nullptr) == 1);
  return out;
}

std::string Sha256::hex_digest() {
  const auto bytes = digest();
  return to_hex(bytes);
}

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::byte b : bytes) {
    out += kDigits[static_cast<unsigned>(b) >> 4];
    out += kDigits[static_cast<unsigned>(b) & 15];
  }
  return out;
}

}  // namespace craton
