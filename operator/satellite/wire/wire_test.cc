// Home reaches the API server of another cluster through the satellite that has dialled home.
#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "base/identity/authority.h"
#include "base/identity/request.h"
#include "base/identity/testing/made_authority.h"
#include "base/identity/trust.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/testing/scripted_server.h"
#include "operator/kube/transport/http_cpprest.h"
#include "operator/satellite/wire/byte_stream.h"
#include "operator/satellite/wire/guest.h"
#include "operator/satellite/wire/home_door.h"
#include "worker/enrol/service/client.h"
#include "worker/enrol/service/home_channel.h"

namespace swarm::satellite {
namespace {

using identity::JobAuthority;
using std::chrono::seconds;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// Lets in whoever has a certificate of a satellite, and enrols with one word.
class OpenReception final : public Reception {
 public:
  explicit OpenReception(const JobAuthority& authority) : authority_(authority) {}

  Result<EnrolReply> Enrol(const Caller&, const EnrolRequest& request) override {
    if (request.secret != "sesame") return PermissionDenied("no such token");
    return Signed("b", request.request);
  }
  Result<EnrolReply> Renew(const Caller& caller, const std::string& request) override {
    ASSIGN_OR_RETURN(const std::string cluster, ClusterOf(caller));
    return Signed(cluster, request);
  }
  Result<std::string> ClusterOf(const Caller& caller) override {
    const std::string prefix = identity::SatelliteUri("1", "");
    if (caller.uris.size() != 1 || !caller.uris[0].starts_with(prefix)) {
      return PermissionDenied("no satellite");
    }
    return caller.uris[0].substr(prefix.size());
  }
  void OnCluster(const std::string&, std::shared_ptr<kube::HttpTransport> transport,
                 std::function<bool()>) override {
    came_.set_value(std::move(transport));
  }

  /// The way to the first cluster that has come.
  std::shared_ptr<kube::HttpTransport> Transport() {
    auto came = came_.get_future();
    const bool in_time = came.wait_for(seconds(20)) == std::future_status::ready;
    SWARM_CHECK(in_time, "no satellite has come");
    return came.get();
  }

 private:
  Result<EnrolReply> Signed(const std::string& cluster, const std::string& request) const {
    ASSIGN_OR_RETURN(std::string certificate,
                     authority_.Sign(request, cluster, identity::SatelliteUri("1", cluster),
                                     std::chrono::hours(1)));
    return EnrolReply{cluster, std::move(certificate), std::chrono::hours(1)};
  }
  const JobAuthority& authority_;
  std::promise<std::shared_ptr<kube::HttpTransport>> came_;
};

class WireTest : public testing::Test {
 protected:
  WireTest() : pair_(*authority_.Issue("b", identity::SatelliteUri("1", "b"))) {
    auto door = HomeDoor::Start({"127.0.0.1:0", authority_.pair().certificate,
                                 *authority_.Issue("home", identity::HomeUri("1")), 7},
                                &reception_);
    SWARM_CHECK(door.ok(), door.status().ToString());
    door_ = *std::move(door);
    fingerprint_ = *identity::Fingerprint(authority_.pair().certificate, "authority");
  }
  ~WireTest() override { EndSatellite(); }

  void StartSatellite(const std::string& token = "") {
    GuestOptions options;
    options.home = {door_->address(), fingerprint_};
    options.identity = pair_;
    options.transport = *kube::MakeCpprestTransport(
        {.server = api_.url(), .tls = {}, .proxy = "", .tls_server_name = ""});
    if (!token.empty()) options.credentials = kube::FixedToken(token);
    options.proof_home = proof_home_;
    options.gateway = gateway_;
    options.check = [](const kube::HttpRequest& request) {
      return request.target == "/forbidden" ? PermissionDenied("not for home") : Status();
    };
    options.on_welcome = [this](std::uint64_t term) {
      term_ = term;
      return welcome_answer_;
    };
    options.on_jobs = [this](std::set<std::string> uids) { jobs_.set_value(std::move(uids)); };
    satellite_ =
        std::jthread([this, options](std::stop_token stop) { ended_ = ServeHome(options, stop); });
  }
  void EndSatellite() {
    satellite_.request_stop();
    if (satellite_.joinable()) satellite_.join();
  }
  static Result<kube::HttpResponse> Ask(kube::HttpTransport& transport, const std::string& target) {
    return transport.Send({"GET", target, {{"accept", "a"}, {"authorization", "home's"}}, ""},
                          {.timeout = seconds(20)}, {});
  }

