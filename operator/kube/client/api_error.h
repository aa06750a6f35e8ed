// The errors of the API server, and their meaning. Pure.
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

/// A metav1.Status that says Failure, from a body or from a frame of a watch.
struct ApiError {
  int code = 0;        ///< HTTP status, or the code in the body of a 200
  std::string reason;  ///< "Conflict", "AlreadyExists", "Expired", ...; may be empty
  std::string message;
  std::vector<std::string> causes;  ///< "spec.workers.replicas: must be ..."
  std::optional<Duration> retry_after;

  bool IsExpired() const;          ///< 410 in any form: the server no longer serves the version
  bool IsTooLargeVersion() const;  ///< the server has not seen the requested version yet
  bool operator==(const ApiError&) const = default;
};

/// The error in an answer; none: it is a success. If the body is not a Status, the message is the
/// beginning of the body.
std::optional<ApiError> ErrorIn(const HttpHead& head, std::string_view body);

/// The error in a parsed object; none: it is not a metav1.Status that says Failure.
std::optional<ApiError> ErrorIn(const nlohmann::json& object);

/// The Status of the request `what` ("POST /api/v1/...") that ended with `error`. Its message is
/// "WHAT: CODE REASON: MESSAGE [CAUSES]".
///
/// | answer | code |
/// |---|---|
/// | 409 AlreadyExists | kAlreadyExists: get the object and check its owner |
/// | 409 otherwise (Conflict) | kAborted: read again and decide again |
/// | 404 | kNotFound |
/// | 410 (Gone, Expired), or a version not seen yet | kOutOfRange: list without a version |
/// | 400, 413, 422 | kInvalidArgument: do not retry unchanged |
/// | 401 | kUnauthenticated |
/// | 403 because of a quota or limit range | kResourceExhausted |
/// | 403 because the namespace is being deleted | kFailedPrecondition |
/// | 403 otherwise | kPermissionDenied |
/// | 405, 406, 415 | kUnimplemented |
/// | 408, 504 | kDeadlineExceeded |
/// | 429, 500, 502, 503 and others of 5xx | kUnavailable |
/// | anything else | kUnknown |
Status ToStatus(const ApiError& error, std::string_view what);

/// The seconds in the Retry-After header; none: there is no header, or it is a date.
std::optional<Duration> RetryAfter(const HttpHeaders& headers);

}  // namespace swarm::kube
