// Home of a run decides by the certificates and tokens of its callers, over the real service.
#include "ctl/enrol/run_home.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/identity/request.h"
#include "base/identity/testing/made_authority.h"
#include "base/testing/temporary_folder.h"
#include "worker/enrol/service/client.h"
#include "worker/enrol/token.h"

namespace swarm::ctl {
namespace {

using identity::JobAuthority;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunHomeTest : public testing::Test {
 protected:
  RunHomeTest() : home_(Open("7", authority_)) {}

  std::unique_ptr<Home> Open(const std::string& uid, const JobAuthority& authority) {
    auto home = OpenRunHome({.listen = "127.0.0.1:0",
                             .job_uid = uid,
                             .job_name = "tiny",
                             .trainer = "127.0.0.1:1",
                             .job = "what the job computes",
                             .validity = std::chrono::hours(1),
                             .address_file = folder_.path() / uid / "address",
                             .revoked_file = folder_.path() / uid / "revoked",
                             .events_file = folder_.path() / "events"},
                            authority);
    SWARM_CHECK(home.ok(), home.status().ToString());
    return *std::move(home);
  }
  static enrol::JoinToken TokenOf(Home& home) {
    const auto text = home.CreateToken();
    SWARM_CHECK(text.ok(), text.status().ToString());
    auto token = enrol::ParseJoinToken(*text);
    SWARM_CHECK(token.ok(), token.status().ToString());
    return *std::move(token);
  }
  enrol::Client ClientAs(const std::string& uri) {
    const enrol::JoinToken token = TokenOf(*home_);
    enrol::Client client({token.address, token.fingerprint});
    client.SetIdentity(*authority_.Issue("somebody", uri));
    return client;
  }
  static Result<enrol::EnrolReply> Join(const enrol::JoinToken& token) {
    enrol::Client machine({token.address, token.fingerprint});
    return machine.Enrol({token.id, token.secret, identity::MakeRequest("laptop")->request});
  }
  std::vector<std::string> EventKinds() const {
    std::istringstream lines(*ReadFile(folder_.path() / "events"));
    std::vector<std::string> kinds;
    for (std::string line; std::getline(lines, line);) {
      kinds.push_back(nlohmann::json::parse(line).at("kind"));
    }
    return kinds;
  }

  TemporaryFolder folder_;
  const JobAuthority authority_ = identity::MadeAuthority("7");
  std::unique_ptr<Home> home_;
};

TEST_F(RunHomeTest, ATokenMakesAMachineAWorkerWhoseNameHomeChooses) {
  const auto reply = Join(TokenOf(*home_));
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->worker, "joined-0");
  EXPECT_EQ(reply->job_uid, "7");
  EXPECT_EQ(reply->job_name, "tiny");
  EXPECT_EQ(reply->trainer, "127.0.0.1:1");
  EXPECT_EQ(reply->job, "what the job computes");
  const auto facts = identity::ReadCertificate(reply->certificate, "certificate");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->uris, ElementsAre(identity::WorkerUri("7", "joined-0")));
  EXPECT_THAT(EventKinds(), ElementsAre("TokenCreated", "WorkerEnrolled"));
  const auto events = home_->TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_THAT(events[1], HasSubstr("joined-0 was enrolled from 127.0.0.1"));
  EXPECT_THAT(home_->TakeEvents(), IsEmpty());
}

