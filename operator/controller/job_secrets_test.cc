#include "operator/controller/job_secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "operator/controller/testing/client_under_test.h"
#include "operator/controller/testing/fake_api_server.h"

namespace swarm::controller {
namespace {

using kube::resources::Secrets;
using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kJob[] = "uid-job";

class JobSecretsTest : public testing::Test {
 protected:
  static json Made(const std::string& name, const std::string& owner) {
    return {{"apiVersion", "v1"},
            {"kind", "Secret"},
            {"metadata",
             {{"name", name},
              {"namespace", "ns"},
              {"ownerReferences", {{{"kind", "Pod"}, {"name", "p"}, {"uid", owner}}}}}}};
  }
  static WallTime Now(std::chrono::hours later = {}) {
    return std::chrono::system_clock::now() + later;
  }
  static Result<OwnIdentity> Hold(JobSecrets& secrets, std::chrono::hours later = {}) {
    return secrets.Hold(kJob, Made("llama-ca", kJob), Now(later));
  }
  json Found(const std::string& name) {
    const auto secret = server_->Find(Secrets(), {"ns", name});
    SWARM_CHECK(secret.has_value(), "no Secret " + name);
    return *secret;
  }

  const SecretOfPairs own_{Made("llama-w0-identity", "uid-w0"), {{"tls", "spiffe://job/w0"}}};
  std::shared_ptr<FakeApiServer> server_ = std::make_shared<FakeApiServer>();
  std::unique_ptr<kube::Client> client_ = MakeClientUnderTest(server_);
  JobSecrets secrets_{*client_};
};

TEST_F(JobSecretsTest, AJobGetsAnAuthorityAndAPodAPairOfIt) {
  const auto held = Hold(secrets_);
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  ASSERT_TRUE(secrets_.Make(*client_, kJob, own_, Now()).ok());
  const json data = Found("llama-w0-identity")["data"];
  EXPECT_EQ(DecodeBase64(data["ca.crt"].get<std::string>()), held->ca);
  EXPECT_TRUE(data.contains("tls.crt") && data.contains("tls.key"));
  EXPECT_FALSE(data.contains("ca.key"));
  EXPECT_TRUE(Found("llama-ca")["data"].contains("ca.key"));
}

TEST_F(JobSecretsTest, APairCostsOneRequest) {
  ASSERT_TRUE(Hold(secrets_).ok());
  const std::size_t calls = server_->calls().size();
  ASSERT_TRUE(secrets_.Make(*client_, kJob, own_, Now()).ok());
  EXPECT_THAT(server_->calls(), SizeIs(calls + 1));
  ASSERT_TRUE(secrets_.Check(*client_, kJob, own_, Now()).ok());
  EXPECT_THAT(server_->calls(), SizeIs(calls + 2));
  ASSERT_TRUE(Hold(secrets_).ok()) << "the authority is known";
  EXPECT_THAT(server_->calls(), SizeIs(calls + 2));
}

TEST_F(JobSecretsTest, WhatIsGoodIsNotWrittenAgain) {
  ASSERT_TRUE(Hold(secrets_).ok());
  const auto made = secrets_.Make(*client_, kJob, own_, Now());
  const std::size_t writes = server_->writes().size();
  JobSecrets restarted(*client_);
  ASSERT_TRUE(Hold(restarted).ok());
  const auto checked = restarted.Check(*client_, kJob, own_, Now());
  ASSERT_TRUE(made.ok() && checked.ok());
  EXPECT_LT(std::chrono::abs(*checked - *made), std::chrono::minutes(10));
  EXPECT_THAT(server_->writes(), SizeIs(writes));
}

TEST_F(JobSecretsTest, AtHalfOfItsLifeAPairIsRenewedAndTheOperatorsToo) {
  const auto first = Hold(secrets_);
  ASSERT_TRUE(secrets_.Make(*client_, kJob, own_, Now()).ok());
  const json before = Found("llama-w0-identity")["data"];
  const std::chrono::hours later(90);
  const auto second = Hold(secrets_, later);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(secrets_.Check(*client_, kJob, own_, Now(later)).ok());
  EXPECT_NE(Found("llama-w0-identity")["data"]["tls.crt"], before["tls.crt"]);
  EXPECT_EQ(Found("llama-w0-identity")["data"]["ca.crt"], before["ca.crt"]);
  EXPECT_NE(second->self, first->self);
  EXPECT_EQ(second->ca, first->ca);
}

TEST_F(JobSecretsTest, ASecretThatIsMissingIsMade) {
  ASSERT_TRUE(Hold(secrets_).ok());
  ASSERT_TRUE(secrets_.Check(*client_, kJob, own_, Now()).ok());
  EXPECT_TRUE(Found("llama-w0-identity")["data"].contains("tls.key"));
}

TEST_F(JobSecretsTest, OfTwoOperatorsTheAuthorityOfTheFirstCounts) {
  std::optional<json> first;
  JobSecrets other(*client_);
  server_->SetHook([&](const FakeApiServer::Call& call) -> std::optional<kube::HttpResponse> {
    if (call.method != "POST" || first) return std::nullopt;
    first = json::object();  // the other operator writes while this one's request is in flight
    EXPECT_TRUE(Hold(other).ok());
    EXPECT_TRUE(other.Make(*client_, kJob, own_, Now()).ok());
    first = Found("llama-ca");
    return std::nullopt;
  });
  const auto held = Hold(secrets_);
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  EXPECT_EQ(Found("llama-ca"), *first);
  EXPECT_EQ(EncodeBase64(held->ca), (*first)["data"]["ca.crt"].get<std::string>());
  const json made = Found("llama-w0-identity");
  ASSERT_TRUE(secrets_.Make(*client_, kJob, own_, Now()).ok());
  EXPECT_EQ(Found("llama-w0-identity"), made) << "the other one's pair is good";
}

TEST_F(JobSecretsTest, ASecretThatChangesWhileItIsJudgedIsReadAgain) {
  ASSERT_TRUE(Hold(secrets_).ok());
  ASSERT_TRUE(secrets_.Make(*client_, kJob, own_, Now()).ok());
  const auto spoil = [](json& secret) { secret["data"].erase("tls.key"); };
  server_->Edit(Secrets(), {"ns", "llama-w0-identity"}, spoil);
  bool once = false;
  server_->SetHook([&](const FakeApiServer::Call& call) -> std::optional<kube::HttpResponse> {
    if (call.method == "PATCH" && !std::exchange(once, true)) {
      server_->Edit(Secrets(), {"ns", "llama-w0-identity"}, spoil);
    }
    return std::nullopt;
  });
  ASSERT_TRUE(secrets_.Check(*client_, kJob, own_, Now()).ok());
  EXPECT_TRUE(once);
  EXPECT_TRUE(Found("llama-w0-identity")["data"].contains("tls.key"));
}

TEST_F(JobSecretsTest, ASecretOfSomebodyElseIsLeftAlone) {
  server_->Put(Secrets(), Made("llama-ca", "uid-of-another"));
  EXPECT_EQ(Hold(secrets_).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Hold(secrets_).status().message(), HasSubstr("ns/llama-ca"));
  server_->Remove(Secrets(), {"ns", "llama-ca"});
  ASSERT_TRUE(Hold(secrets_).ok());
  server_->Put(Secrets(), Made("llama-w0-identity", "uid-of-another"));
  const std::size_t writes = server_->writes().size();
  const auto made = secrets_.Make(*client_, kJob, own_, Now());
  EXPECT_EQ(made.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(made.status().message(), HasSubstr("ns/llama-w0-identity"));
  EXPECT_FALSE(Found("llama-w0-identity").contains("data"));
  EXPECT_THAT(server_->writes(), SizeIs(writes + 1)) << "the try to create it";
}

}  // namespace
}  // namespace swarm::controller
