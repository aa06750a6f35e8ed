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
using testing::IsEmpty;
using testing::SizeIs;

class JobSecretsTest : public testing::Test {
 protected:
  Result<HeldIdentities> Ensure(JobSecrets& secrets, const std::vector<std::string>& workers,
                                std::chrono::hours later = {}) {
    return secrets.Ensure({"ns", "llama"}, "uid-job", {"llama", workers, true}, MakeSecret,
                          std::chrono::system_clock::now() + later);
  }
  json Found(const std::string& name) {
    const auto secret = server_->Find(Secrets(), {"ns", name});
    SWARM_CHECK(secret.has_value(), "no Secret " + name);
    return *secret;
  }

  static json Made(const std::string& name, const std::string& owner) {
    return {{"apiVersion", "v1"},
            {"kind", "Secret"},
            {"metadata",
             {{"name", name},
              {"namespace", "ns"},
              {"ownerReferences", {{{"kind", "SwarmJob"}, {"uid", owner}}}}}}};
  }
  const JobSecrets::MakeSecret MakeSecret = [](const std::string& name) {
    return Made(name, "uid-job");
  };

  std::shared_ptr<FakeApiServer> server_ = std::make_shared<FakeApiServer>();
  std::unique_ptr<kube::Client> client_ = MakeClientUnderTest(server_);
  JobSecrets secrets_{*client_};
};

TEST_F(JobSecretsTest, AJobGetsAnAuthorityAndCertificates) {
  const auto held = Ensure(secrets_, {"llama-w0"});
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  const json data = Found("llama-identities")["data"];
  EXPECT_EQ(DecodeBase64(data["ca.crt"].get<std::string>()), held->ca);
  EXPECT_TRUE(data.contains("w0.key") && data.contains("trainer.crt"));
  EXPECT_TRUE(Found("llama-ca")["data"].contains("ca.key"));
  EXPECT_FALSE(data.contains("ca.key"));
}

TEST_F(JobSecretsTest, NothingIsWrittenWithoutNeed) {
  ASSERT_TRUE(Ensure(secrets_, {"llama-w0"}).ok());
  const std::size_t calls = server_->calls().size();
  ASSERT_TRUE(Ensure(secrets_, {"llama-w0"}).ok());
  EXPECT_THAT(server_->calls(), SizeIs(calls));
  JobSecrets restarted(*client_);
  const std::size_t writes = server_->writes().size();
  ASSERT_TRUE(Ensure(restarted, {"llama-w0"}).ok());
  EXPECT_THAT(server_->writes(), SizeIs(writes));
}

TEST_F(JobSecretsTest, KeysOfWorkersThatAreGoneAreRemoved) {
  ASSERT_TRUE(Ensure(secrets_, {"llama-w0", "llama-w1"}).ok());
  ASSERT_TRUE(Ensure(secrets_, {"llama-w1", "llama-w2"}).ok());
  const json data = Found("llama-identities")["data"];
  EXPECT_FALSE(data.contains("w0.key"));
  EXPECT_TRUE(data.contains("w1.key") && data.contains("w2.key"));
  EXPECT_FALSE(server_->writes().back().body["data"].contains("w1.key")) << "which is as it was";
}

TEST_F(JobSecretsTest, KeysThatNobodyNeedsGoWithTheNextWrite) {
  ASSERT_TRUE(Ensure(secrets_, {"llama-w0", "llama-w1"}).ok());
  const std::size_t writes = server_->writes().size();
  ASSERT_TRUE(Ensure(secrets_, {"llama-w1"}).ok());
  EXPECT_THAT(server_->writes(), SizeIs(writes));
  ASSERT_TRUE(Ensure(secrets_, {"llama-w1", "llama-w2"}).ok());
  EXPECT_THAT(server_->writes(), SizeIs(writes + 1));
  EXPECT_FALSE(Found("llama-identities")["data"].contains("w0.key"));
}

TEST_F(JobSecretsTest, AtHalfOfTheirLifeAllAreRenewedAndTheOperatorsToo) {
  const auto first = Ensure(secrets_, {"llama-w0"});
  ASSERT_TRUE(first.ok());
  const json before = Found("llama-identities")["data"];
  const auto second = Ensure(secrets_, {"llama-w0"}, std::chrono::hours(90));
  ASSERT_TRUE(second.ok());
  EXPECT_NE(Found("llama-identities")["data"]["w0.crt"], before["w0.crt"]);
  EXPECT_NE(second->self, first->self);
  EXPECT_EQ(second->ca, first->ca);
}

TEST_F(JobSecretsTest, OfTwoOperatorsTheAuthorityOfTheFirstCounts) {
  std::optional<json> first;
  JobSecrets other(*client_);
  server_->SetHook([&](const FakeApiServer::Call& call) -> std::optional<kube::HttpResponse> {
    if (call.method != "POST" || first) return std::nullopt;
    first = json::object();  // the other operator writes while this one's request is in flight
    EXPECT_TRUE(Ensure(other, {"llama-w0"}).ok());
    first = Found("llama-ca");
    return std::nullopt;
  });
  // This operator finds the JOB-identities that the other one made, and takes it over.
  const auto held = Ensure(secrets_, {"llama-w0"});
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  EXPECT_EQ(Found("llama-ca"), *first);
  EXPECT_EQ(EncodeBase64(held->ca), (*first)["data"]["ca.crt"].get<std::string>());
}

TEST_F(JobSecretsTest, ASecretThatChangedBehindOurBackIsReadAgain) {
  ASSERT_TRUE(Ensure(secrets_, {"llama-w0"}).ok());
  server_->Edit(Secrets(), {"ns", "llama-identities"},
                [](json& secret) { secret["data"].erase("trainer.key"); });
  ASSERT_TRUE(Ensure(secrets_, {"llama-w0", "llama-w1"}).ok());
  EXPECT_TRUE(Found("llama-identities")["data"].contains("trainer.key"));
}

TEST_F(JobSecretsTest, ASecretOfSomebodyElseIsLeftAlone) {
  server_->Put(Secrets(), Made("llama-ca", "uid-of-another"));
  const auto held = Ensure(secrets_, {"llama-w0"});
  EXPECT_EQ(held.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(held.status().message(), testing::HasSubstr("ns/llama-ca"));
  EXPECT_THAT(server_->writes(), IsEmpty());
}

}  // namespace
}  // namespace swarm::controller
