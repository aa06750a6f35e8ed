// The digests of a state on a device without bringing it to the host.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "worker/model/decoder/state_kernels.h"
#include "worker/model/decoder/state_memory.h"

namespace swarm::model {

/// Pieces of checkpoint::kPieceBytes bytes that lie in a block one behind the other, from the
/// number `first` on.
struct PieceRun {
  StateBlock block;
  std::uint64_t first = 0, pieces = 0;
};

class PieceDigests {
 public:
  /// On the thread that executes the stage. Both must outlive this.
  PieceDigests(StateMemory& memory, const StateKernels& kernels);

  /// The digests of all pieces, run by run, as they are behind the event. Waits for them. From any
  /// thread. Errors: as StateMemory::ReadBehind.
  Result<std::vector<Digest>> Behind(const device::Event& event, std::span<const PieceRun> runs);

 private:
  /// The same of a part of the runs that fits the memory.
  Status Add(const device::Event& event, std::span<const PieceRun> runs,
             std::vector<Digest>* digests);

  StateMemory& memory_;
  const StateKernels& kernels_;
  std::mutex mutex_;  ///< one thread uses the memory at a time
  const StateBlock sums_, accumulators_;
};

/// The pieces of a state's tensors, whose digests are computed together when the first is wanted.
/// One thread uses it at a time.
class ExpectedPieces {
 public:
  /// `digests` must outlive this.
  ExpectedPieces(PieceDigests& digests, device::Event behind)
      : digests_(digests), behind_(std::move(behind)) {}

  /// Gives the number of the first of the pieces.
  std::size_t Expect(PieceRun run);
  /// Null where the device fails: the error comes again where the piece is read.
  const Digest* At(std::size_t piece);

 private:
  PieceDigests& digests_;
  const device::Event behind_;
  std::vector<PieceRun> runs_;
  std::size_t expected_ = 0;
  std::vector<Digest> known_;  ///< of all, or none
};

}  // namespace swarm::model
