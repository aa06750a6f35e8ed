// The workers of a job, as a decision finds them: what is known of each ordinal that was given out
// and whose end is not counted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/evidence.h"
#include "operator/plan/observed.h"

namespace swarm::plan {

/// A worker that shall live.
struct Worker {
  std::uint64_t ordinal = 0;
  std::string name;
  const ObservedPod* pod = nullptr;  ///< null: reserved, and not to be seen yet
  std::string pool;                  ///< empty: not known, then nothing is done about it now
  Judgement judgement;
  bool ready = false;    ///< serves its stage, and stays there
  bool leaving = false;  ///< hands over, and then ends
  std::optional<std::uint64_t> stage;

  bool placed() const { return pod != nullptr && !pod->node.empty(); }
  bool gated() const { return pod != nullptr && pod->gated && pod->node.empty(); }
  bool lives() const { return judgement.health == Health::kLives; }
  /// Counts for the wanted number.
  bool stays() const { return lives() && !leaving; }
};

struct Workforce {
  std::vector<Worker> workers;          ///< open, ascending by ordinal; `pod` points into Observed
  std::vector<std::uint64_t> refused;   ///< the API server did not take them: have never been
  std::vector<std::uint64_t> vanished;  ///< gone, or never created: nobody can tell
  std::vector<const ObservedPod*> closed;  ///< workers' pods that are not open: to be deleted
  /// When one that was reserved and is not to be seen is given up; none: there is no such one.
  std::optional<WallTime> look_again;

  std::uint64_t staying() const;
};

Workforce Gather(const Observed& observed);

/// This operator's try to create a pod that is not to be seen; null: there was none.
const Creation* FindCreation(const Observed& observed, PodRole role, std::uint64_t number);

/// When a number that was given out, and whose pod is not to be seen, counts as gone. None: at
/// once, for this operator has seen its pod.
std::optional<WallTime> GivenUpAt(const Observed& observed, PodRole role, std::uint64_t number);

}  // namespace swarm::plan
