// A cluster in values, for tests: pods get nodes, run, and vanish with them; a trainer says what a
// trainer would; operators decide upon what they see and carry it out, one action at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/plan/plan.h"
#include "operator/plan/reservations.h"

namespace swarm::plan {

/// An operator's own memory: gone when it restarts.
struct Leader {
  std::uint64_t term = 1;
  std::optional<WallTime> status_written;
  std::vector<Creation> creations;
  std::optional<Refusal> refusal;
  Reservations reservations;
};

class FakeCluster {
 public:
  explicit FakeCluster(std::uint64_t replicas = 4, std::uint64_t stages = 2);

  // ---- what a story sets ----
  WallTime now{std::chrono::seconds(1'800'000'000)};
  ObservedJob job;
  std::map<std::string, std::uint64_t> free_slots;  ///< nodes that each pool can still get
  bool trainer_speaks = true;
  std::optional<Refusal> refuses;   ///< what creations meet
  std::set<std::string> not_there;  ///< workers whom the trainer has lost, by id
  Leader leader;

  std::map<std::string, ObservedPod> pods;
  std::map<std::string, ObservedNode> nodes;
  std::set<Child> children;
  std::vector<Event> events;      ///< of all decisions whose write went through
  std::vector<std::string> done;  ///< what was done, in words: "create job-w0 in spot"

  api::Spec& spec() { return job.job->spec; }
  api::SwarmJobStatus& status() { return job.status; }

  // ---- the cluster's own life ----
  void Advance(std::int64_t seconds) { now += std::chrono::seconds(seconds); }
  /// Gives nodes to pods that wait, and runs what has a node. Pods that are being deleted go.
  void RunPods();
  /// The node is there no more; its pods stay as they were (nobody says that they ended).
  void LoseNodeOf(const std::string& pod);
  /// The main container ends.
  void End(const std::string& pod, int exit_code, const std::string& reason = "Error",
           const std::string& message = "");
  void Taint(const std::string& pod, const std::string& key);
  void DeletePodBySomebody(const std::string& pod);

  // ---- operators ----
  Observed Observe(Leader& by) const;
  /// The same with old eyes: `seen`, but for what the operator itself remembers.
  Observed Reconsider(Observed seen, Leader& by) const;
  /// One decision, carried out. `stop_after` actions and writes the operator dies (none: it does
  /// not). False: its write met a conflict. `seen` is what it decides upon (none: all as it is).
  Plan Act(Leader& by, std::optional<Observed> seen = {},
           std::optional<std::size_t> stop_after = {});
  /// Decides and runs pods until nothing is left to do, within 50 rounds; false: there still is.
  bool Settle();
  /// The same for that many seconds, a look every five.
  void Live(std::int64_t seconds);

  std::vector<std::string> Workers() const;  ///< names of those that run or wait, ascending
  std::vector<std::string> In(const std::string& pool) const;
  bool Happened(const std::string& reason) const;
  bool Did(const std::string& what) const;

  /// Broken promises, in words: a name used twice, two trainers of one term, ...
  std::vector<std::string> violations;

 private:
  void Do(const Action& action, Leader& by);
  void Create(ObservedPod pod, Leader& by);
  /// Each number closed, and each term given out, is one end counted at most.
  void CheckAccount(const api::SwarmJobStatus& before, const api::SwarmJobStatus& after);
  std::optional<TrainerView> View() const;
  const ObservedPod* Trainer() const;

  std::uint64_t version_ = 1;
  std::uint64_t next_uid_ = 1;
  std::set<std::string> names_;  // of all pods that ever were
  std::set<std::uint64_t> terms_;
  std::map<std::string, std::uint64_t> stage_of_;
  std::map<std::string, double> lost_at_;
  std::set<std::string> drained_;
};

}  // namespace swarm::plan
