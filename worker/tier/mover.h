// What moves the pieces of requests between a scratch file and memory.
#pragma once

#include <memory>
#include <vector>

#include "worker/tier/piece.h"
#include "worker/tier/scratch_file.h"

namespace swarm::tier {

/// Thread-safe.
class Mover {
 public:
  /// Finishes first what it was given.
  virtual ~Mover() = default;
  /// Begins to move them. Their requests hear of it on a thread of the mover.
  virtual void Move(std::vector<Piece> pieces) = 0;
};

/// kThreads threads, each with a piece of its own. `file` must outlive them.
std::unique_ptr<Mover> MakeThreads(const ScratchFile& file);

}  // namespace swarm::tier
