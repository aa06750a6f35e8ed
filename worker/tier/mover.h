// What moves the pieces of requests between a scratch file and memory: threads, or a ring of the
// kernel's.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
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

// `file` must outlive what is made.

/// kThreads threads, each with a piece of its own.
std::unique_ptr<Mover> MakeThreads(const ScratchFile& file);

/// A ring of io_uring with up to kRingPieces pieces in it, and a thread that fills and empties
/// their buffers. It has read from the file once, since some kernels make a ring and do not let it
/// be used. Errors: kFailedPrecondition (the kernel does not offer this here; the message says
/// how it refused).
Result<std::unique_ptr<Mover>> MakeRing(const ScratchFile& file);

}  // namespace swarm::tier