  const JobAuthority authority_ = identity::MadeAuthority("1");
  OpenReception reception_{authority_};
  kube::ScriptedServer api_;
  identity::KeyPair pair_;
  std::string fingerprint_;
  std::unique_ptr<HomeDoor> door_;
  std::atomic<std::uint64_t> term_ = 0;
  Status welcome_answer_;
  std::string proof_home_, gateway_;
  std::promise<std::set<std::string>> jobs_;
  Status ended_;
  std::jthread satellite_;
};

TEST_F(WireTest, ARequestOfHomeReachesTheOtherApiServerWithTheSatellitesOwnRights) {
  api_.ThenAnswer(201, "made", {{"X-Thing", "a"}});
  StartSatellite("its-own");
  const auto transport = reception_.Transport();
  const auto answer = Ask(*transport, "/api/v1/pods?watch=0");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->head.status, 201);
  EXPECT_EQ(answer->head.headers.at("x-thing"), "a");
  EXPECT_EQ(answer->body, "made");
  const kube::SeenRequest seen = api_.seen().at(0);
  EXPECT_EQ(seen.target, "/api/v1/pods?watch=0");
  EXPECT_EQ(seen.headers.at("accept"), "a");
  EXPECT_EQ(seen.headers.at("authorization"), "Bearer its-own");
  EXPECT_EQ(term_, 7u);
}

TEST_F(WireTest, WhatTheSatelliteRefusesReachesNoApiServer) {
  StartSatellite();
  const auto transport = reception_.Transport();
  const auto answer = Ask(*transport, "/forbidden");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->head.status, 403);
  EXPECT_THAT(answer->body, HasSubstr("not for home"));
  EXPECT_TRUE(api_.seen().empty());
}

TEST_F(WireTest, AWatchDeliversItsEventsAndEndsWithTheConnection) {
  api_.Then([](const kube::SeenRequest&, kube::Connection& peer) {
    peer.BeginChunks();
    peer.Chunk("one");
    peer.Chunk("two");
    peer.Hold();
  });
  StartSatellite();
  const auto transport = reception_.Transport();
  std::string text;
  bool cut = false;
  const Status ended = transport->Stream({"GET", "/watch", {}, ""}, {},
                                         {[](const kube::HttpHead&) { return true; },
                                          [&](std::string_view bytes) {
                                            text += bytes;
                                            if (text == "onetwo" && !std::exchange(cut, true)) {
                                              EndSatellite();
                                            }
                                            return true;
                                          }},
                                         {});
  EXPECT_EQ(text, "onetwo");
  EXPECT_EQ(ended.code(), StatusCode::kUnavailable) << ended.ToString();
  EXPECT_EQ(ended_.code(), StatusCode::kCancelled) << ended_.ToString();
  // Home may hear of the end only now.
  EXPECT_THAT(Ask(*transport, "/late").status().message(),
              AnyOf(HasSubstr("no satellite of the cluster b is connected"),
                    HasSubstr("cluster b: the satellite is gone")));
}

TEST_F(WireTest, ASatelliteSaysWhereItsPodsProveThemselvesBeforeItAnswersAnything) {
  proof_home_ = "203.0.113.9:7443";
  EXPECT_EQ(door_->ProofHomeOf("b"), "") << "it has not come yet";
  StartSatellite();
  const auto transport = reception_.Transport();
  ASSERT_TRUE(Ask(*transport, "/forbidden").ok());
  EXPECT_EQ(door_->ProofHomeOf("b"), "203.0.113.9:7443");
  EXPECT_EQ(door_->ProofHomeOf("c"), "");
}

