// Pods of a satellite's cluster prove to home which ones they are. Both API servers are real: that
// of the pods issues their tokens, as it does for a kubelet, and judges them. The test plays the
// pods.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "base/files.h"
#include "base/identity/authority.h"
#include "base/identity/request.h"
#include "base/testing/temporary_folder.h"
#include "operator/controller/testing/two_clusters_under_test.h"
#include "worker/prove/keeper.h"

namespace swarm::controller {
namespace {

using kube::resources::Pods;
using kube::resources::Secrets;
using kube::resources::SwarmJobs;
using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const kube::Resource kAccounts{"", "v1", "serviceaccounts"};
/// A subresource: what is created there is the request, and the answer has the token.
const kube::Resource kTokens{"", "v1", "serviceaccounts/worker/token"};
const std::string kSpec = R"({"workers": {"replicas": 3, "pools": [
    {"name": "here", "maxReplicas": 1}, {"name": "there", "cluster": "west"}],
    "template": {"spec": {"serviceAccountName": "worker"}}}})";

class ProofRealApiTest : public TwoClustersUnderTest {
 protected:
  void SetUp() override {
    TwoClustersUnderTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    const json account{{"apiVersion", "v1"},
                       {"kind", "ServiceAccount"},
                       {"metadata", {{"name", "worker"}, {"namespace", ns_}}}};
    for (kube::Client* client : {client_.get(), west_.get()}) {
      ASSERT_TRUE(client->Create(kAccounts, account).ok());
    }
    RunSatellite({.token = TokenFor("west"),
                  .secret = {},
                  .namespaces = {},
                  .sweep = {},
                  .pods_prove = true});
    ASSERT_TRUE(client_->Create(SwarmJobs(), JobUnderTest(kSpec, {ns_, "tiny"})).ok());
    ASSERT_TRUE(Await([&] { return There().size() == 2; }));
  }

  json PodThere(const std::string& name) {
    const auto pod = west_->Get(Pods(), {ns_, name});
    EXPECT_TRUE(pod.ok()) << pod.status().ToString();
    return pod.ok() ? **pod : json();
  }

  /// A token of this pod, as its kubelet gets it.
  std::string TokenOf(kube::Client& client, const json& pod, const std::string& audience) {
    const json asked{{"apiVersion", "authentication.k8s.io/v1"},
                     {"kind", "TokenRequest"},
                     {"metadata", {{"namespace", ns_}}},
                     {"spec",
                      {{"audiences", {audience}},
                       {"expirationSeconds", 600},
                       {"boundObjectRef",
                        {{"apiVersion", "v1"},
                         {"kind", "Pod"},
                         {"name", kube::NameOf(pod).name},
                         {"uid", kube::UidOf(pod)}}}}}};
    const auto answer = client.Create(kTokens, asked);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? kube::TextAt(**answer, "/status/token") : "";
  }
  std::string JobUid() {
    const auto job = client_->Get(SwarmJobs(), {ns_, "tiny"});
    EXPECT_TRUE(job.ok());
    return job.ok() ? kube::UidOf(**job) : "";
  }
  std::string Audience() { return enrol::ProofAudience(JobUid()); }

  /// What the pod's program is told by its environment.
  static enrol::ProofPlace PlaceOf(const json& pod) {
    const auto place = enrol::ReadProofPlace([&](const char* name) {
      for (const json& each : pod.at("spec").at("containers").at(0).at("env")) {
        if (each["name"] == name) return each.value("value", "");
      }
      return std::string();
    });
    EXPECT_TRUE(place.ok() && *place) << pod;
    return **place;
  }

  /// One question at home, again while home does not know the pod or its job yet, or judges
  /// another.
  Result<enrol::ProveReply> Prove(const json& pod, const std::string& worker,
                                  const std::string& token) {
    const enrol::ProofPlace place = PlaceOf(pod);
    Result<enrol::ProveReply> reply = NotFound("not asked yet");
    Await([&] {
      reply = prove::AskAt(place)({token, JobUid(), place.cluster, worker, request_.request});
      return reply.status().code() != StatusCode::kNotFound &&
             reply.status().code() != StatusCode::kUnavailable &&
             reply.status().code() != StatusCode::kResourceExhausted;
    });
    return reply;
  }

  std::vector<std::string> EventsOf(const std::string& reason) {
    std::vector<std::string> notes;
    const auto found = client_->List(kube::resources::Events(), {.ns = ns_});
    if (!found.ok()) return notes;
    for (const auto& each : found->Unpack()) {
      if (kube::TextAt(*each, "/reason") == reason) notes.push_back(kube::TextAt(*each, "/note"));
    }
    return notes;
  }

  const identity::KeyAndRequest request_ = *identity::MakeRequest("x");
  TemporaryFolder folder_;
};

