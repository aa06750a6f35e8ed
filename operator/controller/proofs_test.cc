// Pods of another cluster, and of the jobs' own, prove to home which ones they are. The test plays
// the API servers of both.
#include "operator/controller/proofs.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>

#include "base/identity/authority.h"
#include "base/identity/pem.h"
#include "base/identity/request.h"
#include "operator/controller/controller.h"
#include "operator/controller/testing/client_under_test.h"
#include "operator/controller/testing/cluster_under_test.h"
#include "worker/enrol/proof.h"

namespace swarm::controller {
namespace {

using kube::resources::Pods;
using kube::resources::Secrets;
using kube::resources::SwarmJobs;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Two in each, whichever cluster is there first.
const std::string kTwoPools = R"({"workers": {"replicas": 4, "pools": [
    {"name": "here", "maxReplicas": 2}, {"name": "there", "cluster": "west", "maxReplicas": 2}]}})";

class ProofsTest : public testing::Test {
 protected:
  ProofsTest() {
    const auto judge = [this](const FakeApiServer::Call& call) { return Judge(call); };
    west_->SetHook(judge);
    cluster_.server->SetHook(judge);
    controller_.ProveAt([this](const std::string& cluster) -> std::optional<enrol::ProofPlace> {
      if (cluster == "home" ? !proves_at_home_ : !proves_) return std::nullopt;
      return enrol::ProofPlace{"home:7443", "ab12", cluster, ""};
    });
    controller_.Start();
    controller_.Lead(1);
    controller_.AddCluster("west", MakeClientUnderTest(west_, stop_.get_token()),
                           [this] { return reachable_.load(); });
  }
  static ControllerOptions Options() {
    ControllerOptions options;
    options.pods.worker_image = "worker:1";
    options.instance = "test";
    return options;
  }

  void Submit() {
    cluster_.Submit(kTwoPools);
    ASSERT_TRUE(west_->Await([&] { return west_->All(Pods()).size() == 2; })) << cluster_.status();
    uid_ = kube::UidOf(cluster_.job());
  }

  /// The API server there: a token is "POD UID", as if it had signed that.
  std::optional<kube::HttpResponse> Judge(const FakeApiServer::Call& call) {
    if (call.plural != "tokenreviews") return std::nullopt;
    if (!judges_) return Refusal(403, "Forbidden", "no right to create tokenreviews");
    json answer = call.body;
    const std::string token = answer["spec"]["token"];
    const std::size_t space = token.find(' ');
    answer["status"] = {{"authenticated", space != token.npos}};
    if (space != token.npos) {
      answer["status"]["audiences"] = answer["spec"]["audiences"];
      answer["status"]["user"] = {
          {"username", "system:serviceaccount:team:default"},
          {"extra",
           {{"authentication.kubernetes.io/pod-name", {token.substr(0, space)}},
            {"authentication.kubernetes.io/pod-uid", {token.substr(space + 1)}}}}};
    }
    return kube::HttpResponse{{201, {{"content-type", "application/json"}}}, answer.dump()};
  }

  std::string TokenOf(const std::string& pod) const { return TokenOf(*west_, pod); }
  static std::string TokenOf(const FakeApiServer& server, const std::string& pod) {
    return pod + " " + kube::UidOf(*server.Find(Pods(), {"team", pod}));
  }
  std::vector<std::string> WorkersAtHome() const {
    std::vector<std::string> names;
    for (const json& pod : cluster_.server->All(Pods())) {
      if (kube::LabelOf(pod, "swarmjob.dev/role") == "worker") {
        names.push_back(kube::NameOf(pod).name);
      }
    }
    return names;
  }
  std::vector<std::string> There() const {
    std::vector<std::string> names;
    for (const json& pod : west_->All(Pods())) names.push_back(kube::NameOf(pod).name);
    return names;
  }
  Result<enrol::ProveReply> Once(const std::string& worker, const std::string& token,
                                 const std::string& cluster = "west") {
    return Ask({token, uid_, cluster, worker, request_.request}).get();
  }
  std::future<Result<enrol::ProveReply>> Ask(const enrol::ProveRequest& request) {
    const auto reply = std::make_shared<std::promise<Result<enrol::ProveReply>>>();
    controller_.Prove({"10.0.0.7", {}}, request, [reply](Result<enrol::ProveReply> came) {
      reply->set_value(std::move(came));
    });
    return reply->get_future();
  }
  /// Again while home has not seen the pod or the job's authority yet.
  Result<enrol::ProveReply> Prove(const std::string& worker, const std::string& token,
                                  const std::string& cluster = "west") {
    Result<enrol::ProveReply> reply = NotFound("not asked yet");
    (void)west_->Await([&] {
      reply = Once(worker, token, cluster);
      return reply.status().code() != StatusCode::kNotFound &&
             reply.status().code() != StatusCode::kUnavailable;
    });
    return reply;
  }

