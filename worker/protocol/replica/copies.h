// Copies of the state that the trainer asks for: for a checkpoint, or pinned for joiners (rules 17,
// 20).
#pragma once

#include <vector>

#include "worker/protocol/replica/commit_queue.h"

namespace swarm::protocol {

class Copies {
 public:
  Copies(Standing* standing, CommitQueue* commits) : standing_(*standing), commits_(*commits) {}

  Actions OnWriteCheckpoint(const WriteCheckpoint& request);
  Actions OnPinState(const PinState& request);
  Actions OnUnpinState(const UnpinState& request);
  /// Takes the copies that waited for this version, before anything can change it.
  Actions OnVersion();
  /// The trainer that asked for them is gone.
  void Clear();

 private:
  /// The state is of this version now.
  bool IsHere(Version version) const {
    return version == standing_.version && !commits_.is_applying();
  }

  Standing& standing_;
  CommitQueue& commits_;
  std::vector<WriteCheckpoint> checkpoints_;  // of versions not reached yet
  std::vector<PinState> pins_;
};

}  // namespace swarm::protocol
