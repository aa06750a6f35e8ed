// One job in two clusters, each with a real API server: its own, and one whose satellite has
// dialled home. The test plays schedulers and kubelets.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "base/identity/trust.h"
#include "operator/controller/testing/two_clusters_under_test.h"
#include "operator/kube/testing/fake_timing.h"
#include "operator/names/names.h"
#include "operator/satellite/gateway.h"
#include "operator/satellite/wire/guest.h"

namespace swarm::controller {
namespace {

using kube::resources::Pods;
using kube::resources::SwarmJobs;
using nlohmann::json;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

const std::string kTwoPools = R"({"workers": {"replicas": 4, "pools": [
    {"name": "here", "maxReplicas": 2}, {"name": "there", "cluster": "west"}]}})";

/// Takes hours for done, and the wall clock for as much later.
class HastyTiming final : public kube::Timing {
 public:
  Timepoint Now() override { return kube::SystemTiming().Now(); }
  kube::WallTime WallNow() override {
    return kube::SystemTiming().WallNow() + seconds(ahead_.load());
  }
  bool Sleep(Duration duration, std::stop_token stop) override {
    if (duration < std::chrono::hours(1)) return kube::SystemTiming().Sleep(duration, stop);
    ahead_ += std::chrono::ceil<seconds>(duration).count();
    return !stop.stop_requested();
  }
  double Uniform() override { return kube::SystemTiming().Uniform(); }

 private:
  std::atomic<std::int64_t> ahead_ = 0;  // seconds
};

class SatelliteRealApiTest : public TwoClustersUnderTest {
 protected:
  void StartSatellite(const std::string& token,
                      const satellite::SweepOptions& sweep = {.settle = seconds(0)},
                      kube::Timing& timing = kube::SystemTiming()) {
    RunSatellite({.token = token, .secret = {}, .namespaces = {}, .sweep = sweep}, timing);
  }
  void Submit(const std::string& spec = kTwoPools) {
    const auto made = client_->Create(SwarmJobs(), JobUnderTest(spec, {ns_, "tiny"}));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
  }
  json Job() {
    const auto job = client_->Get(SwarmJobs(), {ns_, "tiny"});
    return job.ok() ? **job : json();
  }
  void Run(kube::Client& client, const std::string& pod, const std::string& ip) {
    const auto changed = client.Patch(Pods(), {ns_, pod}, kube::PatchType::kMerge,
                                      {{"status",
                                        {{"phase", "Running"},
                                         {"podIP", ip},
                                         {"conditions",
                                          {{{"type", "PodScheduled"}, {"status", "True"}},
                                           {{"type", "Ready"}, {"status", "True"}}}}}}},
                                      {.subresource = "status"});
    ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  }
  std::string Ready() {
    const json job = Job();
    return job.is_object() ? kube::TextAt(job, "/status/readyByCluster") : "";
  }
  /// The condition ClustersConnected: "False: ClusterAway".
  std::string Connected() {
    const json job = Job();
    const json::json_pointer place("/status/conditions");
    for (const json& each : job.contains(place) ? job[place] : json::array()) {
      if (each["type"] == "ClustersConnected") {
        return kube::TextAt(each, "/status") + ": " + kube::TextAt(each, "/reason");
      }
    }
    return "";
  }
  /// What home's account says of the other cluster, after home has looked.
  bool NotedAsConnected() {
    EXPECT_TRUE(home_->Tend(controller_->JobUids()).ok());
    const auto account = satellite::ReadAccount(*client_, {ns_, satellite::kHomeSecret});
    EXPECT_TRUE(account.ok()) << account.status().ToString();
    const auto found = account->connections.find("west");
    return found != account->connections.end() && found->second.up;
  }
  double OfSatellite(Metric metric) const {
    for (const MetricSample& sample : metrics_.Read()) {
      if (sample.metric == metric) return std::get<double>(sample.value);
    }
    return -1;
  }
  /// The address that the trainer's name has in the other cluster.
  std::string TrainerThere() {
    const auto slice = west_->Get(kube::resources::EndpointSlices(), {ns_, "tiny-trainer"});
    return slice.ok() ? kube::TextAt(**slice, "/endpoints/0/addresses/0") : "";
  }
};