TEST_F(ProofRealApiTest, AWorkerThereMakesItsKeyAndProvesWhichPodItIs) {
  const std::string name = *There().begin();
  const json pod = PodThere(name);
  enrol::ProofPlace place = PlaceOf(pod);
  EXPECT_EQ(place.cluster, "west");
  EXPECT_EQ(place.home, home_->address());
  place.token_file = folder_.path() / "token";
  ASSERT_TRUE(WriteFile(place.token_file, TokenOf(*west_, pod, Audience())).ok());
  const auto key = folder_.path() / "tls.key", certificate = folder_.path() / "tls.crt";
  const auto keeper = prove::Keeper::Start({.place = place,
                                            .job_uid = JobUid(),
                                            .worker = name,
                                            .ca = folder_.path() / "ca.crt",
                                            .certificate = certificate,
                                            .key = key},
                                           prove::AskAt(place), {});
  ASSERT_TRUE(keeper.ok()) << keeper.status().ToString();
  const auto facts = identity::ReadCertificate(*ReadFile(certificate), "tls.crt");
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_THAT(facts->uris, testing::ElementsAre(identity::WorkerUri(JobUid(), name)));
  EXPECT_LE(facts->not_after, std::chrono::system_clock::now() + std::chrono::hours(1));
  const auto authority = client_->Get(Secrets(), {ns_, "tiny-ca"});
  ASSERT_TRUE(authority.ok());
  EXPECT_EQ(*ReadFile(folder_.path() / "ca.crt"), kube::SecretText(**authority, "ca.crt"));
  EXPECT_THAT(NamesIn(*west_, Secrets()), Not(Contains(HasSubstr("-identity"))))
      << "home has made no key for a pod there";
}

TEST_F(ProofRealApiTest, APodThatAsksForAnotherIdentityIsRefusedAndTheJobTellsOfIt) {
  const std::string own = *There().begin(), other = *There().rbegin();
  const json pod = PodThere(own);
  const auto reply = Prove(pod, other, TokenOf(*west_, pod, Audience()));
  EXPECT_EQ(reply.status().code(), StatusCode::kPermissionDenied) << reply.status().ToString();
  EXPECT_THAT(reply.status().message(), HasSubstr("is that of the pod " + own));
  EXPECT_TRUE(Await([&] { return !EventsOf("IdentityRefused").empty(); }));
  EXPECT_THAT(EventsOf("IdentityRefused"), Contains(HasSubstr(other)));
}

TEST_F(ProofRealApiTest, NoOtherTokenIsAProof) {
  const std::string name = *There().begin();
  const json pod = PodThere(name);
  const auto refused = [&](const std::string& token) {
    const auto reply = Prove(pod, name, token);
    EXPECT_EQ(reply.status().code(), StatusCode::kUnauthenticated) << reply.status().ToString();
  };
  refused(TokenOf(*west_, pod, "https://kubernetes.default.svc"));
  refused(TokenOf(*west_, pod, "swarmjob.dev/enrol/another-job"));
  refused("ey.forged");
  json twin = pod;  // a pod of the same name and account in home's cluster
  twin["metadata"] = {{"name", name}, {"namespace", ns_}};
  twin.erase("status");
  const auto made = client_->Create(Pods(), twin);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  refused(TokenOf(*client_, **made, Audience()));
}

TEST_F(ProofRealApiTest, PodsThatBeginAtOnceHoldUpNeitherEachOtherNorTheirSatellite) {
  std::atomic<int> proved = 0;
  {
    std::vector<std::jthread> pods;
    for (const std::string& name : There()) {
      const json pod = PodThere(name);
      const std::string token = TokenOf(*west_, pod, Audience());
      for (int i = 0; i < 8; ++i) {
        pods.emplace_back(
            [this, pod, name, token, &proved] { proved += Prove(pod, name, token).ok() ? 1 : 0; });
      }
    }
  }
  EXPECT_EQ(proved, 16);
}

TEST_F(ProofRealApiTest, ATokenOfAPodThatIsGoneIsGoodForNothing) {
  const std::string name = *There().begin();
  const json pod = PodThere(name);
  const std::string token = TokenOf(*west_, pod, Audience());
  ASSERT_TRUE(Prove(pod, name, token).ok());
  ASSERT_TRUE(west_->Delete(Pods(), {ns_, name}, {.grace_seconds = 0}).ok());
  const enrol::ProofPlace place = PlaceOf(pod);
  const auto asked = identity::MakeRequest("x");
  ASSERT_TRUE(Await([&] {
    return !prove::AskAt(place)({token, JobUid(), place.cluster, name, asked->request}).ok();
  }));
}

}  // namespace
}  // namespace swarm::controller
