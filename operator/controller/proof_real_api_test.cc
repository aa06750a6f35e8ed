// Pods of a satellite's cluster prove to home which ones they are. Both API servers are real: that
// of the pods issues their tokens, as it does for a kubelet, and judges them. The test plays the
// pods.
#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "api/format/yaml.h"
#include "base/files.h"
#include "base/identity/authority.h"
#include "base/identity/request.h"
#include "base/identity/trust.h"
#include "base/testing/temporary_folder.h"
#include "operator/controller/controller.h"
#include "operator/controller/testing/cluster_under_test.h"
#include "operator/kube/testing/api_server_under_test.h"
#include "operator/names/names.h"
#include "operator/satellite/home.h"
#include "operator/satellite/satellite.h"
#include "worker/enrol/token.h"
#include "worker/prove/keeper.h"

namespace swarm::controller {
namespace {

using kube::resources::Pods;
using kube::resources::Secrets;
using kube::resources::SwarmJobs;
using nlohmann::json;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
const kube::Resource kAccounts{"", "v1", "serviceaccounts"};
/// A subresource: what is created there is the request, and the answer has the token.
const kube::Resource kTokens{"", "v1", "serviceaccounts/worker/token"};
const std::string kSpec = R"({"workers": {"replicas": 3, "pools": [
    {"name": "here", "maxReplicas": 1}, {"name": "there", "cluster": "west"}],
    "template": {"spec": {"serviceAccountName": "worker"}}}})";

bool Await(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 1200; ++tries) {
    if (condition()) return true;
    kube::SystemTiming().Sleep(std::chrono::milliseconds(50), {});
  }
  return false;
}

class ProofRealApiTest : public kube::ApiServerUnderTest {
 protected:
  static void SetUpTestSuite() {
    ApiServerUnderTest::SetUpTestSuite();
    if (!plane_) return;
    auto plane = kube::ControlPlane::Start(Binaries());
    ASSERT_TRUE(plane.ok()) << plane.status().ToString();
    west_plane_ = *std::move(plane);
  }
  static void TearDownTestSuite() {
    west_plane_.reset();
    ApiServerUnderTest::TearDownTestSuite();
  }

