// For tests: one job in a cluster of which the test plays every part, and an operator that looks at
// it when it is told to. No thread decides anything.
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

/// What trainers say, by the address that is dialled.
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

/// One operator: its caches, which show what the server had when they were last filled, and its
/// memory.
class OperatorUnderTest {
 public:
  OperatorUnderTest(std::shared_ptr<FakeApiServer> server, TrainersUnderTest* trainers,
                    std::uint64_t term = 1);

  /// The caches catch up with the server.
  void FillCaches();
  /// One look, on the caches as they are.
  Status Look();
  /// Fills the caches and looks, until a look changes nothing on the server.
  void Settle();

  std::optional<Duration> look_again;  ///< what the last look asked for
  Duration later{};                    ///< added to the time of day
  Figures figures{1};

 private:
  std::shared_ptr<FakeApiServer> server_;
  std::unique_ptr<kube::Client> client_;
  kube::Store jobs_, pods_{PodIndexes()}, nodes_;
  JobSecrets secrets_;
  TrainerLinks links_;
  Actor actor_;
  kube::EventRecorder events_;
  Reconciler reconciler_;
};

class ClusterUnderTest {
 public:
  ClusterUnderTest();

  /// Submits a JobUnderTest.
  void Submit(const std::string& spec = "{}", const kube::ObjectName& name = kTestJob);
  nlohmann::json job() const;
  nlohmann::json status() const { return job().value("status", nlohmann::json::object()); }
  /// Its condition of this type: "True: Reason: message"; empty if there is none.
  std::string condition(const std::string& type) const;

  /// Names of the pods that are there, sorted.
  std::vector<std::string> pods() const;
  nlohmann::json pod(const std::string& name) const;

  /// Schedulers and kubelets: every pod that is new gets a node of its own and runs.
  void RunPods();
  /// The pod ends by itself.
  void EndPod(const std::string& name, int exit_code, const std::string& reason);
  /// The node of the pod goes, and the pod object with it.
  void LoseNodeOf(const std::string& name);

  std::shared_ptr<FakeApiServer> server = std::make_shared<FakeApiServer>();
  TrainersUnderTest trainers;
  OperatorUnderTest first{server, &trainers};

 private:
  int nodes_ = 0;
};

}  // namespace swarm::controller
