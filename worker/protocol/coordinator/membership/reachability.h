// What the trainer does about workers that cannot reach each other: it sends them on detours, and
// where there is none it evicts the fewest workers that serve the others (rule 28).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/coordinator/membership/members.h"
#include "worker/protocol/reachability/broken_pairs.h"

namespace swarm::protocol {

class Reachability {
 public:
  Reachability(Job* job, Members* members) : job_(*job), members_(*members) {}

  void OnUnheard(const WorkerId& from, const Unheard& unheard, Turn& turn);
  /// The worker is gone.
  void Lose(const WorkerId& worker);
  /// A generation begins: workers forget their detours and which neighbours they have reported.
  void Clear();
  /// Orders the detours that follow from the reports and from the roster, if they have changed.
  /// Once for many reports: a worker that is cut off is reported by all its neighbours.
  void Refresh(Turn& turn);
  /// Demands the eviction of a worker if a pair has had no detour for a while.
  void Check(Turn& turn);

  /// The pairs for which the job waits, for people; empty: none.
  std::string DescribeWait() const;
  const BrokenPairs& broken() const { return broken_; }

 private:
  /// Whether the two exchange data.
  bool Need(const WorkerPair& pair) const;
  void Plan(Turn& turn);
  /// Whether both are of a stage whose replicas hold parts for each other (rule 31).
  bool SharesParts(const WorkerPair& pair) const;
  /// Microbatches of a step that the worker would leave to others, about.
  std::size_t ShareOf(const WorkerId& worker) const;

  Job& job_;
  Members& members_;
  BrokenPairs broken_;
  DetourPlan plan_;
  Epoch planned_for_;
  bool reported_ = false;                            // a change since the plan was made
  std::map<WorkerId, std::vector<Detour>> detours_;  // as workers were told
  std::map<WorkerPair, Timepoint> unserved_;         // since when
};

}  // namespace swarm::protocol
