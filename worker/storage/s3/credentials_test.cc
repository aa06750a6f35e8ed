#include "worker/storage/s3/credentials.h"

#include <gmock/gmock.h>

#include <map>

#include "base/testing/temporary_folder.h"
#include "worker/storage/s3/s3_storage.h"
#include "worker/storage/s3/testing/test_http_server.h"
#include "worker/storage/s3/testing/test_s3_server.h"

namespace swarm::storage::s3 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

using Variables = std::map<std::string, std::string>;

Environment From(Variables variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? "" : at->second;
  };
}

class CredentialsTest : public testing::Test {
 protected:
  WallTime now_ = *ParseWallTime("2030-01-01T00:00:00Z");

  std::unique_ptr<CredentialsProvider> Provider(const Variables& variables) {
    return std::make_unique<CredentialsProvider>(
        std::make_shared<HttpClient>(),
        CredentialsProvider::Options{.environment = From(variables),
                                     .now = [this] { return now_; }});
  }

  static std::string Answer(const std::string& key, const std::string& expiration) {
    return TestHttpServer::Response(200, R"({"AccessKeyId": ")" + key +
                                             R"(", "SecretAccessKey": "s", "Token": "t",)" +
                                             R"("Expiration": ")" + expiration + R"("})");
  }
};

TEST_F(CredentialsTest, KeysOfTheEnvironmentComeFirst) {
  const auto provider = Provider({{"AWS_ACCESS_KEY_ID", "id"},
                                  {"AWS_SECRET_ACCESS_KEY", "secret"},
                                  {"AWS_SESSION_TOKEN", "token"},
                                  {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1"}});
  const auto credentials = provider->Get();
  ASSERT_TRUE(credentials.ok());
  EXPECT_EQ(credentials->access_key, "id");
  EXPECT_EQ(credentials->secret_key, "secret");
  EXPECT_EQ(credentials->session_token, "token");
}

TEST_F(CredentialsTest, WithoutAnyTheErrorSaysWhatToSet) {
  const Status status = Provider({})->Get().status();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr("AWS_ROLE_ARN")));
}

TEST_F(CredentialsTest, ContainerCredentialsAreFetchedWithTheTokenAndKept) {
  const TemporaryFolder folder;
  TestHttpServer server([](const std::string&) { return Answer("first", "2030-01-01T01:00:00Z"); });
  const auto provider =
      Provider({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/v1/credentials"},
                {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder.Put("token", "sesame\n")}});
  EXPECT_EQ(provider->Get()->access_key, "first");
  EXPECT_EQ(provider->Get()->session_token, "t");
  ASSERT_THAT(server.requests(), SizeIs(1));
  EXPECT_THAT(server.requests()[0],
              AllOf(HasSubstr("GET /v1/credentials HTTP"), HasSubstr("authorization: sesame\r\n")));
}

TEST_F(CredentialsTest, TheyAreRenewedBeforeTheyExpireAndTheOldOnesDoMeanwhile) {
  int calls = 0;
  TestHttpServer server([&](const std::string&) {
    switch (++calls) {
      case 1:
        return Answer("first", "2030-01-01T01:00:00Z");
      case 2:
        return TestHttpServer::Response(500, "");
      default:
        return Answer("second", "2030-01-01T02:00:00.5Z");
    }
  });
  const auto provider = Provider({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url()}});
  EXPECT_EQ(provider->Get()->access_key, "first");
  now_ += std::chrono::minutes(54);
  EXPECT_EQ(provider->Get()->access_key, "first");
  EXPECT_THAT(server.requests(), SizeIs(1));
  now_ += std::chrono::minutes(2);
  EXPECT_EQ(provider->Get()->access_key, "first");  // the renewal failed, these are still good
  EXPECT_EQ(provider->Get()->access_key, "second");
  EXPECT_THAT(server.requests(), SizeIs(3));
}

TEST_F(CredentialsTest, ExpiredOnesAreNotUsedAndInvalidatedOnesAreFetchedAgain) {
  int calls = 0;
  TestHttpServer server([&](const std::string&) {
    ++calls;
    return calls <= 2 ? Answer(std::to_string(calls), "2030-01-01T01:00:00Z")
                      : TestHttpServer::Response(503, "");
  });
  const auto provider = Provider({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url()}});
  EXPECT_EQ(provider->Get()->access_key, "1");
  provider->Invalidate();
  EXPECT_EQ(provider->Get()->access_key, "2");
  now_ += std::chrono::hours(1);
  EXPECT_EQ(provider->Get().status().code(), StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, RefusalsAreFinalAndTokensGoNowhereUnencrypted) {
  TestHttpServer server([](const std::string&) { return TestHttpServer::Response(403, ""); });
  EXPECT_EQ(Provider({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url()}})->Get().status().code(),
            StatusCode::kUnauthenticated);
  const Status far = Provider({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/x"},
                               {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "sesame"}})
                         ->Get()
                         .status();
  EXPECT_EQ(far.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(far.message(), AllOf(HasSubstr("neither https"), Not(HasSubstr("sesame"))));
}