TEST_F(RunHomeTest, ASecretOfAnotherJobIsRefusedAndNoted) {
  const JobAuthority other = identity::MadeAuthority("8");
  const auto elsewhere = Open("8", other);
  enrol::JoinToken replayed = TokenOf(*elsewhere);
  const enrol::JoinToken ours = TokenOf(*home_);
  replayed.address = ours.address;
  // As it was given, its fingerprint does not fit: nothing is sent.
  EXPECT_THAT(Join(replayed).status().message(), HasSubstr("is not the home of this job"));
  // With ours put in, home has never given its secret.
  replayed.fingerprint = ours.fingerprint;
  const auto reply = Join(replayed);
  EXPECT_EQ(reply.status().code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(reply.status().message(), HasSubstr("of another run or job, or forged"));
  EXPECT_THAT(EventKinds(), ElementsAre("TokenCreated", "TokenCreated", "JoinRefused"));
}

TEST_F(RunHomeTest, AWorkerGetsTheNextCertificateOfItselfUntilItIsRevoked) {
  ASSERT_TRUE(Join(TokenOf(*home_)).ok());
  enrol::Client worker = ClientAs(identity::WorkerUri("7", "joined-0"));
  const auto reply = worker.Refresh(identity::MakeRequest("laptop")->request);
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  const auto facts = identity::ReadCertificate(reply->certificate, "certificate");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->uris, ElementsAre(identity::WorkerUri("7", "joined-0")));

  enrol::Client owner = ClientAs(identity::OperatorUri("7"));
  const auto out = owner.Revoke("joined-0");
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_THAT(*out, ElementsAre("joined-0"));
  EXPECT_EQ(*ReadFile(folder_.path() / "7" / "revoked"), "joined-0\n");
  EXPECT_EQ(worker.Refresh("").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(EventKinds().back(), "Revoked");
}

// What a stolen key is good for at home: rows of the table in SECURITY.md.
TEST_F(RunHomeTest, EachRoleMayDoOnlyWhatItNeeds) {
  ASSERT_TRUE(Join(TokenOf(*home_)).ok());
  const std::string request = identity::MakeRequest("thief")->request;
  for (const std::string& uri : {identity::WorkerUri("7", "joined-0"), identity::TrainerUri("7"),
                                 identity::ObserverUri("7"), identity::HomeUri("7")}) {
    enrol::Client thief = ClientAs(uri);
    EXPECT_EQ(thief.CreateToken({}).status().code(), StatusCode::kPermissionDenied) << uri;
    EXPECT_EQ(thief.ListTokens().status().code(), StatusCode::kPermissionDenied) << uri;
    EXPECT_EQ(thief.Revoke("joined-0").status().code(), StatusCode::kPermissionDenied) << uri;
  }
  for (const std::string& uri :
       {identity::TrainerUri("7"), identity::ObserverUri("7"), identity::OperatorUri("7"),
        identity::WorkerUri("8", "joined-0")}) {
    EXPECT_EQ(ClientAs(uri).Refresh(request).status().code(), StatusCode::kPermissionDenied) << uri;
  }
  // A worker that home started itself has a certificate of the run, which it cannot renew here.
  EXPECT_EQ(ClientAs(identity::WorkerUri("7", "worker-0")).Refresh(request).status().code(),
            StatusCode::kNotFound);
}

TEST_F(RunHomeTest, WithoutACertificateOnlyATokenHelps) {
  const enrol::JoinToken token = TokenOf(*home_);
  enrol::Client nobody({token.address, token.fingerprint});
  EXPECT_EQ(nobody.CreateToken({}).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(nobody.ListTokens().status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(nobody.Revoke(token.id).status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(nobody.Refresh("").status().message(), HasSubstr("it has no certificate"));
}

TEST_F(RunHomeTest, TheOwnersTermsCountAndTheSecretIsNowhereOnDisk) {
  enrol::Client owner = ClientAs(identity::OperatorUri("7"));
  const auto text = owner.CreateToken({std::chrono::minutes(5), 1});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto token = enrol::ParseJoinToken(*text);
  ASSERT_TRUE(token.ok());
  EXPECT_TRUE(Join(*token).ok());
  EXPECT_THAT(Join(*token).status().message(), HasSubstr(token->id + " is used up"));
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (!file.is_regular_file()) continue;
    EXPECT_EQ(ReadFile(file.path())->find(token->secret), std::string::npos) << file.path();
  }
}

TEST_F(RunHomeTest, ARequestThatIsNoneGetsNothing) {
  const enrol::JoinToken token = TokenOf(*home_);
  enrol::Client machine({token.address, token.fingerprint});
  const auto reply = machine.Enrol({token.id, token.secret, "no request"});
  EXPECT_EQ(reply.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace swarm::ctl
