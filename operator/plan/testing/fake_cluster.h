// A simulated cluster for tests, made of plain values. Pods get nodes, run, and vanish with them. A
// trainer reports what a real one would. Operators decide on what they observe, and carry out one
// action at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/plan/decide.h"
#include "operator/plan/money/tenures.h"
#include "operator/plan/reservations.h"

namespace swarm::plan {

/// The memory of one operator, which a restart loses.
struct Leader {
  std::uint64_t term = 1;
  std::optional<WallTime> status_written;
  std::vector<Creation> creations;
  std::optional<Refusal> refusal;
  Reservations reservations;
  Tenures tenures;
};

class FakeCluster {
 public:
  explicit FakeCluster(std::uint64_t replicas = 4, std::uint64_t stages = 2);

  // ---- set by a test ----
  WallTime now{std::chrono::seconds(1'800'000'000)};
  ObservedJob job;
  std::map<std::string, std::uint64_t> free_slots;   ///< how many more nodes each pool can get
  std::map<std::string, ObservedCluster> clusters;   ///< others that the job's pools name
  std::map<std::string, std::uint64_t> pod_sizes;    ///< workers in a pod of each pool; else 1
  api::ImageStatus image{.name = "swarm-worker:1"};  ///< of the operators
  bool trainer_speaks = true;
  /// What the trainer says of its training.
  struct Training {
    std::uint64_t step = 7;
    double loss = 0;
    double tokens_per_second = 0;
    double seconds_left = 0;
    std::string one_region;
    std::vector<protocol::RegionTraffic> traffic;
  } training;
  std::optional<ObservedQueue> queue;  ///< of the job; the test plays Kueue
  std::optional<Refusal> refuses;      ///< how creations are refused
  /// Why no node fits a trainer, in the scheduler's words; empty: each gets a node.
  std::string trainer_fits_nowhere;
  std::string registry_answers;  ///< why no image can be pulled; empty: nodes get them
  /// A node that takes every new worker that does not avoid it, and ends its program at once.
  std::string black_hole;
  ContainerEnd black_hole_ends{.exit_code = 1, .reason = "Error"};
  std::set<std::string> not_there;    ///< pods whose workers the trainer dropped
  std::set<std::string> handed_over;  ///< pods whose workers left it in order
  std::set<std::string> joined;       ///< workers of machines without pods that the trainer lists
  /// Clusters that have been away since the operator began, so it has never seen their pods.
  std::set<std::string> never_seen;
  Leader leader;

  std::map<std::string, ObservedPod> pods;
  std::map<std::string, ObservedNode> nodes;
  std::set<Child> children;
  std::vector<Event> events;      ///< of all decisions whose write succeeded
  std::vector<std::string> done;  ///< the actions in words: "create job-w0 in spot"

  api::Spec& spec() { return job.job->spec; }
  api::SwarmJobStatus& status() { return job.status; }

  // ---- the cluster ----
  void Advance(std::int64_t seconds) { now += std::chrono::seconds(seconds); }
  /// Gives nodes to waiting pods, runs the pods that have nodes, and removes deleted pods.
  void RunPods();
  /// Removes the node of a pod. Its pods keep their last state, as if no kubelet reported their
  /// end.
  void LoseNodeOf(const std::string& pod);
  /// Ends the main container.
  void End(const std::string& pod, int exit_code, const std::string& reason = "Error",
           const std::string& message = "");
  void Taint(const std::string& pod, const std::string& key);
  void DeletePodByAnotherClient(const std::string& pod);

  // ---- operators ----
  Observed Observe(Leader& by) const;
  /// The input of a decision on an old observation: `seen`, with the current memory of the
  /// operator.
  Observed Reconsider(Observed seen, Leader& by) const;
  /// Makes one decision and carries it out. The operator dies after `stop_after` actions and writes
  /// (none: it does not). The decision is made on `seen` (none: on the current state). Returns
  /// false if the write met a conflict.
  Plan Act(Leader& by, std::optional<Observed> seen = {},
           std::optional<std::size_t> stop_after = {});
  /// Decides and runs pods until nothing is left to do. Returns false if that takes more than 50
  /// rounds.
  bool Settle();
  /// Does so for this many seconds, with a decision every five.
  void Live(std::int64_t seconds);

  std::vector<std::string> Workers() const;  ///< pods of running and waiting workers, ascending
  std::uint64_t WorkersIn(const std::vector<std::string>& names) const;  ///< of these pods
  std::vector<std::string> In(const std::string& pool) const;
  /// A default one if the status has none of this type.
  api::Condition ConditionOf(api::ConditionType type) const;
  bool Happened(const std::string& reason) const;
  bool Did(const std::string& what) const;

  /// Violated invariants, in words: a name used twice, two trainers of one term, ...
  std::vector<std::string> violations;

 private:
  void Do(const Action& action, Leader& by);
  void Create(ObservedPod pod, Leader& by);
  void Hear(const TellQueue& told);
  /// Checks that each closed number, and each reserved term, counts at most one end.
  void CheckAccount(const api::SwarmJobStatus& before, const api::SwarmJobStatus& after);
  std::optional<TrainerView> View() const;
  const ObservedPod* Trainer() const;

  std::uint64_t version_ = 1;
  std::uint64_t next_uid_ = 1;
  std::set<std::string> names_;  // of all pods so far
  std::set<std::uint64_t> terms_;
  std::map<std::string, std::uint64_t> stage_of_;        // by worker
  std::map<std::string, double> lost_at_;                // by pod
  std::map<std::string, std::set<std::string>> avoids_;  // nodes, by pod
  std::set<std::string> drained_;                        // workers
  std::uint64_t retired_term_ = 0;                       // the trainer that has heard `retired_`
  protocol::Retired retired_;
};

}  // namespace swarm::plan
