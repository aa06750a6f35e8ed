// For tests: an operator at home, and another cluster whose satellite dials it. Both API servers
// are real; the test plays schedulers, kubelets and pods.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "operator/controller/controller.h"
#include "operator/controller/testing/cluster_under_test.h"
#include "operator/kube/testing/api_server_under_test.h"
#include "operator/satellite/home.h"
#include "operator/satellite/satellite.h"

namespace swarm::controller {

/// Each test has its namespace in both clusters, and home's operator in term 1.
class TwoClustersUnderTest : public kube::ApiServerUnderTest {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  void TearDown() override;

  static std::shared_ptr<kube::Credentials> Admin() {
    return kube::FixedToken(kube::ControlPlane::kAdminToken);
  }
  /// Asks every 50 ms for a minute.
  static bool Await(const std::function<bool()>& condition);

  /// At the address that it had before, if it had one. It judges the proofs of pods.
  void StartHome(std::uint64_t term);
  void StopHome();
  /// A token for a cluster, as `swarmctl satellite token` makes it.
  std::string TokenFor(const std::string& cluster);
  /// Runs it on a thread of its own. The secret and the namespace are those of the test.
  void RunSatellite(satellite::SatelliteOptions options,
                    kube::Timing& timing = kube::SystemTiming());
  void StopSatellite();

  std::set<std::string> NamesIn(kube::Client& client, const kube::Resource& resource);
  /// Names of pods: at home, and in the other cluster.
  std::set<std::string> Here() { return NamesIn(*client_, kube::resources::Pods()); }
  std::set<std::string> There() { return NamesIn(*west_, kube::resources::Pods()); }

  static inline std::unique_ptr<kube::ControlPlane> west_plane_;
  std::unique_ptr<kube::Client> west_;
  TrainersUnderTest trainers_;
  std::optional<Controller> controller_;
  std::string address_;  // of home
  std::unique_ptr<satellite::Home> home_;
  satellite::SatelliteMetrics metrics_;
  Status satellite_ended_;
  std::jthread satellite_;
};

}  // namespace swarm::controller
