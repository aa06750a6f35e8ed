// The reduces of the step that is next to be committed: asks for sums whose microbatches are
// complete, and collects the reports of the participants (rules 8, 11, 12).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "worker/protocol/coordinator/membership/leaves.h"
#include "worker/protocol/coordinator/trouble.h"

namespace swarm::protocol {

class Reducing {
 public:
  Reducing(Job* job, Members* members, const BrokenPairs* broken, Trouble* trouble, Steps* steps,
           Leaves* leaves)
      : job_(*job),
        members_(*members),
        broken_(*broken),
        trouble_(*trouble),
        steps_(*steps),
        leaves_(*leaves) {}

  /// Asks for the sums of all groups whose stages are complete. At most one step is reduced at a
  /// time, which bounds memory.
  void AskForComplete(Turn& turn);
  void OnRefused(const WorkerId& from, const ReduceRefused& refused, Turn& turn);
  void OnReduced(const WorkerId& from, const Reduced& reduced, Turn& turn);
  void OnAwaiting(const WorkerId& from, const Awaiting& awaiting, Timepoint now);
  /// Asks again for sums that do not move, and then demands the eviction of a participant.
  void Check(Turn& turn);

 private:
  void Ask(Step step, StepState& state, const ReduceGroup& group, Turn& turn);
  /// The participants hold different sums: asks once more, and then demands the evictions of those
  /// that differ from most.
  void OnDisagreement(Step step, StepState& state, const ReduceGroup& group, Turn& turn);
  /// The worker holds another value of `what` than `than`. False: it is one too many, and the job
  /// has failed.
  bool EvictForSum(const WorkerId& id, const std::string& what, const char* than, Turn& turn);
  /// Who may hold parts of the stage from now on: replicas that stay. Beside one alone a leaver
  /// serves, so that there are two to compare.
  std::vector<WorkerId> ChooseCandidates(StageIndex stage) const;
  /// Two holders of a part have other sums: asks once more, and then demands the eviction of one.
  void OnPartsDiffer(Step step, StepState& state, const ReduceGroup& group,
                     const std::vector<std::uint64_t>& parts, Turn& turn);
  /// Two participants did not reach each other meanwhile.
  bool IsLost(const ReduceState& reduce, Timepoint now) const;
  /// The participant without which most of the others need not wait, by their reports. Without
  /// reports, one of those that have not reported their sum.
  WorkerId ChooseVictim(const ReduceState& reduce) const;

  Job& job_;
  Members& members_;
  const BrokenPairs& broken_;
  Trouble& trouble_;
  Steps& steps_;
  Leaves& leaves_;
  double seconds_ = 0;  // of a reduce, an average
};

}  // namespace swarm::protocol
