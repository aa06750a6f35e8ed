// For how long the workers of a job hold machines, also those that are gone by now. Pure: a value
// that an operator keeps between decisions, and may lose.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// What one operator has seen of the pods of one job, and of the machines that have joined it.
///
/// A pod holds its machine from when it was bound to a node, also while its image is pulled, until
/// its main container ended. Where nobody reported an end, because the node was lost or the pod was
/// removed by force, the end is when this operator first missed it. A pod that ended so before this
/// operator saw it at work has no tenure: nobody knows how long it was.
///
/// A machine that has joined is held while the trainer lists a worker of it; while the trainer says
/// nothing, as before, until its pod has ended. One that an operator finds at work when it begins
/// has been since the last count.
class Tenures {
 public:
  /// Takes note of what there is, and returns its tenures, and those of what is gone and not
  /// counted. `seen.tenures` does not matter.
  std::vector<Tenure> Look(const Observed& seen);

  /// Forgets what is gone: a status that counts it is written.
  void Counted() { gone_.clear(); }

 private:
  using ByHolder = std::map<std::string, Tenure>;  // by UID of a pod, or as machines are called

  void LookAtPods(const Observed& seen, ByHolder* before);
  void LookAtMachines(const Observed& seen, ByHolder* before);
  /// What is known of a holder that is visible.
  ByHolder::const_iterator Find(const std::string& holder, ByHolder* before);

  ByHolder held_;  // by what is visible
  ByHolder gone_;
  bool began_ = false;
};

}  // namespace swarm::plan
