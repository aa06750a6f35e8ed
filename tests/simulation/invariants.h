// What must hold after every event, whatever happened (docs/protocol.md, "Promises"). Processes
// report what they do; the audit compares it with what all others did and with the reference.
// Unlike a process, it sees everything at once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/simulation/arithmetic.h"
#include "worker/protocol/balance/regions.h"

namespace swarm::simulation {

struct Violation {
  std::string invariant;  ///< ExactlyOnce, SameTrajectory, Fencing, AllOrNothing, Bounded, ...
  std::string text;
};

class Audit {
 public:
  Audit(World* world, const Job* job, const Reference* reference)
      : world_(*world), job_(*job), reference_(*reference) {}

  /// The first one is kept.
  void Fail(const std::string& invariant, const std::string& text);
  const std::optional<Violation>& violation() const { return violation_; }

  /// A worker has frozen its part for the reduce; with it goes what it moved in steps before, of
  /// the fragment that the sum is of (Job::fragments).
  void OnReduceStarted(const WorkerId& worker, const protocol::Reduce& reduce,
                       const Shares& before);
  /// A worker holds the sum, or the elements of it that it is to hold.
  void OnReduced(const WorkerId& worker, const protocol::Reduce& reduce,
                 const std::vector<std::optional<Element>>& sum);
  /// A trainer decides for these workers, or continues with the decision of an earlier trainer.
  void OnDecided(const protocol::CommitRecord& record, const std::vector<WorkerId>& members);
  /// A trainer announces a roster.
  void OnRoster(const protocol::Roster& roster);
  void OnRosterChange(const protocol::RosterChange& change);
  /// A worker has applied the record, with these sums (none of divided groups), and this is its
  /// state now. Processes that are dead or not in the newest roster do not count (rule 15): a
  /// trainer that was paused may commit together with a worker that its successor has evicted.
  void OnApplied(Pid pid, protocol::StageIndex stage, const protocol::CommitRecord& record,
                 const std::vector<std::vector<Element>>& sums, const StageState& state);
  void OnLoaded(const WorkerId& worker, protocol::StageIndex stage, const StageState& state);
  void OnValidated(protocol::Version version, double loss);
  /// What a trainer that is to survive the loss of a region sees, when nobody has come, gone or
  /// moved for longer than it needs to decide.
  void OnSettled(const std::vector<protocol::StageLoad>& stages);
  /// A worker of a higher promise has carried out what a trainer of a lower term ordered.
  void OnControlCarriedOut(const WorkerId& worker, protocol::Term promised, protocol::Term term);

  std::uint64_t decisions() const { return decisions_; }

 private:
  using StepName = std::pair<protocol::Generation, protocol::Step>;
  struct ReduceName {
    StepName step;
    protocol::GroupIndex group;
    protocol::Attempt k;
    auto operator<=>(const ReduceName&) const = default;
  };
  struct ReduceState {
    std::size_t participants = 0;
    std::set<WorkerId> finished;
    std::vector<std::optional<Element>> sum;  ///< what any of them holds
    std::map<WorkerId, Shares> before;        ///< by participant
  };
  struct Application {
    Pid pid;
    protocol::StageIndex stage;
    protocol::CommitRecord record;
    Digest state;
  };
  /// No microbatch counts twice in a fragment of the weights that a member holds.
  void CheckShares(protocol::GroupIndex group, const protocol::CommitRecord& record);
  void CheckDecision(const protocol::CommitRecord& record, const std::vector<WorkerId>& members);
  /// It lives, and its name is in the newest roster.
  bool TakesPart(Pid pid) const;
  void CheckCounts(std::span<const Element> sum, protocol::GroupIndex group,
                   const std::string& what);

  World& world_;
  const Job& job_;
  const Reference& reference_;
  std::optional<Violation> violation_;
  protocol::Roster roster_;  // the newest that was told
  std::map<ReduceName, ReduceState> reduces_;
  std::map<StepName, std::vector<protocol::CommitRecord>> decided_;
  std::map<StepName, std::vector<Application>> applied_;
  /// By generation and group: what a step's sum had of the steps before it.
  std::map<std::pair<protocol::Generation, protocol::GroupIndex>, std::map<protocol::Step, Shares>>
      counted_;
  std::uint64_t decisions_ = 0;
};

}  // namespace swarm::simulation
