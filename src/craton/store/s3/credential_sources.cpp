#include <algorithm>
#include <cctype>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/store/http/client.h"
#include "craton/store/http/plain_service.h"
#include "craton/store/s3/credentials.h"

namespace craton::store::s3 {

namespace {

std::string file_text(const std::string& path) {
  std::string text = runtime::read_text(path);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

/// One small request to a service that gives credentials; the whole wait is bounded.
std::string ask(const http::Url& url, const std::string& method, const http::Headers& headers,
                const std::string& what, bool local, std::string_view body = {}) {
  http::Limits limits;
  limits.connect = std::chrono::milliseconds(local ? 1000 : 5000);
  limits.first_byte = std::chrono::milliseconds(5000);
  limits.overall = std::chrono::milliseconds(local ? 4000 : 20000);
  limits.attempts = local ? 2 : 4;
  http::Client client(std::make_shared<http::PlainService>(url, local), limits);
  http::Call call;
  call.request.method = method;
  call.request.url.path.clear();
  call.request.headers = headers;
  call.request.body = std::as_bytes(std::span(body));
  call.what = what;
  client.run(call);
  return std::move(call.response.text);
}

class StaticSource final : public CredentialSource {
 public:
  StaticSource(std::string name, Credentials credentials)
      : name_(std::move(name)), credentials_(std::move(credentials)) {}
  std::string name() const override { return name_; }
  Credentials fetch() override { return credentials_; }

 private:
  std::string name_;
  Credentials credentials_;
};

/// Keys in the environment are fixed for the life of the process.
std::unique_ptr<CredentialSource> from_environment(const Environment& environment) {
  const auto key = environment("AWS_ACCESS_KEY_ID"), secret = environment("AWS_SECRET_ACCESS_KEY");
  if (!key && !secret) return nullptr;
  if (!key || !secret)
    fail(ErrorCode::kPermission, "{} is set but {} is not; set both or none",
         key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
         key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  return std::make_unique<StaticSource>(
      "environment",
      Credentials{*key, *secret, environment("AWS_SESSION_TOKEN").value_or(""), std::nullopt});
}

/// Read again at each fetch: tools that log in rewrite the file.
class ProfileSource final : public CredentialSource {
 public:
  ProfileSource(std::string profile, Environment environment)
      : profile_(std::move(profile)), environment_(std::move(environment)) {}
  std::string name() const override { return "profile " + profile_; }
  Credentials fetch() override {
    const Profile profile = read_profile(profile_, environment_);
    Credentials out{std::string(profile.get("aws_access_key_id")),
                    std::string(profile.get("aws_secret_access_key")),
                    std::string(profile.get("aws_session_token")), std::nullopt};
    if (out.access_key.empty() || out.secret_key.empty())
      fail(ErrorCode::kPermission, "profile {} lacks aws_access_key_id or aws_secret_access_key",
           profile_);
    return out;
  }

 private:
  std::string profile_;
  Environment environment_;
};

class ProcessSource final : public CredentialSource {
 public:
  ProcessSource(std::string profile, std::string command)
      : profile_(std::move(profile)), command_(std::move(command)) {}
  std::string name() const override { return "credential_process of profile " + profile_; }
  Credentials fetch() override {
    runtime::ProgramOptions options;
    options.timeout = std::chrono::seconds(60);
    const auto result = runtime::run_program({"/bin/sh", "-c", command_}, options);
    if (result.exit_code != 0)
      fail(ErrorCode::kPermission, "the {} ended with exit code {}", name(), result.exit_code);
    return parse_credentials_json(result.output, "the " + name());
  }

 private:
  std::string profile_, command_;
};

/// The token file is read at each fetch: its owner replaces it every hour or so.
class WebIdentitySource final : public CredentialSource {
 public:
  WebIdentitySource(std::string token_file, std::string role, std::string session, http::Url sts)
      : token_file_(std::move(token_file)),
        role_(std::move(role)),
        session_(std::move(session)),
        sts_(std::move(sts)) {}
  std::string name() const override { return "web identity " + role_; }
  Credentials fetch() override {
    // In the body: a URL ends up in the logs of proxies.
    const std::string form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" +
                             http::percent_encode(role_) +
                             "&RoleSessionName=" + http::percent_encode(session_) +
                             "&WebIdentityToken=" + http::percent_encode(file_text(token_file_));
    http::Headers headers;
    headers.add("Content-Type", "application/x-www-form-urlencoded");
    const std::string what = "cannot get credentials for " + role_ + " from the token service";
    return parse_credentials_xml(ask(sts_, "POST", headers, what, false, form));
  }

 private:
  std::string token_file_, role_, session_;
  http::Url sts_;
};

http::Url sts_endpoint(const Profile& profile, const Environment& environment) {
  if (const auto given = environment("AWS_ENDPOINT_URL_STS")) return http::parse_url(*given);
  const std::string region =
      environment("AWS_REGION")
          .value_or(environment("AWS_DEFAULT_REGION").value_or(std::string(profile.get("region"))));
  http::Url url;
  url.host = region.empty() ? "sts.amazonaws.com" : "sts." + region + ".amazonaws.com";
  if (region.starts_with("cn-")) url.host += ".cn";
  return url;
}

std::unique_ptr<CredentialSource> from_web_identity(const Profile& profile,
                                                    const Environment& environment) {
  std::string token = environment("AWS_WEB_IDENTITY_TOKEN_FILE")
                          .value_or(std::string(profile.get("web_identity_token_file")));
  std::string role = environment("AWS_ROLE_ARN").value_or(std::string(profile.get("role_arn")));
  if (token.empty()) return nullptr;
  if (role.empty())
    fail(ErrorCode::kPermission,
         "AWS_WEB_IDENTITY_TOKEN_FILE is set but AWS_ROLE_ARN is not; set both or none");
  return std::make_unique<WebIdentitySource>(
      std::move(token), std::move(role), environment("AWS_ROLE_SESSION_NAME").value_or("craton"),
      sts_endpoint(profile, environment));
}

std::unique_ptr<CredentialSource> from_profile(const Profile& profile,
                                               const Environment& environment) {
  if (!profile.get("aws_access_key_id").empty())
    return std::make_unique<ProfileSource>(profile.name, environment);
  if (const auto command = profile.get("credential_process"); !command.empty())
    return std::make_unique<ProcessSource>(profile.name, std::string(command));
  for (const char* setting : {"sso_session", "sso_start_url", "source_profile", "role_arn"})
    if (!profile.get(setting).empty())
      fail(ErrorCode::kUnsupported,
           "profile {} uses {}, which is not read here; export keys into the environment, or name "
           "a credential_process",
           profile.name, setting);
  return nullptr;
}

/// The agent of a container (ECS, EKS pod identity): plain HTTP is believed only from this host and
/// the two link-local addresses that are meant for it.
class ContainerSource final : public CredentialSource {
 public:
  ContainerSource(http::Url url, Environment environment)
      : url_(std::move(url)), environment_(std::move(environment)) {
    static constexpr std::string_view kHosts[] = {"169.254.170.2", "169.254.170.23", "localhost",
                                                  "127.0.0.1", "[::1]"};
    if (url_.scheme != "https" && std::ranges::find(kHosts, url_.host) == std::end(kHosts))
      fail(ErrorCode::kPermission,
           "AWS_CONTAINER_CREDENTIALS_FULL_URI names {} without https; refused", url_.host);
  }
  std::string name() const override { return "container " + url_.origin(); }
  Credentials fetch() override {
    http::Headers headers;
    if (const auto file = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
      headers.add("Authorization", file_text(*file));
    } else if (const auto token = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
      headers.add("Authorization", *token);
    }
    return parse_credentials_json(
        ask(url_, "GET", headers, "cannot get the container's credentials", true),
        "the container's agent");
  }

 private:
  http::Url url_;
  Environment environment_;
};

std::unique_ptr<CredentialSource> from_container(const Environment& environment) {
  if (const auto relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"))
    return std::make_unique<ContainerSource>(http::parse_url("http://169.254.170.2" + *relative),
                                             environment);
  if (const auto full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
    return std::make_unique<ContainerSource>(http::parse_url(*full), environment);
  return nullptr;
}

/// Instance metadata, version 2: a session token first, then the role's name and its credentials.
class InstanceSource final : public CredentialSource {
 public:
  explicit InstanceSource(http::Url root) : root_(std::move(root)) {
    while (root_.path.ends_with('/')) root_.path.pop_back();
  }
  std::string name() const override { return "instance metadata"; }
  Credentials fetch() override {
    const std::string what = "cannot get credentials from the instance metadata";
    http::Headers lifetime, token;
    lifetime.add("x-aws-ec2-metadata-token-ttl-seconds", "21600");
    token.add("x-aws-ec2-metadata-token",
              ask(below("/latest/api/token"), "PUT", lifetime, what, true));
    const std::string roles = "/latest/meta-data/iam/security-credentials/";
    std::string role = ask(below(roles), "GET", token, what, true);
    role = role.substr(0, role.find_first_of("\r\n"));
    if (role.empty()) fail(ErrorCode::kPermission, "this instance has no role");
    return parse_credentials_json(
        ask(below(roles + http::percent_encode(role)), "GET", token, what, true),
        "the instance metadata");
  }

 private:
  http::Url below(const std::string& path) const {
    http::Url url = root_;
    url.path += path;
    return url;
  }
  http::Url root_;
};

std::unique_ptr<CredentialSource> from_instance(const Environment& environment) {
  std::string off = environment("AWS_EC2_METADATA_DISABLED").value_or("");
  std::ranges::transform(off, off.begin(), [](unsigned char c) { return std::tolower(c); });
  if (off == "true") return nullptr;
  return std::make_unique<InstanceSource>(http::parse_url(
      environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("http://169.254.169.254")));
}

}  // namespace

std::unique_ptr<CredentialSource> choose_source(const Profile& profile,
                                                const Environment& environment,
                                                std::string& missing) {
  // A profile that was asked for by name goes before everything else.
  const bool named = profile.name != environment("AWS_PROFILE").value_or("default");
  if (named) {
    if (auto source = from_web_identity(profile, [](const std::string&) { return std::nullopt; }))
      return source;
    if (auto source = from_profile(profile, environment)) return source;
  }
  if (auto source = from_environment(environment)) return source;
  if (auto source = from_web_identity(profile, environment)) return source;
  if (auto source = from_profile(profile, environment)) return source;
  if (auto source = from_container(environment)) return source;
  if (auto source = from_instance(environment)) return source;
  missing =
      "AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE and AWS_CONTAINER_CREDENTIALS_* are "
      "not set, profile " +
      profile.name + " has no keys, and AWS_EC2_METADATA_DISABLED is set";
  return nullptr;
}

}  // namespace craton::store::s3