TEST_F(WireTest, ASatelliteSaysWhereItsGatewayIsForAsLongAsItIsConnected) {
  gateway_ = "203.0.113.9:7444";
  EXPECT_THAT(door_->Connected(), IsEmpty());
  StartSatellite();
  const auto transport = reception_.Transport();
  ASSERT_TRUE(Ask(*transport, "/forbidden").ok());
  EXPECT_THAT(door_->Connected(), ElementsAre(Pair("b", "203.0.113.9:7444")));

  EndSatellite();
  gateway_.clear();
  while (!door_->Connected().empty()) std::this_thread::yield();
  StartSatellite();
  while (!Ask(*transport, "/forbidden").ok()) std::this_thread::yield();
  EXPECT_THAT(door_->Connected(), ElementsAre(Pair("b", ""))) << "it has none any more";
}

/// A door whose home lets `signer` sign for one word, and says that `named` has.
class ProofDoor {
 public:
  ProofDoor(const JobAuthority& signer, const JobAuthority& named)
      : signer_(signer), named_(named) {
    auto door = HomeDoor::Start(
        {"127.0.0.1:0", operators_.pair().certificate,
         *operators_.Issue("home", identity::HomeUri("1")), 7,
         [this](const Caller& from, const enrol::ProveRequest& request, const enrol::Proved& done) {
           // As home: on a thread that may wait.
           judge_ = std::jthread([=, this] { done(Sign(from, request)); });
         }},
        &reception_);
    SWARM_CHECK(door.ok(), door.status().ToString());
    door_ = *std::move(door);
  }
  Result<enrol::ProveReply> Ask(const std::string& token) {
    enrol::Client client(
        {.address = door_->address(),
         .fingerprint = *identity::Fingerprint(operators_.pair().certificate, "ca")});
    return client.Prove({token, "7", "west", "tiny-w3", identity::MakeRequest("x")->request});
  }
  Caller caller;
  enrol::ProveRequest asked;

 private:
  Result<enrol::ProveReply> Sign(const Caller& from, const enrol::ProveRequest& request) {
    caller = from;
    asked = request;
    if (request.token != "sesame") return PermissionDenied("the token is that of another pod");
    ASSIGN_OR_RETURN(std::string certificate,
                     signer_.Sign(request.request, "x", identity::WorkerUri("7", "tiny-w3"),
                                  std::chrono::hours(1)));
    return enrol::ProveReply{std::move(certificate), named_.pair().certificate,
                             std::chrono::hours(1)};
  }
  const JobAuthority &signer_, &named_;
  const JobAuthority operators_ = identity::MadeAuthority("1");
  OpenReception reception_{operators_};
  std::jthread judge_;
  std::unique_ptr<HomeDoor> door_;  // last: calls the others
};

TEST(ProofDoorTest, APodWithoutACertificateAsksHomeAndLearnsTheAuthorityOfItsJob) {
  const JobAuthority job = identity::MadeAuthority("7");
  ProofDoor door(job, job);
  const auto reply = door.Ask("sesame");
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->authority, job.pair().certificate);
  EXPECT_EQ(reply->validity, std::chrono::hours(1));
  EXPECT_TRUE(door.caller.uris.empty());
  EXPECT_EQ(door.asked.job_uid + " " + door.asked.cluster + " " + door.asked.worker,
            "7 west tiny-w3");
  EXPECT_EQ(door.Ask("guess").status().code(), StatusCode::kPermissionDenied);
}

TEST(ProofDoorTest, ACertificateThatTheNamedAuthorityHasNotSignedIsNotTaken) {
  const JobAuthority job = identity::MadeAuthority("7"), other = identity::MadeAuthority("8");
  ProofDoor door(job, other);
  EXPECT_EQ(door.Ask("sesame").status().code(), StatusCode::kUnauthenticated);
}

TEST_F(WireTest, ALargeAnswerArrivesWhole) {
  const std::string body(std::size_t{24} << 20, 'x');
  api_.ThenAnswer(200, body);
  StartSatellite();
  const auto transport = reception_.Transport();
  const auto answer = Ask(*transport, "/large");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body, body);
}

