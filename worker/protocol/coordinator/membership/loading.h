// How a job begins: each stage gets its workers, they load the state to begin with, and when all
// have it, training starts.
#pragma once

#include <optional>
#include <string>

#include "worker/protocol/coordinator/membership/members.h"

namespace swarm::protocol {

class Loading {
 public:
  Loading(Job* job, Members* members) : job_(*job), members_(*members) {}

  /// While the job waits to begin: gives the worker a stage that lacks one, with the state to load.
  void Assign(const WorkerId& id, Worker& worker, Turn& turn);
  /// The same for all workers that wait.
  void AssignWaiting(Turn& turn);
  /// The worker has loaded its state, which must be that of the other replicas of its stage.
  void OnReady(const WorkerId& from, const Ready& ready, Turn& turn);
  /// Starts the training if all stages are staffed and have loaded. True if it did.
  bool StartTraining(Turn& turn);
  /// How many workers the stage lacks to begin with.
  std::uint64_t Lacks(StageIndex stage) const;
  /// A worker loads for each stage.
  bool IsStaffed() const;
  /// Demands the eviction of a worker that does not load in time.
  void Check(const WorkerId& id, const Worker& worker, Turn& turn) const;

 private:
  /// The stage that lacks most. A worker of a pod goes where the others of its pod are, but leaves
  /// the last place there to another pod as long as there are other places. None: no stage lacks
  /// any.
  std::optional<StageIndex> ChooseStage(const Member& member) const;
  /// Where workers are in several regions, the stage for one from `region`. If the job is to
  /// survive the loss of a region, a stage that is in another region alone goes first, and the last
  /// place of one that is in this region alone goes last. Else the one with which the fewest bytes
  /// cross. None: regions do not decide.
  std::optional<StageIndex> ChooseByRegion(const std::string& region) const;

  Job& job_;
  Members& members_;
};

}  // namespace swarm::protocol
