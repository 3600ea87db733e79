// What a server sends: XML, credentials, headers, ranges. Any bytes must end in a value or an
// Error.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "craton/base/error.h"
#include "craton/store/http/body_reader.h"
#include "craton/store/http/client.h"
#include "craton/store/http/message.h"
#include "craton/store/http/retry.h"
#include "craton/store/s3/credentials.h"
#include "craton/store/s3/profile.h"
#include "craton/store/s3/xml.h"

using namespace craton;
using namespace craton::store;

namespace {

template <typename Body>
void attempt(Body body) {
  try {
    body();
  } catch (const Error&) {
  }
}

/// An answer whose header fields are the input's lines, read as a range, a suffix and a whole.
void read_bodies(std::string_view text) {
  http::Response head;
  head.status = !text.empty() && (text[0] & 1) != 0 ? 206 : 200;
  size_t at = 0;
  for (const char* name : {"Content-Range", "Content-Length", "ETag"}) {
    const size_t end = text.find('\n', at);
    head.headers.add(name, text.substr(at, end == text.npos ? text.npos : end - at));
    if (end == text.npos) break;
    at = end + 1;
  }
  const auto body = std::as_bytes(std::span(text));
  std::vector<std::byte> buffer;
  for (http::BodyReader reader :
       {http::BodyReader::whole(buffer), http::BodyReader::range(buffer, 3, 5),
        http::BodyReader::suffix(buffer, 7)}) {
    if (reader.begin(head) != http::Fault::kNone) continue;
    if (reader.write(body) != http::Fault::kNone) continue;
    if (reader.complete() && reader.received() > buffer.size()) __builtin_trap();
    http::Headers more;
    reader.add_headers(more);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] { s3::parse_xml(text).find("Credentials"); });
  attempt([&] { s3::parse_credentials_xml(text); });
  attempt([&] { s3::parse_credentials_json(text, "the input"); });
  attempt([&] { http::parse_url(text); });
  attempt([&] { http::resolve_redirect(http::parse_url("http://h/a"), text); });
  s3::Profile profile;
  s3::parse_profile(text, profile);
  http::parse_retry_after(text, {});
  http::parse_content_range(text);
  read_bodies(text);
  return 0;
}
