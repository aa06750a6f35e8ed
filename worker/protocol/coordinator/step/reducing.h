// The reduces of the step that is next to be committed: asks for sums whose microbatches are
// complete, and collects the reports of the participants (rules 8, 11, 12).
#pragma once

#include <map>
#include <vector>

#include "worker/protocol/coordinator/membership/leaves.h"

namespace swarm::protocol {

class Reducing {
 public:
  Reducing(Job* job, Members* members, Steps* steps, Leaves* leaves)
      : job_(*job), members_(*members), steps_(*steps), leaves_(*leaves) {}

  /// Asks for the sums of all groups whose stages are complete. At most one step is reduced at a
  /// time, which bounds memory.
  void AskForComplete(Turn& turn);
  void OnRefused(const WorkerId& from, const ReduceRefused& refused, Turn& turn);
  void OnReduced(const WorkerId& from, const Reduced& reduced, Turn& turn);
  /// Asks again for sums that are late, and then demands the eviction of a participant.
  void Check(Turn& turn);

 private:
  void Ask(Step step, StepState& state, const ReduceGroup& group, Turn& turn);
  /// Without one of the silent participants the others may be able to go on. It comes back, so the
  /// choice matters little, except for the contributions that go with it.
  const WorkerId& ChooseVictim(const ReduceState& reduce) const;

  Job& job_;
  Members& members_;
  Steps& steps_;
  Leaves& leaves_;
  double seconds_ = 0;  // of a reduce, an average
};

}  // namespace swarm::protocol
