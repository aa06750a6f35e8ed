// A stage without a ready replica: the job stops, and goes on from its last checkpoint, as a new
// generation, when all stages can be staffed (rule 19).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/protocol/coordinator/membership/members.h"

namespace swarm::protocol {

class Rollbacks {
 public:
  Rollbacks(Job* job, Members* members) : job_(*job), members_(*members) {}

  /// The job cannot go on: it waits for workers.
  void Stop(StageIndex lost, Turn& turn);
  /// A worker has failed. If the job was about to begin with a checkpoint, it does not before the
  /// trainer has looked at that.
  void Doubt(Turn& turn);
  /// Begins a generation if there is a worker for each stage. Does nothing outside of
  /// Phase::kStageLost.
  void BeginIfStaffed(Turn& turn);
  /// The generation is durable, and begins with this state.
  void OnBegun(Generation generation, Version version, const std::string& uri,
               const Digest& manifest, Turn& turn);

 private:
  /// The workers of each stage, where each empty stage gets a waiting worker or one of the largest
  /// stage. Nothing if there are too few.
  std::optional<std::vector<std::vector<WorkerId>>> Staff() const;

  Job& job_;
  Members& members_;
  bool doubted_ = false;  // the state that the generation began with
};

}  // namespace swarm::protocol