  void SetUp() override {
    ApiServerUnderTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    std::ostringstream text;
    text << std::ifstream(SWARM_SOURCE_DIR "/crds/swarmjob.yaml").rdbuf();
    const auto definition = api::YamlToJson(text.str());
    ASSERT_TRUE(definition.ok());
    ASSERT_TRUE(client_->Apply(kDefinitions, *definition).ok());
    ASSERT_TRUE(Await([&] { return client_->List(SwarmJobs(), {.ns = ns_}).ok(); }));
    west_ =
        kube::MakeRestClient(west_plane_->transport(), Admin(), {}, kube::SystemTiming(), nullptr);
    const json made{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns_}}}};
    ASSERT_TRUE(west_->Create(kube::resources::Namespaces(), made).ok());
    const json account{{"apiVersion", "v1"},
                       {"kind", "ServiceAccount"},
                       {"metadata", {{"name", "worker"}, {"namespace", ns_}}}};
    for (kube::Client* client : {client_.get(), west_.get()}) {
      ASSERT_TRUE(client->Create(kAccounts, account).ok());
    }
    StartHome();
    StartSatellite();
    ASSERT_TRUE(client_->Create(SwarmJobs(), JobUnderTest(kSpec, {ns_, "tiny"})).ok());
    ASSERT_TRUE(Await([&] { return There().size() == 2; }));
  }
  void TearDown() override {
    satellite_.request_stop();
    if (satellite_.joinable()) satellite_.join();
    if (controller_) controller_->ProveAt(nullptr);
    home_.reset();
    controller_.reset();
  }

  static std::shared_ptr<kube::Credentials> Admin() {
    return kube::FixedToken(kube::ControlPlane::kAdminToken);
  }

  void StartHome() {
    ControllerOptions options;
    options.informers.namespaces = {ns_};
    options.reconcilers = 2;
    options.pods.worker_image = "worker:1";
    options.instance = "test";
    controller_.emplace(*client_, options, trainers_.connect(), kube::SystemTiming());
    controller_->Start();
    controller_->Lead(1);
    auto opened = satellite::Home::Open(
        {"127.0.0.1:0",
         {ns_, satellite::kHomeSecret},
         1,
         [this](const enrol::Caller& caller, const enrol::ProveRequest& request) {
           return controller_->Prove(caller, request);
         }},
        *client_, kube::SystemTiming(),
        [this](const std::string& cluster, std::shared_ptr<kube::HttpTransport> transport,
               std::function<bool()> reachable) {
          controller_->AddCluster(cluster,
                                  kube::MakeRestClient(std::move(transport), nullptr, {},
                                                       kube::SystemTiming(), nullptr),
                                  std::move(reachable));
        });
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    home_ = *std::move(opened);
    controller_->ProveAt(
        [this](const std::string& cluster) { return home_->ProofPlaceOf(cluster); });
  }

  void StartSatellite() {
    const kube::ObjectName account{ns_, satellite::kHomeSecret};
    const Status changed =
        satellite::ChangeAccount(*client_, account, [&](satellite::Account* change) {
          change->tokens["5f"] = {identity::Sha256("sesame"), "west",
                                  std::chrono::system_clock::now() + seconds(600)};
          return Status();
        });
    ASSERT_TRUE(changed.ok()) << changed.ToString();
    const auto read = client_->Get(Secrets(), account);
    ASSERT_TRUE(read.ok());
    const std::string authority = satellite::TextIn(**read, satellite::kAuthorityCertificate);
    const std::string token =
        enrol::ToText({home_->address(), *identity::Fingerprint(authority, "ca"), "5f", "sesame"});
    satellite_ = std::jthread([this, token](std::stop_token stop) {
      (void)satellite::RunSatellite({.token = token,
                                     .secret = {ns_, "swarm-satellite"},
                                     .namespaces = {ns_},
                                     .pods_prove = true},
                                    {*west_, west_plane_->transport(), Admin()},
                                    kube::SystemTiming(), &metrics_, stop);
    });
  }

  std::vector<std::string> NamesIn(kube::Client& client, const kube::Resource& resource) {
    std::vector<std::string> names;
    const auto found = client.List(resource, {.ns = ns_});
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    if (!found.ok()) return names;
    for (const auto& each : found->Unpack()) names.push_back(kube::NameOf(*each).name);
    return names;
  }
  std::vector<std::string> There() { return NamesIn(*west_, Pods()); }
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
    const auto asked = identity::MakeRequest("x");
    Await([&] {
      reply = prove::AskAt(place)({token, JobUid(), place.cluster, worker, asked->request});
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

  static inline std::unique_ptr<kube::ControlPlane> west_plane_;
  TemporaryFolder folder_;
  std::unique_ptr<kube::Client> west_;
  TrainersUnderTest trainers_;
  std::optional<Controller> controller_;
  std::unique_ptr<satellite::Home> home_;
  satellite::SatelliteMetrics metrics_;
  std::jthread satellite_;
};

TEST_F(ProofRealApiTest, AWorkerThereMakesItsKeyAndProvesWhichPodItIs) {
  const std::string name = There().front();
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
  EXPECT_EQ(*ReadFile(folder_.path() / "ca.crt"), satellite::TextIn(**authority, "ca.crt"));
  EXPECT_THAT(NamesIn(*west_, Secrets()), Not(Contains(HasSubstr("-identity"))))
      << "home has made no key for a pod there";
}

TEST_F(ProofRealApiTest, APodThatAsksForAnotherIdentityIsRefusedAndTheJobTellsOfIt) {
  const std::vector<std::string> pods = There();
  const json pod = PodThere(pods[0]);
  const auto reply = Prove(pod, pods[1], TokenOf(*west_, pod, Audience()));
  EXPECT_EQ(reply.status().code(), StatusCode::kPermissionDenied) << reply.status().ToString();
  EXPECT_THAT(reply.status().message(), HasSubstr("is that of the pod " + pods[0]));
  EXPECT_TRUE(Await([&] { return !EventsOf("IdentityRefused").empty(); }));
  EXPECT_THAT(EventsOf("IdentityRefused"), Contains(HasSubstr(pods[1])));
}

TEST_F(ProofRealApiTest, NoOtherTokenIsAProof) {
  const std::string name = There().front();
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
  const std::string name = There().front();
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
