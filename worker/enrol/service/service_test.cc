// Machines, workers and operators talk to home's service over TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/job_for_machines.h"
#include "base/identity/authority.h"
#include "base/identity/request.h"
#include "base/identity/testing/made_authority.h"
#include "base/identity/trust.h"
#include "worker/enrol/service/client.h"
#include "worker/enrol/service/home_channel.h"
#include "worker/enrol/service/server.h"

namespace swarm::enrol {
namespace {

using identity::JobAuthority;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

identity::KeyPair Issued(const JobAuthority& authority, const std::string& uri) {
  auto pair = authority.Issue("somebody", uri);
  SWARM_CHECK(pair.ok(), pair.status().ToString());
  return *std::move(pair);
}

/// Signs whatever it is asked for, and remembers who has asked.
class RecordingDesk final : public Desk {
 public:
  explicit RecordingDesk(const JobAuthority& authority) : authority_(authority) {}

  Result<EnrolReply> Enrol(const Caller& caller, const EnrolRequest& request) override {
    last = caller;
    if (request.secret != "sesame") return PermissionDenied("no such token");
    ASSIGN_OR_RETURN(std::string certificate, Sign(request.request));
    return EnrolReply{.worker = "joined-3",
                      .certificate = certificate,
                      .validity = std::chrono::hours(1),
                      .job_uid = "7",
                      .job_name = job_name,
                      .trainer = "h:1",
                      .seen_as = caller.address,
                      .job = job};
  }
  Result<RefreshReply> Refresh(const Caller& caller, const std::string& request) override {
    last = caller;
    RefreshReply reply{.validity = std::chrono::hours(1), .revoked = {"joined-1", "joined-2"}};
    if (request.empty()) return reply;
    ASSIGN_OR_RETURN(reply.certificate, Sign(request));
    return reply;
  }
  Result<std::string> CreateToken(const Caller& caller, const TokenTerms& terms) override {
    last = caller;
    return "token for " + std::to_string(terms.uses) + " and " +
           std::to_string(static_cast<int>(ToSeconds(terms.lifetime))) + " s";
  }
  Result<std::vector<TokenStatus>> ListTokens(const Caller& caller) override {
    last = caller;
    return std::vector<TokenStatus>{
        {"5f2c", TokenState::kExpired, 4, std::chrono::seconds(90), {"joined-1"}}};
  }
  Result<std::vector<std::string>> Revoke(const Caller& caller, const std::string& name) override {
    last = caller;
    return std::vector<std::string>{name, "joined-9"};
  }

  Caller last;
  std::string job_name = "tiny";
  std::string job;

 private:
  Result<std::string> Sign(const std::string& request) const {
    return authority_.Sign(request, "joined-3", identity::WorkerUri("7", "joined-3"),
                           std::chrono::hours(1));
  }
  const JobAuthority& authority_;
};

class EnrolmentServiceTest : public testing::Test {
 protected:
  EnrolmentServiceTest() { Serve(Issued(authority_, identity::HomeUri("7"))); }

  void Serve(const identity::KeyPair& pair) {
    server_.reset();
    auto server = Server::Start({"127.0.0.1:0", authority_.pair().certificate, pair}, &desk_);
    SWARM_CHECK(server.ok(), server.status().ToString());
    server_ = *std::move(server);
  }
  Client Caller(const JobAuthority& trusted) const {
    return Client({server_->address(), *identity::Fingerprint(trusted.pair().certificate, "ca")});
  }
  Client Caller() const { return Caller(authority_); }

