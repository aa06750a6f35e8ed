// Workers that leave in order: they hand the sums of open steps to an heir, and end or move (rules
// 16 and 18).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/protocol/coordinator/membership/rebalancing.h"
#include "worker/protocol/coordinator/step/steps.h"
#include "worker/protocol/coordinator/step/validation.h"

namespace swarm::protocol {

class Leaves {
 public:
  Leaves(Job* job, Members* members, const BrokenPairs* broken, Router* router, Steps* steps,
         Validation* validation, Rebalancing* rebalancing)
      : job_(*job),
        members_(*members),
        broken_(*broken),
        router_(*router),
        steps_(*steps),
        validation_(*validation),
        rebalancing_(*rebalancing) {}

  /// The worker says that it will be ended.
  void OnLeaving(const WorkerId& from, const Leaving& leaving, Turn& turn);
  /// An operator wants the worker to end. Returns the reason if that is impossible, else nothing.
  std::string Drain(const WorkerId& id, Turn& turn);
  /// Takes the next step towards the worker's leave. Once all is handed over, returns the adoptions
  /// of its heirs: then the worker can go. Requires that it leaves, and is ready.
  std::optional<std::vector<Adoption>> Advance(const WorkerId& id, Turn& turn);
  void OnParcelHeld(const WorkerId& from, const ParcelHeld& held, Turn& turn);
  /// The worker is gone: its donors thaw their sums, and go on until there is another heir.
  void LoseHeir(const WorkerId& heir, Turn& turn);
  /// The step is committed: drops its parcels.
  void OnCommitted(Step step);
  /// Demands the eviction of a worker that cannot hand over in time. True if the worker leaves.
  bool Check(const WorkerId& id, const Worker& worker, Turn& turn) const;

  /// A replica of the stage hands the step's sums over, or will: they must not be frozen now.
  bool IsHandedOver(Step step, StageIndex stage) const;

 private:
  /// The worker must end by the deadline; a move becomes an end.
  void Begin(Worker& worker, Timepoint deadline);
  /// A worker that holds nothing of the job ends at once.
  void EndAtOnce(const WorkerId& id, const std::string& to_it, const std::string& why, Turn& turn);
  /// Asks for the parcel of the step, or asks again; true if the heir holds it.
  bool HandOverStep(const WorkerId& id, const WorkerId& heir, Step step, Turn& turn);
  /// Whether the worker still has work to do before its sums are final.
  bool IsBusy(const WorkerId& id, StageIndex stage, const StepState& state) const;

  Job& job_;
  Members& members_;
  const BrokenPairs& broken_;
  Router& router_;
  Steps& steps_;
  Validation& validation_;
  Rebalancing& rebalancing_;
};

}  // namespace swarm::protocol
