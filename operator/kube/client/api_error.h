// How the API server says no, and what that means here. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "operator/kube/transport/http.h"

namespace swarm::kube {

/// A metav1.Status that is a failure, whether it came as a body or as a frame of a watch.
struct ApiError {
  int code = 0;        ///< HTTP status, or the one in the body if it came with a 200
  std::string reason;  ///< "Conflict", "AlreadyExists", "Expired", ...; may be empty
  std::string message;
  std::vector<std::string> causes;  ///< "spec.workers.replicas: must be ..."
  std::optional<Duration> retry_after;

  bool IsExpired() const;          ///< 410 in any form: the version is no longer served
  bool IsTooLargeVersion() const;  ///< the server has not yet seen the version that was asked for
  bool operator==(const ApiError&) const = default;
};

/// The error in an answer, or none if it is none. A body that is no Status gives the beginning of
/// itself as the message.
std::optional<ApiError> ErrorIn(const HttpHead& head, std::string_view body);

/// The failure in a parsed object, or none if it is no metav1.Status that says Failure.
std::optional<ApiError> ErrorIn(const nlohmann::json& object);

/// The Status of `what` ("POST /api/v1/...") that ended with `error`; its message is
/// "WHAT: CODE REASON: MESSAGE [CAUSES]".
///
/// | answer | code |
/// |---|---|
/// | 409 AlreadyExists | kAlreadyExists: get it and look at its owner |
/// | 409 otherwise (Conflict) | kAborted: read again and decide anew |
/// | 404 | kNotFound |
/// | 410 (Gone, Expired), or a version the server has not seen yet | kOutOfRange: list the newest |
/// | 400, 413, 422 | kInvalidArgument: never try again unchanged |
/// | 401 | kUnauthenticated |
/// | 403 because of a quota or limit range | kResourceExhausted |
/// | 403 because the namespace is ending | kFailedPrecondition |
/// | 403 otherwise | kPermissionDenied |
/// | 405, 406, 415 | kUnimplemented |
/// | 408, 504 | kDeadlineExceeded |
/// | 429, 500, 502, 503 and others of 5xx | kUnavailable |
/// | anything else | kUnknown |
Status ToStatus(const ApiError& error, std::string_view what);

/// The seconds of a Retry-After header; none if there is none, or a date.
std::optional<Duration> RetryAfter(const HttpHeaders& headers);

}  // namespace swarm::kube
