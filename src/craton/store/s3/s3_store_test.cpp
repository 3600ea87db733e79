// S3 as servers seldom do it; tests/s3 runs the contract against a real one.

#include "craton/store/s3/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "craton/runtime/file.h"
#include "craton/store/s3/s3_upload.h"
#include "craton/testing/http_fault_server.h"

namespace craton::store::s3 {
namespace {

using namespace std::chrono_literals;
using craton::testing::HttpAnswer;
using craton::testing::HttpFaultServer;
using craton::testing::HttpRequest;
using craton::testing::serve_object;
using std::chrono::system_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Environment no_environment() {
  return [](const std::string&) -> std::optional<std::string> { return std::nullopt; };
}

Environment environment_of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

http::Limits quick() {
  http::Limits limits;
  limits.first_byte = limits.stall = 300ms;
  limits.overall = 20s;
  limits.backoff_base = limits.backoff_cap = 1ms;
  limits.attempts = 4;
  return limits;
}

/// Gives the first, then the second, ... of its credentials; the last one for ever.
class ListedSource final : public CredentialSource {
 public:
  explicit ListedSource(std::vector<Credentials> list) : list_(std::move(list)) {}
  std::string name() const override { return "list"; }
  Credentials fetch() override { return list_[std::min(fetched_++, list_.size() - 1)]; }

