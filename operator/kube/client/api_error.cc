#include "operator/kube/client/api_error.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace swarm::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kMessageBytes = 512;  // of a body that is no Status

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int Integer(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return 0;
  const auto value = found->get<std::int64_t>();
  return value > 0 && value < 1'000'000 ? static_cast<int>(value) : 0;
}

void ReadDetails(const json& details, ApiError& error) {
  if (const int seconds = Integer(details, "retryAfterSeconds")) {
    error.retry_after = std::chrono::seconds(seconds);
  }
  const auto causes = details.find("causes");
  if (causes == details.end() || !causes->is_array()) return;
  for (const json& cause : *causes) {
    if (!cause.is_object()) continue;
    const std::string field = Text(cause, "field");
    const std::string reason = Text(cause, "reason");
    // Without a field, only the reason: {"reason": "NamespaceTerminating"}.
    error.causes.push_back((field.empty() ? reason : field) + ": " + Text(cause, "message"));
  }
}

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

StatusCode CodeOfForbidden(const ApiError& error) {
  const auto says = [&](std::string_view part) {
    return Contains(error.message, part) ||
           std::any_of(error.causes.begin(), error.causes.end(),
                       [&](const std::string& cause) { return Contains(cause, part); });
  };
  // Quotas and limit ranges have no reason of their own. These are the messages of their plugins.
  if (says("exceeded quota") || says("failed quota") || says("maximum cpu usage") ||
      says("maximum memory usage") || says("maximum ephemeral-storage usage")) {
    return StatusCode::kResourceExhausted;
  }
  if (says("NamespaceTerminating") || says("because it is being terminated")) {
    return StatusCode::kFailedPrecondition;
  }
  return StatusCode::kPermissionDenied;
}

StatusCode CodeOf(const ApiError& error) {
  switch (error.code) {
    case 400:
    case 413:
    case 422:
      return StatusCode::kInvalidArgument;
    case 401:
      return StatusCode::kUnauthenticated;
    case 403:
      return CodeOfForbidden(error);
    case 404:
      return StatusCode::kNotFound;
    case 405:
    case 406:
    case 415:
      return StatusCode::kUnimplemented;
    case 408:
    case 504:
      return StatusCode::kDeadlineExceeded;
    case 409:
      return error.reason == "AlreadyExists" ? StatusCode::kAlreadyExists : StatusCode::kAborted;
    case 410:
      return StatusCode::kOutOfRange;
    case 429:
      return StatusCode::kUnavailable;
    default:
      return error.code >= 500 ? StatusCode::kUnavailable : StatusCode::kUnknown;
  }
}

}  // namespace

bool ApiError::IsExpired() const { return code == 410 || reason == "Expired" || reason == "Gone"; }

bool ApiError::IsTooLargeVersion() const {
  return Contains(message, "Too large resource version") ||
         std::any_of(causes.begin(), causes.end(), [](const std::string& cause) {
           return Contains(cause, "ResourceVersionTooLarge");
         });
}

std::optional<Duration> RetryAfter(const HttpHeaders& headers) {
  const auto found = headers.find("retry-after");
  if (found == headers.end()) return std::nullopt;
  const std::string& text = found->second;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

std::optional<ApiError> ErrorIn(const json& object) {
  if (!object.is_object() || Text(object, "kind") != "Status") return std::nullopt;
  // The answer to a DELETE is a Status that says Success.
  if (Text(object, "status") == "Success") return std::nullopt;
  ApiError error;
  error.code = Integer(object, "code");
  error.reason = Text(object, "reason");
  error.message = Text(object, "message");
  const auto details = object.find("details");
  if (details != object.end() && details->is_object()) ReadDetails(*details, error);
  return error;
}

std::optional<ApiError> ErrorIn(const HttpHead& head, std::string_view body) {
  if (head.status >= 200 && head.status < 300) return std::nullopt;
  ApiError error;
  const json parsed = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (auto said = ErrorIn(parsed)) {
    error = *std::move(said);
  } else {
    error.message = std::string(body.substr(0, kMessageBytes));
  }
  error.code = head.status;
  if (const auto after = RetryAfter(head.headers)) error.retry_after = after;
  return error;
}

Status ToStatus(const ApiError& error, std::string_view what) {
  std::string text = std::string(what) + ": " + std::to_string(error.code);
  if (!error.reason.empty()) text += " " + error.reason;
  text += ": " + (error.message.empty() ? "no message" : error.message);
  for (std::size_t i = 0; i < error.causes.size(); ++i) {
    text += (i == 0 ? " [" : "; ") + error.causes[i];
  }
  if (!error.causes.empty()) text += "]";
  return Status(error.IsTooLargeVersion() ? StatusCode::kOutOfRange : CodeOf(error), text);
}

}  // namespace swarm::kube