  std::vector<std::string> Refusals() const {
    std::vector<std::string> notes;
    for (const json& event : cluster_.server->All(kube::resources::Events())) {
      if (event.value("reason", "") == "IdentityRefused") notes.push_back(event.value("note", ""));
    }
    return notes;
  }
  std::size_t Reviews() const {
    const auto calls = west_->calls();
    return static_cast<std::size_t>(
        std::ranges::count(calls, std::string("tokenreviews"), &FakeApiServer::Call::plural));
  }

  ClusterUnderTest cluster_;
  std::shared_ptr<FakeApiServer> west_ = std::make_shared<FakeApiServer>();
  std::atomic<bool> reachable_ = true, judges_ = true, proves_ = true, proves_at_home_ = false;
  std::stop_source stop_;
  std::string uid_;
  const identity::KeyAndRequest request_ = *identity::MakeRequest("x");
  std::unique_ptr<kube::Client> client_ = MakeClientUnderTest(cluster_.server, stop_.get_token());
  Controller controller_{*client_, Options(), cluster_.trainers.connect(), kube::SystemTiming()};
};

TEST_F(ProofsTest, APodThatProvesWhichOneItIsGetsACertificateOfItsOwnKeyForAnHour) {
  Submit();
  const std::string worker = There().front();
  const auto reply = Prove(worker, TokenOf(worker));
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_TRUE(identity::CheckPair({reply->certificate, request_.key}, "crt", "key").ok());
  const auto facts = identity::ReadCertificate(reply->certificate, "crt");
  EXPECT_THAT(facts->uris, ElementsAre(identity::WorkerUri(uid_, worker)));
  EXPECT_EQ(reply->validity, std::chrono::hours(1));
  EXPECT_THAT(west_->All(Secrets()), IsEmpty()) << "no key was made for it";
  EXPECT_THAT(Refusals(), IsEmpty());
}

TEST_F(ProofsTest, WhoAsksForAnotherPodsIdentityIsRefusedAndTheJobTellsOfIt) {
  Submit();
  const std::vector<std::string> pods = There();
  const auto reply = Prove(pods[1], TokenOf(pods[0]));
  EXPECT_EQ(reply.status().code(), StatusCode::kPermissionDenied) << reply.status().ToString();
  EXPECT_TRUE(cluster_.server->Await([&] { return !Refusals().empty(); }));
  EXPECT_THAT(Refusals(),
              Contains(AllOf(HasSubstr("10.0.0.7 as " + pods[1]), HasSubstr("that of the pod"))));
}

TEST_F(ProofsTest, WhoFailsTenTimesInAMinuteWaitsAndCostsTheApiServerNothingThen) {
  Submit();
  const std::string worker = There().front();
  ASSERT_TRUE(Prove(worker, TokenOf(worker)).ok());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Once(worker, "forged").status().code(), StatusCode::kUnauthenticated);
  }
  const std::size_t reviews = Reviews();
  EXPECT_EQ(Once(worker, TokenOf(worker)).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Reviews(), reviews);
  const std::string other = There().back();
  EXPECT_TRUE(Prove(other, TokenOf(other)).ok()) << "others behind the same router go on";
}

