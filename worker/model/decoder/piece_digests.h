// The digests of a state on a device without bringing it to the host.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "worker/model/decoder/state_kernels.h"
#include "worker/model/decoder/state_memory.h"

namespace swarm::model {

class PieceDigests {
 public:
  /// On the thread that executes the stage. Both must outlive this.
  PieceDigests(StateMemory& memory, const StateKernels& kernels);

  /// The digests of so many pieces of checkpoint::kPieceBytes bytes, which lie in `from` one behind
  /// the other from the number `first` on, as they are behind the event. Waits for them. From any
  /// thread. Errors: as StateMemory::ReadBehind.
  Result<std::vector<Digest>> Behind(const device::Event& event, const StateBlock& from,
                                     std::uint64_t first, std::uint64_t pieces);

 private:
  StateMemory& memory_;
  const StateKernels& kernels_;
  std::mutex mutex_;  ///< one thread uses the memory at a time
  const StateBlock sums_, accumulators_;
};

}  // namespace swarm::model
