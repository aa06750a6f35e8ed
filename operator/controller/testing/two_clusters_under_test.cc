#include "operator/controller/testing/two_clusters_under_test.h"

#include <fstream>
#include <sstream>

#include "api/format/yaml.h"
#include "base/identity/trust.h"
#include "worker/enrol/token.h"

namespace swarm::controller {
namespace {

using nlohmann::json;

const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};

}  // namespace

void TwoClustersUnderTest::SetUpTestSuite() {
  ApiServerUnderTest::SetUpTestSuite();
  if (!plane_) return;
  auto plane = kube::ControlPlane::Start(Binaries());
  ASSERT_TRUE(plane.ok()) << plane.status().ToString();
  west_plane_ = *std::move(plane);
}

void TwoClustersUnderTest::TearDownTestSuite() {
  west_plane_.reset();
  ApiServerUnderTest::TearDownTestSuite();
}

void TwoClustersUnderTest::SetUp() {
  ApiServerUnderTest::SetUp();
  if (HasFatalFailure() || IsSkipped()) return;
  std::ostringstream text;
  text << std::ifstream(SWARM_SOURCE_DIR "/crds/swarmjob.yaml").rdbuf();
  const auto definition = api::YamlToJson(text.str());
  ASSERT_TRUE(definition.ok());
  ASSERT_TRUE(client_->Apply(kDefinitions, *definition).ok());
  ASSERT_TRUE(Await([&] { return client_->List(kube::resources::SwarmJobs(), {.ns = ns_}).ok(); }));
  west_ =
      kube::MakeRestClient(west_plane_->transport(), Admin(), {}, kube::SystemTiming(), nullptr);
  const json made{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns_}}}};
  ASSERT_TRUE(west_->Create(kube::resources::Namespaces(), made).ok());
  StartHome(1);
}

void TwoClustersUnderTest::TearDown() {
  StopSatellite();
  StopHome();
}

bool TwoClustersUnderTest::Await(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 1200; ++tries) {
    if (condition()) return true;
    kube::SystemTiming().Sleep(std::chrono::milliseconds(50), {});
  }
  return false;
}

void TwoClustersUnderTest::StartHome(std::uint64_t term) {
  ControllerOptions options;
  options.informers.namespaces = {ns_};
  options.reconcilers = 2;
  options.pods.worker_image = "worker:1";
  options.instance = "test";
  controller_.emplace(*client_, options, trainers_.connect(), kube::SystemTiming());
  controller_->Start();
  controller_->Lead(term);
  auto opened = satellite::Home::Open(
      {address_.empty() ? "127.0.0.1:0" : address_,
       {ns_, satellite::kHomeSecret},
       term,
       [this](const enrol::Caller& caller, const enrol::ProveRequest& request, enrol::Proved done) {
         controller_->Prove(caller, request, std::move(done));
       },
       &controller_->machines()},
      *client_, kube::SystemTiming(),
      [this](const std::string& cluster, std::shared_ptr<kube::HttpTransport> transport,
             std::function<bool()> reachable) {
        controller_->AddCluster(
            cluster,
            kube::MakeRestClient(std::move(transport), nullptr, {}, kube::SystemTiming(), nullptr),
            std::move(reachable));
      });
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  home_ = *std::move(opened);
  address_ = home_->address();
  controller_->ProveAt([this](const std::string& cluster) { return home_->ProofPlaceOf(cluster); });
}

void TwoClustersUnderTest::StopHome() {
  if (controller_) controller_->ProveAt(nullptr);
  if (controller_) controller_->UseGateways(nullptr);  // both ask home
  home_.reset();
  controller_.reset();
}

std::string TwoClustersUnderTest::TokenFor(const std::string& cluster) {
  const std::string secret = "sesame";
  const kube::ObjectName account{ns_, satellite::kHomeSecret};
  const Status changed =
      satellite::ChangeAccount(*client_, account, [&](satellite::Account* change) {
        change->tokens["5f"] = {identity::Sha256(secret), cluster,
                                std::chrono::system_clock::now() + std::chrono::minutes(10)};
        return Status();
      });
  EXPECT_TRUE(changed.ok()) << changed.ToString();
  const auto read = client_->Get(kube::resources::Secrets(), account);
  EXPECT_TRUE(read.ok());
  const std::string authority = kube::SecretText(**read, satellite::kAuthorityCertificate);
  return enrol::ToText({address_, *identity::Fingerprint(authority, "ca"), "5f", secret});
}

void TwoClustersUnderTest::RunSatellite(satellite::SatelliteOptions options, kube::Timing& timing) {
  options.secret = {ns_, "swarm-satellite"};
  options.namespaces = {ns_};
  satellite_ = std::jthread([this, options, &timing](std::stop_token stop) {
    satellite_ended_ = satellite::RunSatellite(options, {*west_, west_plane_->transport(), Admin()},
                                               timing, &metrics_, stop);
  });
}

void TwoClustersUnderTest::StopSatellite() {
  satellite_.request_stop();
  if (satellite_.joinable()) satellite_.join();
}

std::set<std::string> TwoClustersUnderTest::NamesIn(kube::Client& client,
                                                    const kube::Resource& resource) {
  std::set<std::string> names;
  const auto found = client.List(resource, {.ns = ns_});
  EXPECT_TRUE(found.ok()) << found.status().ToString();
  if (!found.ok()) return names;
  for (const auto& each : found->Unpack()) names.insert(kube::NameOf(*each).name);
  return names;
}

}  // namespace swarm::controller
