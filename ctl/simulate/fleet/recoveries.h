// How long the losses of machines are felt: until others have done again what they held.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/time.h"
#include "ctl/simulate/fleet/fleet_result.h"
#include "ctl/simulate/fleet/fleet_worker.h"

namespace swarm::ctl {

class Recoveries {
 public:
  /// A machine is gone, with these cells.
  void OnLost(const std::set<Cell>& cells, Timepoint now);
  /// Another worker has folded the cell.
  void OnFolded(const Cell& cell, Timepoint now);
  /// The step is committed, so all of its cells are folded.
  void OnCommitted(protocol::Generation generation, protocol::Step step, Timepoint now);
  /// The job goes back to a checkpoint.
  void OnRolledBack();

  RecoveryTimes Times() const;

 private:
  struct Loss {
    Timepoint since;
    std::size_t missing = 0;  ///< cells
  };
  void Settle(Loss& loss, Timepoint now);

  std::multimap<Cell, std::shared_ptr<Loss>> missing_;
  RecoveryTimes times_;
};

}  // namespace swarm::ctl