TEST_F(ProofsTest, NamesThatHomeDoesNotKnowCostTheApiServerNothing) {
  Submit();
  EXPECT_EQ(Once("tiny-w99", "forged").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Ask({"forged", "no-job", "west", "tiny-w1", ""}).get().status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(Ask({std::string(20'000, 'x'), uid_, "west", "tiny-w1", ""}).get().status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Reviews(), 0u);
}

TEST_F(ProofsTest, AnApiServerThatJudgesNothingIsNoRefusalOfThePod) {
  Submit();
  const std::string worker = There().front();
  ASSERT_TRUE(Prove(worker, TokenOf(worker)).ok());
  judges_ = false;
  for (int i = 0; i < 12; ++i) {
    const auto reply = Once(worker, TokenOf(worker));
    EXPECT_EQ(reply.status().code(), StatusCode::kUnavailable) << reply.status().ToString();
  }
  reachable_ = false;
  EXPECT_EQ(Once(worker, TokenOf(worker)).status().code(), StatusCode::kUnavailable);
  judges_ = reachable_ = true;
  EXPECT_TRUE(Once(worker, TokenOf(worker)).ok());
  EXPECT_THAT(Refusals(), IsEmpty());
}

TEST_F(ProofsTest, ASatelliteThatDoesNotAnswerHoldsUpNoOtherAndNoPodAsksTwiceAtOnce) {
  const auto east = std::make_shared<FakeApiServer>();
  std::promise<void> answers;
  east->SetHook([answer = answers.get_future().share()](
                    const FakeApiServer::Call& call) -> std::optional<kube::HttpResponse> {
    if (call.plural != "tokenreviews") return std::nullopt;
    answer.wait();
    return Refusal(403, "Forbidden", "no right to create tokenreviews");
  });
  controller_.AddCluster("east", MakeClientUnderTest(east, stop_.get_token()), [] { return true; });
  cluster_.Submit(R"({"workers": {"replicas": 8, "pools": [
      {"name": "slow", "cluster": "east", "maxReplicas": 6},
      {"name": "there", "cluster": "west", "maxReplicas": 2}]}})");
  ASSERT_TRUE(east->Await([&] { return east->All(Pods()).size() == 6; }));
  ASSERT_TRUE(west_->Await([&] { return west_->All(Pods()).size() == 2; }));
  uid_ = kube::UidOf(cluster_.job());
  std::vector<std::future<Result<enrol::ProveReply>>> waiting;
  std::string slow;
  for (const json& pod : east->All(Pods())) {
    slow = kube::NameOf(pod).name;
    const enrol::ProveRequest asked{slow + " 7", uid_, "east", slow, request_.request};
    // Home may not have seen the pod yet.
    ASSERT_TRUE(east->Await([&] {
      waiting.push_back(Ask(asked));
      const bool waits =
          waiting.back().wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
      if (!waits) waiting.pop_back();
      return waits;
    }));
  }
  EXPECT_EQ(Ask({slow + " 7", uid_, "east", slow, request_.request}).get().status().code(),
            StatusCode::kResourceExhausted);
  for (const std::string& worker : There()) EXPECT_TRUE(Prove(worker, TokenOf(worker)).ok());
  answers.set_value();
  for (auto& reply : waiting) EXPECT_EQ(reply.get().status().code(), StatusCode::kUnavailable);
}

TEST_F(ProofsTest, AfterItsPodIsGoneATokenIsGoodForNothing) {
  Submit();
  const std::string worker = There().front(), token = TokenOf(worker);
  ASSERT_TRUE(Prove(worker, token).ok());
  west_->Remove(Pods(), {"team", worker});
  EXPECT_TRUE(west_->Await([&] { return !Once(worker, token).ok(); }));
}

TEST_F(ProofsTest, AWorkerOfTheJobsOwnClusterProvesItselfToTheApiServerThere) {
  proves_at_home_ = true;
  Submit();
  ASSERT_TRUE(cluster_.server->Await([&] { return WorkersAtHome().size() == 2; }));
  const std::string worker = WorkersAtHome().front();
  const auto reply = Prove(worker, TokenOf(*cluster_.server, worker), "home");
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_TRUE(identity::CheckPair({reply->certificate, request_.key}, "crt", "key").ok());
  const auto facts = identity::ReadCertificate(reply->certificate, "crt");
  EXPECT_THAT(facts->uris, ElementsAre(identity::WorkerUri(uid_, worker)));
  EXPECT_EQ(Reviews(), 0u) << "the API server of another cluster was asked";
  std::vector<std::string> secrets;
  for (const json& each : cluster_.server->All(Secrets())) {
    secrets.push_back(kube::NameOf(each).name);
  }
  EXPECT_THAT(secrets, Each(Not(HasSubstr("-w")))) << "no key was made for a worker";
  EXPECT_THAT(secrets, Contains(HasSubstr("trainer"))) << "a trainer has its own";
}

TEST_F(ProofsTest, AWorkerOfOneClusterIsNoneOfAnother) {
  proves_at_home_ = true;
  Submit();
  ASSERT_TRUE(cluster_.server->Await([&] { return WorkersAtHome().size() == 2; }));
  const std::string here = WorkersAtHome().front(), there = There().front();
  ASSERT_TRUE(Prove(there, TokenOf(there)).ok());
  EXPECT_EQ(Once(there, TokenOf(there), "home").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Once(here, TokenOf(*cluster_.server, here)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Once(here, TokenOf(*cluster_.server, here), "").status().code(), StatusCode::kNotFound);
}

TEST_F(ProofsTest, PodsOfASatelliteThatNamesNoPlaceHaveTheirSecretsAsBefore) {
  proves_ = false;
  Submit();
  EXPECT_TRUE(west_->Await([&] { return west_->All(Secrets()).size() == 2; }));
  proves_ = true;  // the satellite was upgraded: its pods go on with what they have
  const std::string worker = There().front();
  const auto reply = Prove(worker, TokenOf(worker));
  EXPECT_EQ(reply.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(reply.status().message(), HasSubstr("from a Secret"));
}

}  // namespace
}  // namespace swarm::controller