  const JobAuthority authority_ = identity::MadeAuthority("7"),
                     other_ = identity::MadeAuthority("8");
  RecordingDesk desk_{authority_};
  const identity::KeyAndRequest asked_ = *identity::MakeRequest("laptop");
  std::unique_ptr<Server> server_;
};

TEST_F(EnrolmentServiceTest, AMachineThatKnowsAFingerprintAndASecretGetsACertificateOfItsKey) {
  Client machine = Caller();
  const auto reply = machine.Enrol({"5f2c", "sesame", asked_.request});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->worker, "joined-3");
  EXPECT_EQ(reply->validity, std::chrono::hours(1));
  EXPECT_EQ(reply->job_uid, "7");
  EXPECT_EQ(reply->job_name, "tiny");
  EXPECT_EQ(reply->trainer, "h:1");
  EXPECT_EQ(reply->seen_as, "127.0.0.1");
  EXPECT_TRUE(identity::CheckPair({reply->certificate, asked_.key}, "its", "key").ok());
  EXPECT_EQ(machine.authority(), authority_.pair().certificate);
  EXPECT_THAT(desk_.last.uris, IsEmpty());
}

TEST_F(EnrolmentServiceTest, AMachineIsToldTheJobUnlessHomeIsOlderOrHasNone) {
  EXPECT_EQ(Caller().Enrol({"5f2c", "sesame", asked_.request})->job, "");
  desk_.job = std::string(api::kJobForMachinesMax, 'x');
  const auto reply = Caller().Enrol({"5f2c", "sesame", asked_.request});
  ASSERT_TRUE(reply.ok()) << "the longest has room: " << reply.status().ToString();
  EXPECT_EQ(reply->job, desk_.job);
}

TEST_F(EnrolmentServiceTest, AHomeCannotLeadAMachineToAnotherFolder) {
  for (const char* name : {"../elsewhere", "a/b", "", "."}) {
    desk_.job_name = name;
    EXPECT_EQ(Caller().Enrol({"5f2c", "sesame", asked_.request}).status().code(),
              StatusCode::kDataLoss)
        << name;
  }
}

TEST_F(EnrolmentServiceTest, TheDesksRefusalReachesTheMachine) {
  const auto reply = Caller().Enrol({"5f2c", "guess", asked_.request});
  EXPECT_EQ(reply.status().ToString(), PermissionDenied("no such token").ToString());
}

TEST_F(EnrolmentServiceTest, NothingIsSentToAServerWithAnotherFingerprint) {
  const auto reply = Caller(other_).Enrol({"5f2c", "sesame", asked_.request});
  EXPECT_EQ(reply.status().code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(reply.status().message(), HasSubstr("is not the home of this job"));
  EXPECT_EQ(desk_.last.address, "") << "the desk was not asked";
}

TEST_F(EnrolmentServiceTest, AnotherProgramOfTheJobCannotPassForHome) {
  for (const std::string& uri : {identity::WorkerUri("7", "joined-3"),
                                 identity::WorkerUri("7", "home"), identity::TrainerUri("7")}) {
    Serve(Issued(authority_, uri));
    const auto reply = Caller().Enrol({"5f2c", "sesame", asked_.request});
    EXPECT_EQ(reply.status().code(), StatusCode::kUnauthenticated) << uri;
    EXPECT_THAT(reply.status().message(), HasSubstr("does not name home"));
  }
  EXPECT_EQ(desk_.last.address, "") << "the desk was not asked";
}

TEST_F(EnrolmentServiceTest, AWorkerRefreshesOverItsCertificate) {
  Client worker = Caller();
  worker.SetIdentity(Issued(authority_, identity::WorkerUri("7", "joined-3")));
  const auto idle = worker.Refresh("");
  ASSERT_TRUE(idle.ok()) << idle.status().ToString();
  EXPECT_EQ(idle->certificate, "");
  EXPECT_THAT(idle->revoked, ElementsAre("joined-1", "joined-2"));
  EXPECT_THAT(desk_.last.uris, ElementsAre(identity::WorkerUri("7", "joined-3")));
  const auto renewed = worker.Refresh(asked_.request);
  ASSERT_TRUE(renewed.ok()) << renewed.status().ToString();
  EXPECT_TRUE(identity::CheckPair({renewed->certificate, asked_.key}, "its", "key").ok());
}

TEST_F(EnrolmentServiceTest, ACertificateOfAnotherAuthorityOpensNoConnection) {
  Client stranger = Caller();
  stranger.SetIdentity(Issued(other_, identity::WorkerUri("7", "joined-3")));
  EXPECT_EQ(stranger.Refresh("").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(desk_.last.address, "") << "the desk was not asked";
}

TEST_F(EnrolmentServiceTest, TheOwnerManagesTokens) {
  Client owner = Caller();
  owner.SetIdentity(Issued(authority_, identity::OperatorUri("7")));
  const auto token = owner.CreateToken({std::chrono::minutes(2), 5});
  ASSERT_TRUE(token.ok()) << token.status().ToString();
  EXPECT_EQ(*token, "token for 5 and 120 s");
  EXPECT_THAT(desk_.last.uris, ElementsAre(identity::OperatorUri("7")));
  const auto list = owner.ListTokens();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->front().id, "5f2c");
  EXPECT_EQ(list->front().state, TokenState::kExpired);
  EXPECT_EQ(list->front().uses_left, 4u);
  EXPECT_EQ(list->front().time_left, std::chrono::seconds(90));
  EXPECT_THAT(list->front().workers, ElementsAre("joined-1"));
  const auto out = owner.Revoke("5f2c");
  ASSERT_TRUE(out.ok());
  EXPECT_THAT(*out, ElementsAre("5f2c", "joined-9"));
}

TEST_F(EnrolmentServiceTest, AHomeThatIsGoneIsNamed) {
  Client machine = Caller();
  const std::string address = server_->address();
  server_.reset();
  const auto reply = machine.Enrol({"5f2c", "sesame", asked_.request});
  EXPECT_EQ(reply.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(reply.status().message(), HasSubstr("home at " + address + " does not answer"));
}

TEST(ConnectionsTest, ACallIsMadeAgainUntilAServerWasReachedAndNotForEver) {
  std::shared_ptr<HomeSeen> seen;
  int calls = 0;
  const auto reached_at = [&](int call) {
    calls = 0;
    return TryConnections(
        [&](const std::shared_ptr<HomeSeen>& notes) {
          if (++calls == call) notes->Accept("authority");
          return Unavailable("no answer");  // of a server that was reached, too
        },
        &seen);
  };
  EXPECT_FALSE(reached_at(3).ok());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(seen->Authority(), "authority");
  EXPECT_FALSE(reached_at(100).ok());
  EXPECT_EQ(calls, 5);
  calls = 0;
  const auto refused = [&](const std::shared_ptr<HomeSeen>&) {
    ++calls;
    return PermissionDenied("no");
  };
  EXPECT_EQ(TryConnections(refused, &seen).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace swarm::enrol
