// For how long the pods of a job's workers hold machines, also pods that are gone by now. Pure: a
// value that an operator keeps between decisions, and may lose.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// What one operator has seen of the pods of one job.
///
/// A pod holds its machine from when it was bound to a node, also while its image is pulled, until
/// its main container ended. Where nobody reported an end, because the node was lost or the pod was
/// removed by force, the end is when this operator first missed it. A pod that ended so before this
/// operator saw it at work has no tenure: nobody knows how long it was.
class Tenures {
 public:
  /// Takes note of the pods that are visible, and returns the tenures of these and of those that
  /// are gone and not counted.
  std::vector<Tenure> Look(const std::vector<ObservedPod>& pods, WallTime now);

  /// Forgets the pods that are gone: a status that counts them is written.
  void Counted() { gone_.clear(); }

 private:
  std::map<std::string, Tenure> held_;  // of the visible pods, by UID
  std::map<std::string, Tenure> gone_;
};

}  // namespace swarm::plan
