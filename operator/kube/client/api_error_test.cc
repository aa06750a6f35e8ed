#include "operator/kube/client/api_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::kube {
namespace {

std::string Failure(const std::string& reason, const std::string& message) {
  return nlohmann::json{
      {"kind", "Status"}, {"status", "Failure"}, {"reason", reason}, {"message", message}}
      .dump();
}

StatusCode CodeOf(int http, const std::string& body) {
  const auto error = ErrorIn(HttpHead{http, {}}, body);
  return error ? ToStatus(*error, "GET /x").code() : StatusCode::kOk;
}

TEST(ApiErrorTest, EachAnswerHasTheCodeThatSaysWhatToDo) {
  EXPECT_EQ(CodeOf(200, ""), StatusCode::kOk);
  EXPECT_EQ(CodeOf(201, ""), StatusCode::kOk);
  EXPECT_EQ(CodeOf(409, Failure("AlreadyExists", "a")), StatusCode::kAlreadyExists);
  EXPECT_EQ(CodeOf(409, Failure("Conflict", "a")), StatusCode::kAborted);
  EXPECT_EQ(CodeOf(404, Failure("NotFound", "a")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(410, Failure("Expired", "a")), StatusCode::kOutOfRange);
  EXPECT_EQ(CodeOf(422, Failure("Invalid", "a")), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(401, ""), StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(415, ""), StatusCode::kUnimplemented);
  EXPECT_EQ(CodeOf(429, ""), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(503, "upstream is gone"), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(302, ""), StatusCode::kUnknown);
}

TEST(ApiErrorTest, ForbiddenIsToldApartByWhy) {
  EXPECT_EQ(CodeOf(403, Failure("Forbidden", "pods \"a\" is forbidden: User cannot create")),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(403, Failure("Forbidden", "pods \"a\" is forbidden: exceeded quota: compute, ")),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(403, R"({"kind":"Status","reason":"Forbidden","message":"a is forbidden",
                            "details":{"causes":[{"reason":"NamespaceTerminating",
                            "message":"namespace x is being terminated"}]}})"),
            StatusCode::kFailedPrecondition);
}

TEST(ApiErrorTest, TheMessageKeepsReasonAndCauses) {
  const auto error = ErrorIn(HttpHead{422, {}}, R"({"kind":"Status","reason":"Invalid",
      "message":"Pod \"a\" is invalid","details":{"causes":[
      {"field":"spec.containers","reason":"FieldValueRequired","message":"Required value"}]}})");
  ASSERT_TRUE(error);
  EXPECT_EQ(ToStatus(*error, "POST /pods").ToString(),
            "INVALID_ARGUMENT: POST /pods: 422 Invalid: Pod \"a\" is invalid "
            "[spec.containers: Required value]");
}

TEST(ApiErrorTest, RetryAfterComesFromTheHeaderOrFromTheBody) {
  using std::chrono::seconds;
  EXPECT_EQ(ErrorIn(HttpHead{429, {{"retry-after", "7"}}}, "")->retry_after, seconds(7));
  EXPECT_EQ(ErrorIn(HttpHead{429, {}}, R"({"kind":"Status","details":{"retryAfterSeconds":3}})")
                ->retry_after,
            seconds(3));
  EXPECT_EQ(RetryAfter({{"retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"}}), std::nullopt);
  EXPECT_EQ(RetryAfter({{"retry-after", "-1"}}), std::nullopt);
}

TEST(ApiErrorTest, AVersionFromTheFutureIsListedAnew) {
  const auto error = ErrorIn(HttpHead{504, {}}, R"({"kind":"Status","reason":"Timeout",
      "message":"Timeout: Too large resource version: 9, current: 1",
      "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large"}]}})");
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->IsTooLargeVersion());
  EXPECT_EQ(ToStatus(*error, "GET /x").code(), StatusCode::kOutOfRange);
}

TEST(ApiErrorTest, ABodyThatIsNoStatusIsQuoted) {
  const auto error = ErrorIn(HttpHead{502, {}}, std::string(10000, 'x'));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, std::string(512, 'x'));
}

}  // namespace
}  // namespace swarm::kube
