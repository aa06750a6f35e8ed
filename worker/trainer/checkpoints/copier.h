// Brings a job's checkpoints from home to the storage of a region, in the background.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "base/status.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/storage/places.h"

namespace swarm::trainer {

/// What came of a copy.
struct CopyReport {
  storage::Place place = {};
  std::string checkpoint = {};  ///< the name of its folder; empty: home's cannot be listed
  Status status = {};           ///< kCancelled: given up because the trainer ends
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::string Text() const;  ///< for people
};

/// Copies the newest checkpoint alone, and removes from the place what home would not keep. A copy
/// that fails is made with the next call. Calls may come from any thread.
class Copier {
 public:
  /// `tell` is called on a thread of this for each copy that was made, or was not.
  Copier(const api::SwarmJob& job, storage::Place place,
         std::function<void(const CopyReport&)> tell);
  ~Copier() { Abandon(); }

  /// Begins to copy the newest checkpoint, unless a call that waits will do so.
  void Copy();
  /// Calls `done` behind all that was begun.
  void WhenDone(std::function<void()> done);
  /// Gives up what was begun, at the next part of a file.
  void Abandon() { abandoned_ = true; }

 private:
  void CopyNewest();
  /// Refuses a place that holds another job's checkpoints, of which old ones would be removed.
  Status CheckOwner(storage::Storage& copies) const;

  const api::SwarmJob job_;
  const storage::Place place_;
  const std::function<void(const CopyReport&)> tell_;
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> waiting_{false};
  Loop loop_;
};

}  // namespace swarm::trainer
