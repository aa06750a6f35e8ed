#include "worker/storage/s3/requester.h"

#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include "base/rng.h"
#include "worker/storage/s3/xml.h"

namespace swarm::storage::s3 {
namespace {

constexpr std::size_t kAnswerMax = std::size_t{64} << 20;

// Error codes of S3 for which a later try may succeed, whatever their HTTP status is.
constexpr std::array<std::string_view, 8> kPassingCodes = {
    "SlowDown",   "RequestTimeout",       "InternalError",    "ServiceUnavailable",
    "Throttling", "RequestLimitExceeded", "OperationAborted", "ConditionalRequestConflict"};
constexpr std::array<std::string_view, 3> kExpiredCodes = {"ExpiredToken", "TokenRefreshRequired",
                                                           "RequestExpired"};
constexpr std::array<std::string_view, 3> kFullCodes = {"QuotaExceeded", "XMinioStorageFull",
                                                        "EntityTooLarge"};

template <std::size_t n>
bool Contains(const std::array<std::string_view, n>& codes, const std::string& code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 401:
      return StatusCode::kUnauthenticated;
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 412:
      return StatusCode::kAlreadyExists;
    case 416:
      return StatusCode::kOutOfRange;
    case 507:
      return StatusCode::kResourceExhausted;
    default:
      return http_status >= 500 ? StatusCode::kUnavailable : StatusCode::kInvalidArgument;
  }
}

// What the user can do about the error.
std::string Hint(const HttpResponse& response, const std::string& method) {
  const std::string region = response.GetHeader("x-amz-bucket-region");
  if (response.status / 100 == 3) {
    return "; the bucket is elsewhere" +
           (region.empty() ? std::string(": check endpoint and region") : ": set region " + region);
  }
  if (response.status == 403 && method == "HEAD") {
    return " (also said of what is not there, without the permission s3:ListBucket)";
  }
  return "";
}

Duration RandomWait(const S3Options& options, int attempt) {
  thread_local Rng rng(std::random_device{}());
  Duration limit = options.backoff;
  for (int i = 1; i < attempt && limit < options.backoff_max; ++i) limit *= 2;
  return FromSeconds(ToSeconds(std::min(limit, options.backoff_max)) * rng.Uniform());
}

std::string DefaultOrigin(const S3Options& options, bool by_path) {
  const std::string host =
      "s3." + options.region + ".amazonaws.com" + (options.region.starts_with("cn-") ? ".cn" : "");
  return "https://" + (by_path ? "" : options.bucket + ".") + host;
}

}  // namespace

Requester::Requester(S3Options options)
    : options_(std::move(options)),
      http_(std::make_shared<HttpClient>()),
      credentials_(http_, {.region = options_.region, .environment = options_.environment}) {
  // A certificate for *.s3.REGION.amazonaws.com does not cover a bucket with a dot in its name.
  const bool by_path = !options_.endpoint.empty() || options_.bucket.find('.') != std::string::npos;
  origin_ = options_.endpoint.empty() ? DefaultOrigin(options_, by_path) : options_.endpoint;
  while (origin_.ends_with('/')) origin_.pop_back();
  host_ = origin_.substr(origin_.find("://") + 3);
  if (by_path) path_prefix_ = "/" + options_.bucket;
}

Result<HttpResponse> Requester::Send(const Operation& operation, const std::string& payload_sha256,
                                     Duration timeout) {
  ASSIGN_OR_RETURN(const Credentials credentials, credentials_.Get());
  SignableRequest request{.method = operation.method,
                          .host = host_,
                          .path = path_prefix_ + "/" + operation.key,
                          .query = operation.query,
                          .headers = operation.headers,
                          .payload_sha256 = payload_sha256};
  HttpRequest http{.method = operation.method,
                   .url = origin_ + EncodeTarget(request),
                   .headers = Sign(request, credentials, options_.region, "s3",
                                   std::chrono::system_clock::now()),
                   .body = operation.body,
                   .timeout = operation.transfer ? timeout : std::min(timeout, operation.patience),
                   .stall_timeout = operation.patience};
  http.response_bytes_max = operation.transfer ? SIZE_MAX : kAnswerMax;
  return http_->Send(http);
}

Requester::Verdict Requester::Judge(const Operation& operation, const HttpResponse& response) {
  const std::string_view xml = response.body.text();
  // S3 may answer 200 to a long operation, and report its failure in the body.
  const bool late_error =
      response.status == 200 && operation.method == "POST" && xml.find("<Error>") != xml.npos;
  if (response.status / 100 == 2 && !late_error) return {};
  const std::string code = FindText(xml, "Code");
  StatusCode status = late_error ? StatusCode::kUnavailable : CodeOf(response.status);
  if (Contains(kFullCodes, code)) status = StatusCode::kResourceExhausted;
  const bool expired = Contains(kExpiredCodes, code);
  if (expired) credentials_.Invalidate();
  const bool passing = expired || status == StatusCode::kUnavailable || response.status == 429 ||
                       response.status == 408 || Contains(kPassingCodes, code);
  std::string message = operation.method + " " + Describe(operation.key) + ": the server answers " +
                        std::to_string(response.status);
  if (!code.empty()) message += " " + code + ": " + FindText(xml, "Message");
  message += Hint(response, operation.method);
  return {Status(passing ? StatusCode::kUnavailable : status, message), passing};
}

Result<Answer> Requester::Perform(const Operation& operation, int* attempts) {
  const Timepoint deadline =
      Clock::now() + (operation.transfer ? options_.transfer_deadline : options_.request_deadline);
  const std::string payload_sha256 = Sha256Hex(operation.body);
  int attempt = 0;
  int& tried = attempts != nullptr ? *attempts : attempt;
  for (tried = 1;; ++tried) {
    Verdict verdict;
    auto response = Send(operation, payload_sha256, deadline - Clock::now());
    if (response.ok()) {
      verdict = Judge(operation, *response);
      if (verdict.status.ok()) return Answer{std::move(response).value(), tried};
    } else {
      verdict = {response.status().WithContext(Describe(operation.key)),
                 response.status().code() == StatusCode::kUnavailable};
    }
    if (!verdict.passing) return verdict.status;
    const Duration wait = RandomWait(options_, tried);
    if (tried >= options_.attempts || Clock::now() + wait >= deadline) {
      return Unavailable(verdict.status.message() + "; given up after " + std::to_string(tried) +
                         " tries");
    }
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace swarm::storage::s3