 private:
  std::vector<Credentials> list_;
  size_t fetched_ = 0;
};

std::shared_ptr<CredentialProvider> provider(std::vector<Credentials> list) {
  return std::make_shared<CredentialProvider>(std::make_unique<ListedSource>(std::move(list)));
}

S3Store store_at(const std::string& endpoint, const std::string& more = "",
                 const http::Limits& limits = quick()) {
  return S3Store(parse_location("s3://bucket/pre?endpoint=" + endpoint + more, no_environment()),
                 limits, provider({{"KEY", "SECRET", "", std::nullopt}}));
}

HttpAnswer error_answer(int status, const std::string& code, const std::string& more = "") {
  HttpAnswer answer;
  answer.status = status;
  answer.body = "<Error><Code>" + code + "</Code><Message>why</Message>" + more + "</Error>";
  return answer;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(S3Location, HasOneMeaningForEachWayToSayIt) {
  const Location aws = parse_location("s3://bucket/a/b/", no_environment());
  EXPECT_EQ(aws.uri(), "s3://bucket/a/b");
  EXPECT_EQ(aws.url_of("k x+").text(), "https://bucket.s3.us-east-1.amazonaws.com/a/b/k%20x%2B");
  EXPECT_FALSE(aws.endpoint_is_given);
  const Location dotted =
      parse_location("s3://my.bucket", environment_of({{"AWS_REGION", "eu-west-1"}}));
  EXPECT_EQ(dotted.url_of("k").text(), "https://s3.eu-west-1.amazonaws.com/my.bucket/k");
  const auto environment = environment_of(
      {{"AWS_ENDPOINT_URL", "http://general"}, {"CRATON_S3_ENDPOINT", "http://127.0.0.1:9000/"}});
  EXPECT_EQ(parse_location("s3://b/p", environment).url_of("k").text(),
            "http://127.0.0.1:9000/b/p/k");
  const Location options = parse_location(
      "s3://b/p?endpoint=https://h&region=r-1&style=virtual&anonymous=1&requester_pays=1",
      environment);
  EXPECT_EQ(options.url_of("k").text(), "https://b.h/p/k");
  EXPECT_EQ(options.region, "r-1");
  EXPECT_TRUE(options.anonymous && options.requester_pays);
  EXPECT_EQ(join_uri(options.uri(), "x").substr(0, 10), "s3://b/p/x");
  for (const char* bad : {"s3://", "s3:///k", "s3://b k/x", "s3://b?nonsense=1", "s3://b?style=odd",
                          "s3://b?anonymous=maybe", "s3://b?endpoint=ftp://x", "s3://b?region=a/b"})
    EXPECT_THROW(parse_location(bad, no_environment()), Error) << bad;
}

TEST(S3Profile, ReadsBothFilesTheirNestingAndTheirComments) {
  runtime::TemporaryDirectory folder;
  std::ofstream(folder.path() / "config")
      << "[default]\nregion = eu-1 # home\n[profile work]\nregion=eu-2\nendpoint_url = http://h:1\n"
         "s3 =\n  addressing_style = virtual\nretry_mode = standard\n";
  std::ofstream(folder.path() / "credentials")
      << "; keys\n[work]\naws_access_key_id = K\naws_secret_access_key = a=b#c\n"
         "[default]\naws_access_key_id = D\n";
  const auto environment =
      environment_of({{"AWS_CONFIG_FILE", folder.path() / "config"},
                      {"AWS_SHARED_CREDENTIALS_FILE", folder.path() / "credentials"}});
  const Profile work = read_profile("work", environment);
  EXPECT_TRUE(work.found);
  EXPECT_EQ(work.get("region"), "eu-2");
  EXPECT_EQ(work.get("s3.addressing_style"), "virtual");
  EXPECT_EQ(work.get("retry_mode"), "standard");
  EXPECT_EQ(work.get("aws_secret_access_key"), "a=b#c");
  EXPECT_EQ(read_profile("", environment).get("region"), "eu-1");
  EXPECT_FALSE(read_profile("absent", environment).found);
  const Location location = parse_location("s3://b?profile=work", environment);
  EXPECT_EQ(location.url_of("k").text(), "http://b.h:1/k");
  EXPECT_THROW(parse_location("s3://b?profile=absent", environment), Error);
}

TEST(S3Credentials, TheFirstPlaceThatIsSetUpIsTaken) {
  const auto chosen = [](std::map<std::string, std::string> values) {
    std::string missing;
    const Environment environment = environment_of(std::move(values));
    const auto source = choose_source(read_profile("", environment), environment, missing);
    return source ? source->name() : missing;
  };
  EXPECT_EQ(chosen({{"AWS_ACCESS_KEY_ID", "k"}, {"AWS_SECRET_ACCESS_KEY", "s"}}), "environment");
  EXPECT_EQ(chosen({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/f"}, {"AWS_ROLE_ARN", "arn:r"}}),
            "web identity arn:r");
  EXPECT_EQ(chosen({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"}}),
            "container http://169.254.170.2");
  EXPECT_EQ(chosen({}), "instance metadata");
  EXPECT_THAT(chosen({{"AWS_EC2_METADATA_DISABLED", "TRUE"}}), HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_THROW(chosen({{"AWS_ACCESS_KEY_ID", "k"}}), Error);
  EXPECT_THROW(chosen({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://evil.example/x"}}), Error);
}

TEST(S3Credentials, AreReadFromWhatTheServicesAnswer) {
  const Credentials json = parse_credentials_json(
      R"({"AccessKeyId":"K","SecretAccessKey":"S","Token":"T","Expiration":"2026-01-02T03:04:05Z"})",
      "x");
  EXPECT_EQ(json.session_token, "T");
  EXPECT_EQ(json.expires, system_clock::from_time_t(1767323045));
  const Credentials xml = parse_credentials_xml(
      "<R><Result><Credentials><AccessKeyId>K</AccessKeyId><SecretAccessKey>S</SecretAccessKey>"
      "<SessionToken>T</SessionToken><Expiration>2026-01-02T03:04:05.678Z</Expiration>"
      "</Credentials></Result></R>");
  EXPECT_EQ(xml.secret_key, "S");
  EXPECT_GT(*parse_time("9999-12-31T23:59:59Z"), system_clock::now() + 24h * 365 * 100);
  EXPECT_FALSE(parse_time("0001-01-01T00:00:00Z"));
  EXPECT_EQ(xml.expires, json.expires);
  for (const char* bad : {"", "[]", "{\"AccessKeyId\":\"K\"}", "{\"AccessKeyId\":3}"}) {
    try {
      parse_credentials_json(bad, "the agent");
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kPermission);
    }
  }
}

TEST(S3Credentials, AreRefreshedEarlyAndOnceWhenRefused) {
  auto now = system_clock::from_time_t(1'000'000);
  const Credentials first{"A", "S", "1", now + 1h}, second{"A", "S", "2", now + 2h};
  CredentialProvider cache(std::make_unique<ListedSource>(std::vector{first, second}),
                           [&] { return now; });
  EXPECT_EQ(cache.get().session_token, "1");
  now += 54min;
  EXPECT_EQ(cache.get().session_token, "1");
  now += 2min;  // five minutes before the end
  EXPECT_EQ(cache.get().session_token, "2");
  EXPECT_TRUE(cache.replace(first));    // another thread has renewed them already
  EXPECT_FALSE(cache.replace(second));  // there are none but these
}

TEST(S3Credentials, InstanceMetadataIsAskedWithASessionToken) {
  HttpFaultServer server([](const HttpRequest& request) {
    HttpAnswer answer;
    if (request.method == "PUT" && request.target == "/latest/api/token") {
      answer.body = "tok";
    } else if (request.headers.get("x-aws-ec2-metadata-token") != "tok") {
      answer.status = 401;
    } else if (request.target == "/latest/meta-data/iam/security-credentials/") {
      answer.body = "role\n";
    } else {
      answer.body = R"({"AccessKeyId":"K","SecretAccessKey":"S","Token":"T"})";
    }
    return answer;
  });
  const auto environment = environment_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()}});
  std::string missing;
  const auto source = choose_source({}, environment, missing);
  EXPECT_EQ(source->fetch().session_token, "T");
  EXPECT_EQ(server.requests().back().target, "/latest/meta-data/iam/security-credentials/role");
}

TEST(S3Credentials, AWebIdentityTokenIsReadAgainEachTime) {
  runtime::TemporaryDirectory folder;
  HttpFaultServer server([](const HttpRequest& request) {
    HttpAnswer answer;
    answer.body =
        "<R><Credentials><AccessKeyId>K</AccessKeyId><SecretAccessKey>S</SecretAccessKey>"
        "<SessionToken>of " +
        request.body.substr(request.body.rfind('=') + 1) + "</SessionToken></Credentials></R>";
    return answer;
  });
  const std::string file = folder.path() / "token";
  std::string missing;
  const auto source = choose_source({},
                                    environment_of({{"AWS_WEB_IDENTITY_TOKEN_FILE", file},
                                                    {"AWS_ROLE_ARN", "arn:x"},
                                                    {"AWS_ENDPOINT_URL_STS", server.url()}}),
                                    missing);
  std::ofstream(file) << "one\n";
  EXPECT_EQ(source->fetch().session_token, "of one");
  std::ofstream(file) << "two\n";
  EXPECT_EQ(source->fetch().session_token, "of two");
  EXPECT_EQ(server.requests()[0].target.find("one"), std::string::npos);
}

TEST(S3Faults, ExpiredCredentialsAreReplacedOnceAndNeverShown) {
  const std::string current = "FRESHTOKEN";
  HttpFaultServer server([&](const HttpRequest& request) {
    if (request.headers.get("x-amz-security-token") != current)
      return error_answer(400, "ExpiredToken");
    return serve_object(request, "content");
  });
  const Location location =
      parse_location("s3://bucket?endpoint=" + server.url(), no_environment());
  const Credentials old{"AKOLD", "SKOLD", "OLDTOKEN", system_clock::now() + 1h};
  const Credentials fresh{"AKNEW", "SKNEW", current, system_clock::now() + 1h};
  S3Store renewed(location, quick(), provider({old, fresh}));
  EXPECT_EQ(text_of(*renewed.get("k")), "content");
  EXPECT_EQ(server.requests().size(), 2u);
  S3Store stale(location, quick(), provider({old}));
  try {
    stale.get("k");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("ExpiredToken"));
    for (const char* secret : {"SKOLD", "OLDTOKEN", "AKOLD"})
      EXPECT_THAT(e.what(), Not(HasSubstr(secret)));
  }
}

TEST(S3Faults, ARegionIsLearntFromARedirectWithoutALocation) {
  HttpFaultServer server([](const HttpRequest& request) {
    if (request.headers.get("authorization").find("/eu-7/") == std::string_view::npos) {
      HttpAnswer answer = error_answer(301, "PermanentRedirect");
      answer.headers = {{"x-amz-bucket-region", "eu-7"}};
      return answer;
    }
    return serve_object(request, "content");
  });
  S3Store store = store_at(server.url());
  EXPECT_EQ(text_of(*store.get("k")), "content");
  EXPECT_EQ(text_of(*store.get("k")), "content");
  EXPECT_EQ(server.requests().size(), 3u);  // learnt once
  EXPECT_EQ(store.service().location().region, "eu-7");
}

TEST(S3Faults, ARedirectIsFollowedAndSignedForItsNewHost) {
  std::string signed_host;
  HttpFaultServer target([&](const HttpRequest& request) {
    signed_host = request.headers.get("host");
    HttpAnswer answer = serve_object(request, "content");
    if (!request.headers.has("authorization")) answer.status = 403;
    return answer;
  });
  HttpFaultServer server([&](const HttpRequest& request) {
    HttpAnswer answer = error_answer(307, "TemporaryRedirect");
    answer.headers = {{"Location", target.url() + request.target}};
    return answer;
  });
  S3Store store = store_at(server.url());
  EXPECT_EQ(text_of(*store.get("k")), "content");
  EXPECT_EQ("http://" + signed_host, target.url());
  EXPECT_EQ(target.requests()[0].target, "/bucket/pre/k");
}

TEST(S3Faults, AClockThatIsWrongIsCorrectedByTheServers) {
  HttpFaultServer server([](const HttpRequest& request) {
    if (request.headers.get("x-amz-date").substr(0, 4) != "2033") {
      HttpAnswer answer = error_answer(403, "RequestTimeTooSkewed");
      answer.headers = {{"Date", "Wed, 18 May 2033 03:33:20 GMT"}};
      return answer;
    }
    return serve_object(request, "content");
  });
  S3Store store = store_at(server.url());
  EXPECT_EQ(text_of(*store.get("k")), "content");
}

TEST(S3Faults, ForbiddenIsAnErrorUnlessItIsAskedToMeanMissing) {
  HttpFaultServer server([](const HttpRequest&) { return error_answer(403, "AccessDenied"); });
  S3Store strict = store_at(server.url());
  try {
    strict.get("k");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kPermission);
    EXPECT_THAT(e.what(), HasSubstr("forbidden_is_missing=1"));
  }
  EXPECT_FALSE(store_at(server.url(), "&forbidden_is_missing=1").get("k"));
}

TEST(S3Faults, AMissingBucketIsNoMissingObject) {
  HttpFaultServer server([](const HttpRequest&) { return error_answer(404, "NoSuchBucket"); });
  EXPECT_THROW(store_at(server.url()).get("k"), Error);
}

TEST(S3Faults, RequesterPaysIsSaidOnEveryCallAndAnonymousSignsNothing) {
  HttpFaultServer server([](const HttpRequest& request) {
    HttpAnswer answer = serve_object(request, "content");
    if (request.target.find("list-type") != std::string::npos)
      answer.body = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    return answer;
  });
  S3Store store = store_at(server.url(), "&requester_pays=1&anonymous=1");
  store.get("k");
  store.head("k");
  store.get_range("k", 1, 2);
  store.list("");
  for (const HttpRequest& request : server.requests()) {
    EXPECT_EQ(request.headers.get("x-amz-request-payer"), "requester") << request.target;
    EXPECT_FALSE(request.headers.has("authorization"));
  }
}

TEST(S3Faults, ListingsArePagedDecodedAndSorted) {
  HttpFaultServer server([](const HttpRequest& request) {
    HttpAnswer answer;
    const bool second = request.target.find("continuation-token=t%2F1") != std::string::npos;
    answer.body = second ? "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false"
                           "</IsTruncated><Contents><Key>pre/a%2Bb+c</Key><Size>1</Size></Contents>"
                           "</ListBucketResult>"
                         : "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true"
                           "</IsTruncated><NextContinuationToken>t/1</NextContinuationToken>"
                           "<Contents><Key>pre/z</Key><Size>2</Size></Contents>"
                           "<Contents><Key>pre/folder/</Key><Size>0</Size></Contents>"
                           "</ListBucketResult>";
    return answer;
  });
  std::vector<std::string> keys;
  for (const ObjectInfo& info : store_at(server.url()).list("")) keys.push_back(info.key);
  EXPECT_THAT(keys, ElementsAre("a+b c", "z"));
}

TEST(S3Faults, APutWhoseAnswerWasLostIsNotTakenForAnothersPut) {
  std::string stored;
  HttpFaultServer server([&](const HttpRequest& request) {
    if (request.method == "GET") return serve_object(request, stored);
    HttpAnswer answer;
    if (!stored.empty()) return error_answer(412, "PreconditionFailed");
    stored = request.body;
    answer.close_at_once = true;
    return answer;
  });
  S3Store store = store_at(server.url());
  EXPECT_TRUE(store.put_if_absent("k", bytes_of("mine")));
  EXPECT_FALSE(store.put_if_absent("k", bytes_of("late")));
}

/// Multipart as S3 answers it; `complete` decides about the last step.
HttpAnswer multipart(const HttpRequest& request, const std::function<HttpAnswer()>& complete) {
  HttpAnswer answer;
  if (request.target.ends_with("?uploads=")) {
    answer.body = "<R><UploadId>up</UploadId></R>";
  } else if (request.method == "PUT") {
    answer.headers = {{"ETag", "\"p\""}};
  } else if (request.method == "POST") {
    return complete();
  } else if (request.method == "DELETE") {
    answer.status = 204;
  }
  return answer;
}

TEST(S3Uploads, AnErrorInsideOfA200IsAnError) {
  int completions = 0;
  HttpFaultServer server([&](const HttpRequest& request) {
    return multipart(request, [&] {
      return ++completions == 1 ? error_answer(200, "InternalError") : HttpAnswer{};
    });
  });
  S3Store store = store_at(server.url(), "", {});
  auto upload = store.start_upload("k");
  upload->append(Bytes(part_size(0)));
  upload->append(bytes_of("rest"));
  upload->finish();
  EXPECT_EQ(completions, 2);
}

TEST(S3Uploads, WhatIsDroppedOrFailsIsAborted) {
  std::atomic<bool> refuse{false};
  HttpFaultServer server([&](const HttpRequest& request) {
    if (refuse && request.method == "PUT") return error_answer(403, "AccessDenied");
    return multipart(request, [] { return HttpAnswer{}; });
  });
  S3Store store = store_at(server.url(), "", {});
  const auto aborted = [&] {
    const HttpRequest last = server.requests().back();
    return last.method == "DELETE" && last.target == "/bucket/pre/k?uploadId=up";
  };
  { store.start_upload("k")->append(Bytes(part_size(0))); }
  EXPECT_TRUE(aborted());
  refuse = true;
  {
    auto upload = store.start_upload("k");
    upload->append(Bytes(part_size(0)));
    EXPECT_THROW(upload->finish(), Error);
  }
  EXPECT_TRUE(aborted());
}

}  // namespace
}  // namespace craton::store::s3