TEST_F(SatelliteRealApiTest, AJobGetsWorkersInBothClustersAndWhatTheyNeedThere) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2 && Here().size() == 3; }))
      << testing::PrintToString(There()) << testing::PrintToString(Here());
  std::set<std::string> workers = Here();
  workers.merge(There());
  EXPECT_THAT(workers,
              UnorderedElementsAre("tiny-trainer-1", "tiny-w0", "tiny-w1", "tiny-w2", "tiny-w3"));
  for (const std::string& pod : There()) {
    EXPECT_TRUE(Await([&] {
      return NamesIn(*west_, kube::resources::Secrets()).contains(pod + "-identity");
    })) << "a pod without its certificate would never begin";
  }
  EXPECT_THAT(TrainerThere(), IsEmpty());
  Run(*client_, "tiny-trainer-1", "10.1.0.9");
  EXPECT_TRUE(Await([&] { return TrainerThere() == "10.1.0.9"; }));
  EXPECT_FALSE(NamesIn(*west_, kube::resources::Secrets()).contains("tiny-ca"))
      << "the key of the authority stays at home";
}

TEST_F(SatelliteRealApiTest, PodsKnowTheGatewaysOfBothClustersOnceTheirLoadBalancersHaveAddresses) {
  const auto give = [this](kube::Client& client, const std::string& ip) {
    const json ingress{{"status", {{"loadBalancer", {{"ingress", {{{"ip", ip}}}}}}}}};
    const auto given = client.Patch(kube::resources::Services(), {ns_, "gateway"},
                                    kube::PatchType::kMerge, ingress, {.subresource = "status"});
    ASSERT_TRUE(given.ok()) << given.status().ToString();
  };
  const json port{{"name", "workers"}, {"port", 7444}};
  const json service{{"apiVersion", "v1"},
                     {"kind", "Service"},
                     {"metadata", {{"name", "gateway"}, {"namespace", ns_}}},
                     {"spec", {{"type", "LoadBalancer"}, {"ports", json::array({port})}}}};
  for (kube::Client* client : {client_.get(), west_.get()}) {
    ASSERT_TRUE(client->Create(kube::resources::Services(), service).ok());
  }
  satellite::OwnGateway own({ns_, "gateway"}, *client_);
  EXPECT_FALSE(own.Look());
  give(*client_, "203.0.113.9");
  EXPECT_TRUE(own.Look());
  EXPECT_FALSE(own.Look()) << "nothing has changed";
  controller_->UseGateways([this, address = own.address()] {
    std::map<std::string, std::string> gateways = home_->Connected();
    gateways["home"] = address;
    return gateways;
  });

  RunSatellite({.token = TokenFor("west"),
                .secret = {},
                .namespaces = {},
                .sweep = {},
                .gateway = {ns_, "gateway"}});
  ASSERT_TRUE(Await([&] { return NotedAsConnected(); }));
  EXPECT_THAT(home_->Connected(), ElementsAre(Pair("west", "")));
  give(*west_, "198.51.100.7");
  ASSERT_TRUE(Await([&] { return home_->Connected()["west"] == "198.51.100.7:7444"; }));

  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2 && Here().size() == 3; }));
  const auto pod = west_->Get(Pods(), {ns_, *There().begin()});
  ASSERT_TRUE(pod.ok()) << pod.status().ToString();
  const std::string names = (**pod)["spec"]["containers"][0]["env"].dump();
  EXPECT_THAT(names, HasSubstr("198.51.100.7:7444/" + *There().begin() + ".tiny-workers." + ns_));
  EXPECT_THAT(names, HasSubstr("203.0.113.9:7444/tiny-trainer." + ns_));
}

TEST_F(SatelliteRealApiTest, AWorkerThatIsLostThereIsReplacedAndCounted) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2; }));
  const std::string lost = *There().begin();
  for (const std::string& pod : There()) Run(*west_, pod, "10.2.0.1");
  ASSERT_TRUE(west_
                  ->Patch(Pods(), {ns_, lost}, kube::PatchType::kMerge,
                          {{"status",
                            {{"phase", "Failed"},
                             {"conditions",
                              {{{"type", "DisruptionTarget"},
                                {"status", "True"},
                                {"reason", "TerminationByKubelet"}}}}}}},
                          {.subresource = "status"})
                  .ok());
  EXPECT_TRUE(Await([&] { return There().contains("tiny-w4") && !There().contains(lost); }))
      << testing::PrintToString(There());
  EXPECT_TRUE(Await([&] { return Job()["status"].value("preemptions", 0) == 1; }));
}

