// Moments at which a worker waits, so that a fault can happen at that moment: when it begins its
// part of a phase of a step. For experiments and tests (`swarmctl run --chaos`, "at reduce of step
// 7").
//
// The file of fault_rules.h has them, one a line: `hold WORKER PHASE STEP`. A worker that waits
// reports it in a file beside that file, and continues when its line is removed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "worker/protocol/ids.h"

namespace swarm::chaos {

/// What a worker computes of a step, in this order.
enum class WorkPhase : std::uint8_t { kForward, kBackward, kReduce, kCommit };
/// "forward", "backward", "reduce", "commit".
std::string_view NameOf(WorkPhase phase);
std::optional<WorkPhase> FindWorkPhase(std::string_view name);

/// The worker waits as it begins this phase of the step, or of the first later one in which it has
/// a part in that phase.
struct Hold {
  std::string worker;
  WorkPhase phase{};
  std::uint64_t step = 0;
  bool operator==(const Hold&) const = default;
};

std::string FormatHolds(const std::vector<Hold>& holds);
/// The holds among the lines of `text`; others are fault_rules.h's. Errors: kInvalidArgument names
/// the line.
Result<std::vector<Hold>> ParseHolds(std::string_view text);

/// The file with FormatHolds of the hold that `worker` waits in. It exists only while the worker
/// waits.
std::string HeldFile(const std::string& rules_file, const std::string& worker);

/// The worker's side. Used from one thread, which it blocks.
class HoldPoint {
 public:
  HoldPoint(std::string rules_file, protocol::WorkerId self);

  /// Returns at once unless the file holds this worker here. Otherwise waits until the line is
  /// removed, for ten seconds at most.
  void Pass(WorkPhase phase, protocol::Step step);

 private:
  /// The first hold in the file for this worker at this point that the worker has not passed yet.
  std::optional<Hold> Find(WorkPhase phase, protocol::Step step) const;

  const std::string rules_file_;
  const std::string self_;
  std::vector<Hold> passed_;
};

}  // namespace swarm::chaos
