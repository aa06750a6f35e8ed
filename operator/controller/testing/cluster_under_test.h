// For tests: one job in a cluster whose parts the test plays, and an operator that reconciles when
// the test calls it. No thread makes decisions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/informers.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/testing/fake_api_server.h"

namespace swarm::controller {

inline const kube::ObjectName kTestJob{"team", "tiny"};

/// A small job of four workers, with `spec` merged into its spec.
nlohmann::json JobUnderTest(const std::string& spec, const kube::ObjectName& name);

/// The statuses of trainers, by the dialled address.
class TrainersUnderTest {
 public:
  void Say(const std::string& dial, const protocol::JobStatus& status);
  std::vector<protocol::Direct> told() const;
  TrainerLinks::Connect connect();

 private:
  class Connection;
  mutable std::mutex mutex_;
  std::map<std::string, protocol::JobStatus> fresh_;  // guarded, as told_
  std::vector<protocol::Direct> told_;
};

/// One operator: its memory, and its caches, which have the state of the server when they were last
/// filled.
class OperatorUnderTest {
 public:
  OperatorUnderTest(std::shared_ptr<FakeApiServer> server, TrainersUnderTest* trainers,
                    std::uint64_t term = 1);

  /// Fills the caches from the server.
  void FillCaches();
  /// Removes a pod of kTestJob from the cache, as if the cache were behind.
  void Miss(const std::string& pod);
  void UseGateways(ListGateways list) { clusters_.UseGateways(std::move(list)); }
  /// Another cluster, with caches that fill themselves.
  void AddCluster(const std::string& name, std::shared_ptr<FakeApiServer> server,
                  Cluster::Reachable reachable);
  bool Reaches(const std::string& cluster) const;
  /// Reconciles once, with the current caches.
  Status Look();
  /// Fills the caches and reconciles, until a reconcile changes nothing on the server.
  void Settle();

  std::optional<Duration> look_again;  ///< when the last reconcile asked for the next one
  Duration later{};                    ///< added to the wall clock
  Duration aged{};                     ///< added to the clock of silences
  OperatorMetrics metrics{1};

 private:
  std::shared_ptr<FakeApiServer> server_;
  std::unique_ptr<kube::Client> client_;
  kube::Store jobs_, pods_{PodIndexes()}, nodes_;
  const SeenNodes seen_nodes_{nodes_};
  JobSecrets secrets_;
  TrainerLinks links_;
  Clusters clusters_;
  Actor actor_;
  kube::EventRecorder events_;
  Workloads workloads_;
  Reconciler reconciler_;
};

class ClusterUnderTest {
 public:
  ClusterUnderTest();

  /// Submits a JobUnderTest.
  void Submit(const std::string& spec = "{}", const kube::ObjectName& name = kTestJob);
  nlohmann::json job() const;
  nlohmann::json status() const { return job().value("status", nlohmann::json::object()); }
  /// The condition of this type: "True: Reason: message"; empty: there is none.
  std::string condition(const std::string& type) const;

  /// Names of the existing pods, sorted.
  std::vector<std::string> pods() const;
  nlohmann::json pod(const std::string& name) const;

  /// Plays schedulers and kubelets: every new pod gets its own node and runs.
  void RunPods();
  /// Ends the main container of the pod.
  void EndPod(const std::string& name, int exit_code, const std::string& reason);
  /// Removes the node of the pod, and the pod object with it.
  void LoseNodeOf(const std::string& name);

  std::shared_ptr<FakeApiServer> server = std::make_shared<FakeApiServer>();
  TrainersUnderTest trainers;
  OperatorUnderTest first{server, &trainers};

 private:
  int nodes_ = 0;
};

}  // namespace swarm::controller