TEST_F(SatelliteRealApiTest, WithoutItsSatelliteTheOtherClustersPodsStayAndHomeGoesOn) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2 && Here().size() == 3; }));
  const std::set<std::string> there = There();
  StopSatellite();
  const std::string lost = *std::next(Here().begin());
  ASSERT_TRUE(client_->Delete(Pods(), {ns_, lost}, {.grace_seconds = 0}).ok());
  ASSERT_TRUE(Await([&] { return Here().contains("tiny-w4"); })) << "home replaces its own";
  EXPECT_EQ(There(), there);
  StartSatellite("");  // its identity is in its Secret
  ASSERT_TRUE(west_->Delete(Pods(), {ns_, *there.begin()}, {.grace_seconds = 0}).ok());
  EXPECT_TRUE(Await([&] { return There().contains("tiny-w5"); }))
      << testing::PrintToString(There()) << testing::PrintToString(Here());
}

TEST_F(SatelliteRealApiTest, AClusterThatIsAwayIsToldAndSoIsItsReturn) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return Ready() == "home 0/2, west 0/2" && There().size() == 2; }));
  for (const std::string& pod : There()) Run(*west_, pod, "10.2.0.1");
  EXPECT_TRUE(Await([&] { return Ready() == "home 0/2, west 2/2"; })) << Ready();
  EXPECT_TRUE(NamesIn(*west_, kube::resources::PodDisruptionBudgets()).contains("tiny-workers"));
  EXPECT_EQ(OfSatellite(Metric::kSatelliteConnected), 1);
  EXPECT_TRUE(NotedAsConnected());
  StopSatellite();
  EXPECT_EQ(OfSatellite(Metric::kSatelliteConnected), 0);
  EXPECT_TRUE(Await([&] {
    controller_->LookAtClusters();
    return Connected() == "False: ClusterAway";
  })) << Connected();
  EXPECT_EQ(Ready(), "home 0/2, west 2/2 (away)");
  EXPECT_FALSE(NotedAsConnected()) << "this home has seen it go";
  StartSatellite("");
  EXPECT_TRUE(Await([&] {
    controller_->LookAtClusters();
    return Connected() == "True: EveryClusterConnected";
  })) << Connected();
  EXPECT_EQ(OfSatellite(Metric::kSatelliteConnected), 1);
  EXPECT_EQ(OfSatellite(Metric::kSatelliteRefused), 0);
  EXPECT_GT(OfSatellite(Metric::kSatelliteCertificateEnd), 0);
}

TEST_F(SatelliteRealApiTest, AnOperatorThatTakesOverFindsThePodsOfTheOtherCluster) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2 && Here().size() == 3; }));
  const std::set<std::string> there = There(), here = Here();
  StopHome();
  StartHome(2);
  ASSERT_TRUE(west_->Delete(Pods(), {ns_, *there.begin()}, {.grace_seconds = 0}).ok());
  EXPECT_TRUE(Await([&] { return There().contains("tiny-w4"); }))
      << testing::PrintToString(There());
  EXPECT_EQ(Here(), here);
}

TEST_F(SatelliteRealApiTest, AnOperatorThatTakesOverWithoutTheOtherClusterGoesOnWithItsOwn) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2 && Here().size() == 3; }));
  const std::set<std::string> there = There();
  ASSERT_TRUE(Await([&] { return Ready() == "home 0/2, west 0/2"; })) << Ready();
  EXPECT_TRUE(NotedAsConnected());
  StopSatellite();
  StopHome();
  StartHome(2);
  EXPECT_TRUE(NotedAsConnected()) << "home has just begun, and the satellite may be coming";
  const std::string lost = *std::next(Here().begin());
  ASSERT_TRUE(client_->Delete(Pods(), {ns_, lost}, {.grace_seconds = 0}).ok());
  ASSERT_TRUE(Await([&] { return Here().contains("tiny-w4"); })) << "home replaces its own";
  EXPECT_EQ(Here().size(), 3u);
  StartSatellite("");
  ASSERT_TRUE(west_->Delete(Pods(), {ns_, *there.begin()}, {.grace_seconds = 0}).ok());
  EXPECT_TRUE(Await([&] { return There().contains("tiny-w5"); }))
      << testing::PrintToString(There()) << testing::PrintToString(Here());
  EXPECT_TRUE(There().contains(*there.rbegin())) << "the other one was kept";
}

