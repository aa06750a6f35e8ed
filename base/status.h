// Errors as values. Every function that can fail for an expected reason (a peer is gone, bytes are
// bad, a file is missing) returns Status or Result<T>. A broken invariant is a SWARM_CHECK: the
// process ends and its supervisor starts another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace swarm {

/// The canonical codes of gRPC, so that worker/net maps one to one. Four of them carry policy:
/// kUnavailable: retry with jitter; kAborted: the epoch moved on, rejoin; kDataLoss: drop and ask
/// again; kInvalidArgument: never retry.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

std::string_view StatusCodeName(StatusCode code);

/// Success, or a code and a message: what failed, where, and what to do. Cheap when ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);

  bool ok() const { return state_ == nullptr; }
  StatusCode code() const { return state_ ? state_->code : StatusCode::kOk; }
  /// Empty when ok.
  const std::string& message() const;
  /// "OK", or "DATA_LOSS: shard 3 of corpus.bin: ...".
  std::string ToString() const;
  /// The same code with `context` and a colon put before the message; ok stays ok.
  Status WithContext(std::string_view context) const;

 private:
  struct State {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const State> state_;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status AlreadyExists(std::string message);
Status FailedPrecondition(std::string message);
Status Unavailable(std::string message);
Status DeadlineExceeded(std::string message);
Status ResourceExhausted(std::string message);
Status DataLoss(std::string message);
Status PermissionDenied(std::string message);
Status Unimplemented(std::string message);
Status Internal(std::string message);
Status Cancelled(std::string message);

/// A value, or the error that prevents it.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
  Result(Status status) : content_(std::in_place_index<1>, std::move(status)) {}  // NOLINT

  bool ok() const { return content_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(content_); }
  const T& value() const& { return std::get<0>(content_); }
  T& value() & { return std::get<0>(content_); }
  T&& value() && { return std::get<0>(std::move(content_)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  std::variant<T, Status> content_;
};

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);
}  // namespace internal

}  // namespace swarm

/// Ends the process with the place and the message if `condition`, an invariant, is false.
#define SWARM_CHECK(condition, message)                                          \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      ::swarm::internal::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)

#define SWARM_CONCAT_INNER(a, b) a##b
#define SWARM_CONCAT(a, b) SWARM_CONCAT_INNER(a, b)

/// Returns the error of a Status expression to the caller.
#define RETURN_IF_ERROR(expression)                                            \
  do {                                                                         \
    if (::swarm::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

/// ASSIGN_OR_RETURN(auto x, F()): the value of a Result, or its error to the caller.
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(SWARM_CONCAT(result_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) return result.status();                     \
  declaration = std::move(result).value()