TEST_F(WireTest, ARequestThatIsGivenUpHoldsUpNoOther) {
  api_.Then([](const kube::SeenRequest&, kube::Connection& peer) { peer.Hold(); });
  api_.ThenAnswer(200, "next");
  StartSatellite();
  const auto transport = reception_.Transport();
  const auto slow =
      transport->Send({"GET", "/slow", {}, ""}, {.timeout = std::chrono::milliseconds(200)}, {});
  EXPECT_EQ(slow.status().code(), StatusCode::kDeadlineExceeded);
  const auto next = Ask(*transport, "/next");
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_EQ(next->body, "next");
}

TEST_F(WireTest, TheSatelliteHearsWhichJobsExist) {
  door_->TellJobs({"u1", "u2"});
  StartSatellite();
  auto jobs = jobs_.get_future();
  ASSERT_EQ(jobs.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_THAT(jobs.get(), ElementsAre("u1", "u2"));
}

TEST_F(WireTest, ASatelliteLeavesAHomeThatItDoesNotFollow) {
  welcome_answer_ = FailedPrecondition("term 7 is over");
  StartSatellite();
  satellite_.join();
  EXPECT_EQ(ended_.code(), StatusCode::kFailedPrecondition) << ended_.ToString();
  EXPECT_THAT(ended_.message(), HasSubstr("term 7 is over"));
}

TEST_F(WireTest, WhoIsNoSatelliteIsSentAway) {
  pair_ = *authority_.Issue("w", identity::WorkerUri("1", "w"));
  StartSatellite();
  satellite_.join();
  EXPECT_EQ(ended_.code(), StatusCode::kPermissionDenied) << ended_.ToString();
}

TEST_F(WireTest, ASatelliteEnrolsWithATokenAndRenewsWithItsCertificate) {
  const HomeAddress home{door_->address(), fingerprint_};
  const auto asked = identity::MakeRequest("satellite");
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(Enrol(home, {"1", "open", asked->request}).status().code(),
            StatusCode::kPermissionDenied);
  const auto enrolled = Enrol(home, {"1", "sesame", asked->request});
  ASSERT_TRUE(enrolled.ok()) << enrolled.status().ToString();
  EXPECT_EQ(enrolled->cluster, "b");
  EXPECT_EQ(enrolled->validity, std::chrono::hours(1));
  const auto next = identity::MakeRequest("satellite");
  ASSERT_TRUE(next.ok());
  const auto renewed = Renew(home, {enrolled->certificate, asked->key}, next->request);
  ASSERT_TRUE(renewed.ok()) << renewed.status().ToString();
  EXPECT_TRUE(identity::CheckSigned(renewed->certificate, authority_.pair().certificate).ok());
}

TEST_F(WireTest, NothingIsSentToAServerThatIsNotHome) {
  const JobAuthority other = identity::MadeAuthority("2");
  const auto asked = identity::MakeRequest("satellite");
  const auto misled =
      Enrol({door_->address(), *identity::Fingerprint(other.pair().certificate, "")},
            {"1", "sesame", asked->request});
  EXPECT_EQ(misled.status().code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(misled.status().message(), HasSubstr("is not home"));
}

// A satellite has no server: with its connection the last channel of its process goes, and gRPC
// joins the threads on which it reacts.
TEST(ByteStreamTest, WhoDialledTakesOverTheStreamAtItsEnd) {
  const JobAuthority authority = identity::MadeAuthority("1");
  const std::string fingerprint = *identity::Fingerprint(authority.pair().certificate, "");
  for (int time = 0; time < 20; ++time) {
    std::promise<std::shared_ptr<ByteStream>> ended;
    DialledByteStream::Dial(
        enrol::MakeHomeChannel({"127.0.0.1:1", fingerprint, kMessageBytesMax}, std::nullopt,
                               std::make_shared<enrol::HomeSeen>()),
        "/swarmjob.v1.Satellites/Serve",
        {[](const std::string&, const std::function<void()>&) {},
         [&ended](std::shared_ptr<ByteStream> stream, const Status& why) {
           EXPECT_EQ(why.code(), StatusCode::kUnavailable) << why.ToString();
           ended.set_value(std::move(stream));
         }});
    EXPECT_EQ(ended.get_future().get().use_count(), 1) << "it goes here, not on a thread of gRPC";
  }
}

}  // namespace
}  // namespace swarm::satellite
