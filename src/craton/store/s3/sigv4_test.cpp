#include "craton/store/s3/sigv4.h"

#include <gtest/gtest.h>

namespace craton::store::s3 {
namespace {

using http::Request;

/// The signature at the end of the Authorization header.
std::string signature_of(const Request& request) {
  const std::string_view text = request.headers.get("Authorization");
  return std::string(text.substr(text.rfind('=') + 1));
}

// --- "Signature Version 4 test suite" (AWS general reference): host example.amazonaws.com, service
// "service", 30 August 2015, 12:36:00 UTC.

struct SuiteCase {
  const char *name, *method, *path, *query, *signature;
  std::vector<std::pair<std::string, std::string>> headers;
  const char* body = "";
};

std::string sign_suite_case(const SuiteCase& test) {
  Request request;
  request.method = test.method;
  request.url = {"https", "example.amazonaws.com", 0, test.path, test.query};
  for (const auto& [name, value] : test.headers) request.headers.add(name, value);
  const std::string_view body(test.body);
  const SigningContext context{"us-east-1", "service",
                               std::chrono::system_clock::from_time_t(1440938160)};
  sign(request, {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "", std::nullopt},
       context, payload_hash(std::as_bytes(std::span(body))));
  return signature_of(request);
}

TEST(SignatureSuite, OfficialVectors) {
  const std::vector<SuiteCase> cases = {
      {"get-vanilla",
       "GET",
       "/",
       "",
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
       {}},
      {"get-vanilla-query-order-key-case",
       "GET",
       "/",
       "Param2=value2&Param1=value1",
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
       {}},
      {"get-vanilla-query-unreserved",
       "GET",
       "/",
       "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz="
       "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
       {}},
      {"get-unreserved",
       "GET",
       "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
       "",
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
       {}},
      {"get-utf8",
       "GET",
       "/%E1%88%B4",
       "",
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
       {}},
      {"get-vanilla-utf8-query",
       "GET",
       "/",
       "%E1%88%B4=bar",
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
       {}},
      {"post-vanilla",
       "POST",
       "/",
       "",
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
       {}},
      {"post-vanilla-query",
       "POST",
       "/",
       "Param1=value1",
       "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
       {}},
      {"get-header-value-trim",
       "GET",
       "/",
       "",
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
       {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}},
      {"get-header-key-duplicate",
       "GET",
       "/",
       "",
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
       {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}}},
      {"post-x-www-form-urlencoded",
       "POST",
       "/",
       "",
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
       {{"Content-Type", "application/x-www-form-urlencoded"}},
       "Param1=value1"},
  };
  for (const SuiteCase& test : cases) EXPECT_EQ(sign_suite_case(test), test.signature) << test.name;
}

TEST(SignatureSuite, CanonicalRequestAndStringToSignOfGetVanilla) {
  Request request;
  request.url = {"https", "example.amazonaws.com", 0, "/", ""};
  request.headers.add("Host", "example.amazonaws.com");
  request.headers.add("X-Amz-Date", "20150830T123600Z");
  const std::string canonical = canonical_request(request, kEmptyPayload);
  EXPECT_EQ(canonical,
            "GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\n"
            "host;x-amz-date\n"
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(string_to_sign(canonical, {"us-east-1", "service",
                                       std::chrono::system_clock::from_time_t(1440938160)}),
            "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n"
            "bb579772317eb040ac9ed261061d46c1f17a8133879d6129b6e1c25292927e63");
}

// --- "Signature calculations for the Authorization header" (Amazon S3 API reference): bucket
// examplebucket, 24 May 2013.

Request s3_request(const char* method, const char* path, const char* query) {
  Request request;
  request.method = method;
  request.url = {"https", "examplebucket.s3.amazonaws.com", 0, path, query};
  return request;
}

std::string sign_s3(Request request, std::string_view body = "") {
  const SigningContext context{"us-east-1", "s3",
                               std::chrono::system_clock::from_time_t(1369353600)};
  sign(request,
       {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", std::nullopt},
       context, payload_hash(std::as_bytes(std::span(body))));
  return signature_of(request);
}

TEST(S3Signature, ExamplesOfTheApiReference) {
  Request get = s3_request("GET", "/test.txt", "");
  get.headers.add("Range", "bytes=0-9");
  EXPECT_EQ(sign_s3(get), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");

  Request put = s3_request("PUT", "/test%24file.text", "");
  put.headers.add("Date", "Fri, 24 May 2013 00:00:00 GMT");
  put.headers.add("x-amz-storage-class", "REDUCED_REDUNDANCY");
  EXPECT_EQ(sign_s3(put, "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");

  EXPECT_EQ(sign_s3(s3_request("GET", "/", "lifecycle")),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(sign_s3(s3_request("GET", "/", "max-keys=2&prefix=J")),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// --- What libcurl's own signing got wrong (its issues 9717, 7559, 8107, 11794).

TEST(S3Signature, QueriesAreSortedAndEncodedHoweverTheyCome) {
  const auto query_line = [](const char* query) {
    const std::string canonical = canonical_request(s3_request("GET", "/", query), kEmptyPayload);
    return canonical.substr(6, canonical.find('\n', 6) - 6);
  };
  EXPECT_EQ(query_line("b=2&a=1"), "a=1&b=2");
  EXPECT_EQ(query_line("a=2&a=1"), "a=1&a=2");
  EXPECT_EQ(query_line("uploads"), "uploads=");
  EXPECT_EQ(query_line("prefix=*"), "prefix=%2A");
  EXPECT_EQ(query_line("k=a%20b%3ac"), "k=a%20b%3Ac");
  EXPECT_EQ(query_line("a-b=1&a=2"), "a=2&a-b=1");
}

TEST(S3Signature, PathsAreSignedAsSentAndTokensAreSigned) {
  Request request = s3_request("GET", "/a//b/../c%20d%2B", "");
  const SigningContext context{"r", "s3", std::chrono::system_clock::from_time_t(0)};
  sign(request, {"AK", "SK", "TOKEN", std::nullopt}, context, kUnsignedPayload);
  EXPECT_EQ(canonical_request(request, kUnsignedPayload).substr(0, 23),
            "GET\n/a//b/../c%20d%2B\n\n");
  EXPECT_NE(request.headers.get("Authorization").find("x-amz-security-token"), std::string::npos);
  EXPECT_EQ(request.headers.get("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
}

TEST(S3Signature, APortOfItsOwnIsPartOfTheHost) {
  Request request;
  request.url = {"http", "127.0.0.1", 8000, "/", ""};
  const SigningContext context{"r", "s3", std::chrono::system_clock::from_time_t(0)};
  sign(request, {"AK", "SK", "", std::nullopt}, context, kEmptyPayload);
  EXPECT_EQ(request.headers.get("host"), "127.0.0.1:8000");
}

}  // namespace
}  // namespace craton::store::s3