TEST_F(CredentialsTest, AWebIdentityIsExchangedForKeysThatAServerAccepts) {
  const TestS3Server server;
  const TemporaryFolder folder;
  S3Options options;
  options.bucket = "bucket";
  options.endpoint = server.url();
  options.environment = From({{"AWS_WEB_IDENTITY_TOKEN_FILE", folder.Put("token", "a.b.c")},
                              {"AWS_ROLE_ARN", server.role()},
                              {"AWS_ENDPOINT_URL", server.url()}});
  const auto storage = OpenS3Storage(options);
  const Status status = storage->Write("by-role", Bytes::Copy("x"));
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(storage->Read("by-role")->text(), "x");
}

class WebIdentityTest : public CredentialsTest {
 protected:
  /// STS gives these answers, one after the other.
  void StsAnswers(std::vector<std::string> answers) {
    server_.emplace([answers = std::move(answers), next = std::size_t{0}](
                        const std::string&) mutable { return answers[next++]; });
    provider_ = Provider({{"AWS_WEB_IDENTITY_TOKEN_FILE", folder_.Put("token", "a.b.c")},
                          {"AWS_ROLE_ARN", "arn"},
                          {"AWS_ENDPOINT_URL_STS", server_->url()}});
  }
  static std::string Keys() {
    return TestHttpServer::Response(
        200,
        "<AccessKeyId>id</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
        "<SessionToken>t</SessionToken><Expiration>2030-01-01T01:00:00Z</Expiration>");
  }
  static std::string Error(int status, const std::string& code) {
    return TestHttpServer::Response(
        status, "<Error><Code>" + code + "</Code><Message>no keys now</Message></Error>");
  }
  StatusCode CodeNow() { return provider_->Get().status().code(); }

  const TemporaryFolder folder_;
  std::optional<TestHttpServer> server_;
  std::unique_ptr<CredentialsProvider> provider_;
};

TEST_F(WebIdentityTest, AnStsThatIsTooBusyOrDoesNotReachTheIssuerHasNotRefused) {
  const std::vector<std::string> busy = {Error(400, "IDPCommunicationError"),
                                         Error(400, "Throttling"),
                                         Error(400, "ThrottlingException"),
                                         Error(400, "RequestLimitExceeded"),
                                         Error(400, "TooManyRequestsException"),
                                         Error(400, "RequestTimeout"),
                                         Error(408, ""),
                                         Error(429, ""),
                                         Error(503, "")};
  std::vector<std::string> answers = busy;
  answers.push_back(Error(403, "AccessDenied"));
  StsAnswers(answers);
  for (const std::string& answer : busy) {
    EXPECT_EQ(CodeNow(), StatusCode::kUnavailable) << answer;
    now_ += std::chrono::minutes(10);
  }
  const Status refused = provider_->Get().status();
  EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(refused.message(), HasSubstr("403 AccessDenied: no keys now"));
}

TEST_F(WebIdentityTest, ATokenIsRefusedOnceStsHasRefusedItForTwoMinutes) {
  for (const char* code : {"InvalidIdentityToken", "ExpiredTokenException"}) {
    const std::string error = Error(400, code);
    StsAnswers({error, error, error, Keys(), error});
    EXPECT_EQ(CodeNow(), StatusCode::kUnavailable) << "the issuer's keys may be new";
    now_ += std::chrono::seconds(119);
    EXPECT_EQ(CodeNow(), StatusCode::kUnavailable);
    now_ += std::chrono::seconds(1);
    EXPECT_EQ(CodeNow(), StatusCode::kUnauthenticated);
    EXPECT_EQ(CodeNow(), StatusCode::kOk);
    provider_->Invalidate();
    EXPECT_EQ(CodeNow(), StatusCode::kUnavailable) << "it was good in between";
  }
}

TEST_F(CredentialsTest, AMissingTokenFileIsNamed) {
  const Status status =
      Provider({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/no/token"}, {"AWS_ROLE_ARN", "arn"}})
          ->Get()
          .status();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(status.message(), HasSubstr("/no/token"));
}

TEST(HttpClientTest, LoopbackAndLinkLocalHostsAreTold) {
  for (const char* url : {"http://127.0.0.1:80/x", "http://localhost", "http://[::1]:9/",
                          "http://169.254.170.2/v2", "http://127.1.2.3?x"}) {
    EXPECT_TRUE(IsLocalHost(url)) << url;
  }
  for (const char* url : {"http://127.0.0.1.example.com/", "http://localhost.example.com",
                          "http://example.com/127.0.0.1", "http://10.0.0.1/", "http://[::2]/"}) {
    EXPECT_FALSE(IsLocalHost(url)) << url;
  }
}

}  // namespace
}  // namespace swarm::storage::s3
