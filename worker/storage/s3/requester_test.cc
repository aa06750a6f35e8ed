#include "worker/storage/s3/requester.h"

#include <gmock/gmock.h>

#include "worker/storage/s3/testing/test_http_server.h"

namespace swarm::storage::s3 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::string Error(int status, const std::string& code) {
  return TestHttpServer::Response(
      status, "<Error><Code>" + code + "</Code><Message>because</Message></Error>");
}

class RequesterTest : public testing::Test {
 protected:
  // The server's answers, one after the other; the last one is repeated.
  std::vector<std::string> answers_ = {TestHttpServer::Response(200, "content")};
  std::size_t next_ = 0;
  TestHttpServer server_{
      [this](const std::string&) { return answers_[std::min(next_++, answers_.size() - 1)]; }};

  S3Options Options() {
    S3Options options;
    options.bucket = "bucket";
    options.endpoint = server_.url();
    options.attempts = 4;
    options.backoff = std::chrono::milliseconds(1);
    options.environment = [](const char* name) -> std::string {
      const std::string_view wanted(name);
      return wanted == "AWS_ACCESS_KEY_ID"       ? "id"
             : wanted == "AWS_SECRET_ACCESS_KEY" ? "topsecret"
                                                 : "";
    };
    return options;
  }
  Status Get(std::vector<std::string> answers) {
    answers_ = std::move(answers);
    return Requester(Options()).Perform({.key = "a/b"}).status();
  }
};

TEST_F(RequesterTest, BucketsOfAnEndpointAreAddressedByPath) {
  const auto answer = Requester(Options()).Perform({.key = "a b", .query = {{"x", "1"}}});
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->response.body.text(), "content");
  ASSERT_THAT(server_.requests(), SizeIs(1));
  EXPECT_THAT(server_.requests()[0],
              AllOf(HasSubstr("GET /bucket/a%20b?x=1 HTTP"), HasSubstr("Credential=id/"),
                    Not(HasSubstr("topsecret"))));
}

TEST_F(RequesterTest, WhatMayPassIsTriedAgain) {
  const Status status = Get({Error(503, "SlowDown"), TestHttpServer::Response(429, ""),
                             "" /* hangs up */, TestHttpServer::Response(200, "content")});
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_THAT(server_.requests(), SizeIs(4));
}

TEST_F(RequesterTest, TriesAreBounded) {
  const Status status = Get({Error(500, "InternalError")});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("GET s3://bucket/a/b"), HasSubstr("InternalError"),
                                      HasSubstr("after 4 tries")));
  EXPECT_THAT(server_.requests(), SizeIs(4));
}

TEST_F(RequesterTest, TheDeadlineIsABoundToo) {
  answers_ = {Error(503, "SlowDown")};
  S3Options options = Options();
  options.attempts = 1'000'000;
  options.request_deadline = std::chrono::milliseconds(200);
  EXPECT_EQ(Requester(options).Perform({.key = "a"}).status().code(), StatusCode::kUnavailable);
}

TEST_F(RequesterTest, RefusalsAreFinalAndClear) {
  struct Case {
    int http;
    const char* code;
    StatusCode expected;
  };
  for (const Case& c : {Case{403, "AccessDenied", StatusCode::kPermissionDenied},
                        Case{403, "InvalidAccessKeyId", StatusCode::kPermissionDenied},
                        Case{404, "NoSuchKey", StatusCode::kNotFound},
                        Case{404, "NoSuchBucket", StatusCode::kNotFound},
                        Case{412, "PreconditionFailed", StatusCode::kAlreadyExists},
                        Case{400, "InvalidRequest", StatusCode::kInvalidArgument},
                        Case{507, "XMinioStorageFull", StatusCode::kResourceExhausted},
                        Case{403, "QuotaExceeded", StatusCode::kResourceExhausted}}) {
    const std::size_t before = server_.requests().size();
    const Status status = Get({Error(c.http, c.code)});
    EXPECT_EQ(status.code(), c.expected) << c.code;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(c.code), HasSubstr("because")));
    EXPECT_EQ(server_.requests().size(), before + 1) << c.code;
  }
}

TEST_F(RequesterTest, ABucketOfAnotherRegionIsToldApart) {
  const Status status =
      Get({TestHttpServer::Response(301, "", "x-amz-bucket-region: eu-west-1\r\n")});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("set region eu-west-1"));
}

TEST_F(RequesterTest, AnErrorWithinASuccessIsAnError) {
  answers_ = {Error(200, "InternalError"), TestHttpServer::Response(200, "<Done></Done>")};
  const auto answer = Requester(Options()).Perform({.method = "POST", .key = "a"});
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->attempts, 2);
}

TEST_F(RequesterTest, AServerThatIsNotThereIsUnavailable) {
  S3Options options = Options();
  options.endpoint = "http://127.0.0.1:1";  // a reserved port, without a listener
  options.attempts = 2;
  EXPECT_EQ(Requester(options).Perform({.key = "a"}).status().code(), StatusCode::kUnavailable);
}

TEST_F(RequesterTest, AConditionalWriteWhoseAnswerGotLostIsRecognized) {
  const auto storage = OpenS3Storage(Options());
  const std::string lost;
  answers_ = {lost, Error(412, "PreconditionFailed"), TestHttpServer::Response(200, "mine")};
  EXPECT_TRUE(storage->WriteIfAbsent("a", Bytes::Copy("mine")).ok());
  next_ = 0;
  EXPECT_EQ(storage->WriteIfAbsent("a", Bytes::Copy("other")).code(), StatusCode::kAlreadyExists);
}

TEST(S3OptionsTest, TheManifestComesBeforeTheEnvironment) {
  const Environment environment = [](const char* name) -> std::string {
    const std::string_view wanted(name);
    return wanted == "AWS_REGION" ? "eu-west-1" : wanted == "AWS_ENDPOINT_URL" ? "https://e" : "";
  };
  const auto from_environment = MakeS3Options("s3://b/p/q/", {}, environment);
  ASSERT_TRUE(from_environment.ok());
  EXPECT_EQ(from_environment->bucket, "b");
  EXPECT_EQ(from_environment->prefix, "p/q/");
  EXPECT_EQ(from_environment->region, "eu-west-1");
  EXPECT_EQ(from_environment->endpoint, "https://e");
  const auto given =
      MakeS3Options("s3://b", {.endpoint = "http://127.0.0.1:9", .region = "here"}, environment);
  EXPECT_EQ(given->prefix, "");
  EXPECT_EQ(given->region, "here");
  EXPECT_EQ(given->endpoint, "http://127.0.0.1:9");
  for (const char* uri : {"s3://", "s3:///p", "s3://b/../c", "file:///x"}) {
    EXPECT_FALSE(MakeS3Options(uri, {}, environment).ok()) << uri;
  }
  EXPECT_FALSE(MakeS3Options("s3://b", {.endpoint = "host:9000"}, environment).ok());
}

}  // namespace
}  // namespace swarm::storage::s3