TEST_F(SatelliteRealApiTest, PodsGetANewOwnerWhereTheirsWasDeleted) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2; }));
  const kube::ObjectName outpost{ns_, "tiny-outpost"};
  ASSERT_TRUE(west_->Delete(kube::resources::ConfigMaps(), outpost).ok());
  const std::set<std::string> before = There();
  ASSERT_TRUE(west_->Delete(Pods(), {ns_, *before.begin()}, {.grace_seconds = 0}).ok());
  const auto is_new = [&](const std::string& name) { return !before.contains(name); };
  std::set<std::string> there;
  ASSERT_TRUE(Await([&] { return std::ranges::any_of(there = There(), is_new); }))
      << testing::PrintToString(there);
  const auto owner = west_->Get(kube::resources::ConfigMaps(), outpost);
  const auto pod = west_->Get(Pods(), {ns_, *std::ranges::find_if(there, is_new)});
  ASSERT_TRUE(owner.ok() && pod.ok()) << owner.status().ToString() << pod.status().ToString();
  EXPECT_TRUE(kube::IsOwnedBy(**pod, kube::UidOf(**owner)))
      << "else the garbage collector deletes it at once: " << (*pod)->dump();
}

TEST_F(SatelliteRealApiTest, NothingIsLeftThereOfAJobThatIsGone) {
  StartSatellite(TokenFor("west"));
  Submit();
  ASSERT_TRUE(Await([&] { return There().size() == 2; }));
  ASSERT_TRUE(client_->Delete(SwarmJobs(), {ns_, "tiny"}).ok());
  const auto outpost = [&] {
    return NamesIn(*west_, kube::resources::ConfigMaps()).contains("tiny-outpost");
  };
  EXPECT_TRUE(outpost());
  EXPECT_TRUE(Await([&] {
    EXPECT_TRUE(home_->Tend(controller_->JobUids()).ok());
    return !outpost();
  })) << "which owns all the rest; no garbage collector runs here";
}

TEST_F(SatelliteRealApiTest, GuessingTokensCostsTheApiServerLittle) {
  kube::FakeTiming timing;
  const auto home = satellite::Home::Open({"127.0.0.1:0", {ns_, "guessed"}, 1}, *client_, timing,
                                          [](const auto&, auto, auto) {});
  ASSERT_TRUE(home.ok()) << home.status().ToString();
  const auto secret = client_->Get(kube::resources::Secrets(), {ns_, "guessed"});
  ASSERT_TRUE(secret.ok());
  const satellite::Home& door = **home;
  const auto guess = [&] {
    return satellite::Enrol(
               {door.address(),
                *identity::Fingerprint(kube::SecretText(**secret, satellite::kAuthorityCertificate),
                                       "ca")},
               {"5f", "guess", ""})
        .status()
        .code();
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(guess(), StatusCode::kUnauthenticated);
  EXPECT_EQ(guess(), StatusCode::kResourceExhausted);
  timing.Sleep(seconds(1), {});
  EXPECT_EQ(guess(), StatusCode::kUnauthenticated);
}

TEST_F(SatelliteRealApiTest, AConnectionThatStaysIsRenewedBeforeItsCertificateEnds) {
  HastyTiming timing;
  StartSatellite(TokenFor("west"), {.settle = seconds(0)}, timing);
  std::set<std::string> certificates;
  EXPECT_TRUE(Await([&] {
    const auto secret = west_->Get(kube::resources::Secrets(), {ns_, "swarm-satellite"});
    if (secret.ok()) certificates.insert(kube::SecretText(**secret, "tls.crt"));
    return certificates.size() == 2;
  })) << satellite_ended_.ToString();
  StopSatellite();
}

TEST_F(SatelliteRealApiTest, ATokenIsGoodOnceAndARevokedClusterIsOut) {
  const std::string token = TokenFor("west");
  StartSatellite(token);
  ASSERT_TRUE(Await(
      [&] { return NamesIn(*west_, kube::resources::Secrets()).contains("swarm-satellite"); }));
  ASSERT_TRUE(satellite::ChangeAccount(*client_, {ns_, satellite::kHomeSecret},
                                       [](satellite::Account* account) {
                                         EXPECT_THAT(account->tokens, IsEmpty());
                                         account->revoked.insert("west");
                                         return Status();
                                       })
                  .ok());
  ASSERT_TRUE(home_->Tend({}).ok());
  satellite_.join();
  EXPECT_EQ(satellite_ended_.code(), StatusCode::kPermissionDenied) << satellite_ended_.ToString();
  EXPECT_THAT(satellite_ended_.message(), HasSubstr("was revoked"));
  ASSERT_TRUE(west_->Delete(kube::resources::Secrets(), {ns_, "swarm-satellite"}).ok());
  StartSatellite(token);
  satellite_.join();
  EXPECT_EQ(satellite_ended_.code(), StatusCode::kUnauthenticated) << satellite_ended_.ToString();
}

}  // namespace
}  // namespace swarm::controller
