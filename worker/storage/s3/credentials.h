// Credentials for S3: keys from the environment, or short-lived ones that are fetched and renewed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "worker/storage/s3/http_client.h"
#include "worker/storage/s3/signature.h"

namespace swarm::storage::s3 {

using WallTime = std::chrono::system_clock::time_point;

/// The value of an environment variable; empty when it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string ProcessEnvironment(const char* name);

/// Finds credentials where AWS' own tools find them. Takes the first of these that the environment
/// names:
///  1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN;
///  2. web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, exchanged at STS (EKS service
///     accounts); AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL replaces STS' address;
///  3. container: AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI, with
///     AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or AWS_CONTAINER_AUTHORIZATION_TOKEN (EKS pod
///     identity, ECS).
/// Fetched ones are kept and fetched again five minutes before they expire. Safe from any thread.
class CredentialsProvider {
 public:
  struct Options {
    std::string region = "us-east-1";
    Environment environment = ProcessEnvironment;
    std::function<WallTime()> now = std::chrono::system_clock::now;
  };
  CredentialsProvider(std::shared_ptr<HttpClient> http, Options options)
      : http_(std::move(http)), options_(std::move(options)) {}

  /// Errors: kUnauthenticated (the environment names none of them, or they were refused),
  /// kUnavailable (they cannot be fetched now, and the current ones have expired). A server that is
  /// too busy, or that does not reach the issuer of a token, has not refused. STS has refused a
  /// token when it has done so for two minutes.
  Result<Credentials> Get();
  /// Call this when the server has refused the credentials as expired. The next Get fetches new
  /// ones.
  void Invalidate();

 private:
  struct Expiring {
    Credentials credentials;
    std::optional<WallTime> expires;  ///< none: never
  };
  Result<Expiring> Fetch();
  Result<Expiring> FetchWebIdentity(const std::string& token_file, const std::string& role);
  Result<Expiring> FetchContainer(const std::string& url);

  const std::shared_ptr<HttpClient> http_;
  const Options options_;
  std::mutex mutex_;                       // held during a fetch: other threads wait for its result
  std::optional<Expiring> current_;        // guarded by mutex_
  std::optional<WallTime> token_refused_;  // guarded: since when STS refuses the token
};

/// "2026-01-31T12:00:00Z", with or without fractions of a second; none for other text.
std::optional<WallTime> ParseWallTime(const std::string& text);

}  // namespace swarm::storage::s3
