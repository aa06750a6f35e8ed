// Reads the state of a stage beside its compute: its digest after a commit, and copies of it for
// joiners and checkpoints. It reads in place what model::Stage::State gives, so the next update of
// the stage waits for it, and nothing else does.
//
// Functions are called from any thread, in the order in which the compute thread got the states.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/loop.h"
#include "base/status.h"
#include "worker/checkpoint/tensor.h"
#include "worker/stage/memory/account.h"

namespace swarm::stage {

class StateReader {
 public:
  using State = std::vector<checkpoint::NamedTensor>;
  /// A state that stays. Its own memory is in the account as long as it lives; what a tier keeps
  /// for it (checkpoint::Keep) is not.
  struct Copy {
    State tensors;
    std::uint64_t bytes = 0;  ///< in memory
    MemoryCharge charge;
  };

  /// The account outlives this. `unreadable` is called instead of a `done` if a state cannot be
  /// read: its device has fallen off.
  StateReader(MemoryAccount* account, std::function<void(const Status&)> unreadable)
      : account_(*account), unreadable_(std::move(unreadable)) {}
  /// After it, nothing is read.
  void Stop() { loop_.Stop(); }

  /// Calls `done` with the digest of the state, as checkpoint::CutState computes it, on the thread
  /// of this.
  void ComputeDigest(State state, std::function<void(const Digest&)> done);
  /// The same, and the digests of parts of the stage beside it, each alone.
  void ComputeDigests(State state, std::vector<State> parts,
                      std::function<void(const Digest&, const std::vector<Digest>&)> done);
  /// Calls `done` with a copy, on the thread of this. The state is not held any more then, so
  /// `done` may read the copy as long as it likes.
  void MakeCopy(State state, std::function<void(std::shared_ptr<const Copy>)> done);
  /// States read so far, and those that wait for it or are being read. From any thread.
  std::uint64_t finished() const { return finished_.load(); }
  std::uint64_t queued() const { return queued_.load(); }
  /// Ready when all that was to be read so far has been read.
  std::shared_future<void> Drain();

 private:
  using Rest = std::function<void()>;
  /// Calls `read` on the thread of this. It lets go of the state, and returns what is left to do.
  void Post(State state, std::function<Result<Rest>(State)> read);

  MemoryAccount& account_;
  const std::function<void(const Status&)> unreadable_;
  std::atomic<std::uint64_t> finished_{0}, queued_{0};
  Loop loop_{"state"};
};

}  // namespace swarm::stage
