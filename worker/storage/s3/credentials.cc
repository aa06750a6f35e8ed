#include "worker/storage/s3/credentials.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/percent_encode.h"
#include "worker/storage/file/file_storage.h"
#include "worker/storage/s3/xml.h"

namespace swarm::storage::s3 {
namespace {

constexpr auto kRenewBefore = std::chrono::minutes(5);
constexpr auto kFetchTimeout = std::chrono::seconds(10);
constexpr const char* kContainerHost = "http://169.254.170.2";
// How long a refusal of the token by STS may be one of the moment.
constexpr auto kTokenPatience = std::chrono::minutes(2);

// Error codes of STS for which a later try may succeed, though their HTTP status is 4xx. AWS' own
// tools try these again.
constexpr std::array<std::string_view, 13> kStsPassingCodes = {
    "IDPCommunicationError",    "Throttling",
    "ThrottlingException",      "ThrottledException",
    "RequestThrottled",         "RequestThrottledException",
    "TooManyRequestsException", "RequestLimitExceeded",
    "BandwidthLimitExceeded",   "SlowDown",
    "PriorRequestNotComplete",  "RequestTimeout",
    "RequestTimeoutException"};
// The token is wrong, or so it seems: a clock is behind, STS does not have the issuer's new keys
// yet, or the kubelet is about to renew the token.
constexpr std::array<std::string_view, 3> kStsTokenCodes = {
    "InvalidIdentityToken", "ExpiredTokenException", "ExpiredToken"};

Status Unauthenticated(std::string message) {
  return {StatusCode::kUnauthenticated, std::move(message)};
}

// A refusal is final; all other errors may pass.
Status Refused(const HttpResponse& response, const std::string& what) {
  const std::string code = FindText(response.body.text(), "Code");
  const std::string text = what + " answers " + std::to_string(response.status) + " " +
                           (code.empty() ? "" : code + ": ") +
                           FindText(response.body.text(), "Message");
  const bool passing = response.status / 100 != 4 || response.status == 408 ||
                       response.status == 429 || std::ranges::count(kStsPassingCodes, code) > 0;
  return passing ? Unavailable(text) : Unauthenticated(text);
}

Result<std::string> ReadSecretFile(const std::string& path) {
  const SplitUri split = SplitLastName(path);
  auto content = OpenFileStorage(split.folder)->Read(split.name);
  if (!content.ok()) return Unauthenticated("credentials: " + content.status().message());
  std::string text(content->text());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

std::string StsUrl(const Environment& environment, const std::string& region) {
  for (const char* name : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}) {
    if (const std::string url = environment(name); !url.empty()) return url;
  }
  return "https://sts." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn/" : "/");
}

// Secrets travel unencrypted only where no network is between.
Status CheckContainerUrl(const std::string& url) {
  if (url.starts_with("https://") || (url.starts_with("http://") && IsLocalHost(url))) return {};
  return Unauthenticated("AWS_CONTAINER_CREDENTIALS_FULL_URI " + url +
                         " is neither https nor on this machine");
}

std::string JsonText(const nlohmann::json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

}  // namespace

std::string ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<WallTime> ParseWallTime(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr || !text.ends_with('Z')) return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

Result<Credentials> CredentialsProvider::Get() {
  const std::lock_guard lock(mutex_);
  const WallTime now = options_.now();
  if (current_ && (!current_->expires || now < *current_->expires - kRenewBefore)) {
    return current_->credentials;
  }
  auto fetched = Fetch();
  if (!fetched.ok()) {
    if (!current_ || now >= *current_->expires) return fetched.status();
    LOG_WARN("credentials cannot be renewed yet: {}", fetched.status().ToString());
    return current_->credentials;
  }
  current_ = std::move(fetched).value();
  token_refused_.reset();
  return current_->credentials;
}

void CredentialsProvider::Invalidate() {
  const std::lock_guard lock(mutex_);
  current_.reset();
}

Result<CredentialsProvider::Expiring> CredentialsProvider::Fetch() {
  const Environment& get = options_.environment;
  const Credentials keys = {get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY"),
                            get("AWS_SESSION_TOKEN")};
  if (!keys.access_key.empty() && !keys.secret_key.empty()) return Expiring{keys, std::nullopt};
  const std::string token_file = get("AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string role = get("AWS_ROLE_ARN");
  if (!token_file.empty() && !role.empty()) return FetchWebIdentity(token_file, role);
  if (const std::string url = get("AWS_CONTAINER_CREDENTIALS_FULL_URI"); !url.empty()) {
    return FetchContainer(url);
  }
  if (const std::string path = get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); !path.empty()) {
    return FetchContainer(kContainerHost + path);
  }
  return Unauthenticated(
      "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run with a web"
      " identity (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN) or container credentials"
      " (AWS_CONTAINER_CREDENTIALS_FULL_URI)");
}

Result<CredentialsProvider::Expiring> CredentialsProvider::FetchWebIdentity(
    const std::string& token_file, const std::string& role) {
  ASSIGN_OR_RETURN(const std::string token, ReadSecretFile(token_file));
  std::string session = options_.environment("AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = "swarmjob";
  const std::string url = StsUrl(options_.environment, options_.region);
  HttpRequest request{.method = "POST", .url = url, .timeout = kFetchTimeout};
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  request.body = {Bytes::Copy(
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + PercentEncode(role) +
      "&RoleSessionName=" + PercentEncode(session) + "&WebIdentityToken=" + PercentEncode(token))};
  ASSIGN_OR_RETURN(const HttpResponse response, http_->Send(request));
  if (response.status != 200) {
    Status refused = Refused(response, "STS at " + url + " for role " + role);
    const std::string code = FindText(response.body.text(), "Code");
    if (std::ranges::count(kStsTokenCodes, code) == 0) return refused;
    const WallTime now = options_.now();
    if (!token_refused_) token_refused_ = now;
    return now - *token_refused_ < kTokenPatience ? Unavailable(refused.message()) : refused;
  }
  const std::string_view xml = response.body.text();
  const Expiring result = {{FindText(xml, "AccessKeyId"), FindText(xml, "SecretAccessKey"),
                            FindText(xml, "SessionToken")},
                           ParseWallTime(FindText(xml, "Expiration"))};
  if (result.credentials.access_key.empty() || !result.expires) {
    return Unavailable("STS at " + url + " answers without credentials");
  }
  return result;
}

Result<CredentialsProvider::Expiring> CredentialsProvider::FetchContainer(const std::string& url) {
  RETURN_IF_ERROR(CheckContainerUrl(url));
  HttpRequest request{.url = url, .timeout = kFetchTimeout};
  std::string token = options_.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string token_file = options_.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!token_file.empty()) {
    ASSIGN_OR_RETURN(token, ReadSecretFile(token_file));
  }
  if (!token.empty()) request.headers = {{"authorization", token}};
  ASSIGN_OR_RETURN(const HttpResponse response, http_->Send(request));
  if (response.status != 200) return Refused(response, "the credentials' server at " + url);
  const auto json = nlohmann::json::parse(response.body.text(), nullptr, false);
  if (!json.is_object()) return Unavailable(url + " answers without credentials");
  Expiring result = {
      {JsonText(json, "AccessKeyId"), JsonText(json, "SecretAccessKey"), JsonText(json, "Token")},
      ParseWallTime(JsonText(json, "Expiration"))};
  if (result.credentials.access_key.empty() || !result.expires) {
    return Unavailable(url + " answers without credentials");
  }
  return result;
}

}  // namespace swarm::storage::s3
