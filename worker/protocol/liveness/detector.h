// Tells which workers have been silent for too long. A broken stream is seen at once by the
// transport; this is for what keeps its sockets: a stopped process, a cut cable, a dead machine.
// Used by whoever hears heartbeats (the trainer). Pure: time is passed in, no thread of its own.
//
// What is allowed to each worker follows its own heartbeats: the period, plus a multiple of how
// late its beats have been (root mean square), between `floor` and `limit`. Lateness is learned
// from one bad beat and forgotten over minutes, because losses come in spells. See
// bench/detector_bench.cc for the false alarms and the time to detection that this gives.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

struct DetectorOptions {
  /// Between two beats of a healthy worker.
  Duration period = std::chrono::milliseconds(250);
  /// Silence that is always allowed: what a busy machine may do to a thread.
  Duration floor = std::chrono::milliseconds(1250);
  /// Silence that is never allowed, and all of it to a worker that is not known yet. With a beat
  /// that was 200 ms on its way and a tick, detection stays below 3 s.
  Duration limit = std::chrono::milliseconds(2750);
  /// The watcher asks at least this often.
  Duration tick = std::chrono::milliseconds(100);
  /// If it has not for so long, then it was itself stopped or starved, and could hear nobody.
  Duration watcher_pause = std::chrono::milliseconds(300);
};

/// Requires of the caller: Suspects at NextDeadline or soon after (so at least every `tick`). Times
/// that go backwards count as the latest seen.
class FailureDetector {
 public:
  explicit FailureDetector(DetectorOptions options = {});

  /// Begins to watch the worker, as if it had just been heard; anew if it is watched already.
  void Watch(const WorkerId& worker, Timepoint now);
  /// No longer watches it. Nothing happens if it is not watched.
  void Forget(const WorkerId& worker);
  /// The worker was heard: a heartbeat. Other messages may be told as well: they shorten its
  /// silence, and being early they teach nothing about lateness. Ignored if it is not watched.
  void OnBeat(const WorkerId& worker, Timepoint now);

  /// The watched workers that have been silent for longer than is allowed to them, sorted. They
  /// stay in the answer until they are heard again or forgotten.
  ///
  /// Time in which the watcher did not watch (more than `watcher_pause` between two calls of this
  /// object) is no silence of the workers: they may have spoken to a stopped process.
  std::vector<WorkerId> Suspects(Timepoint now);
  /// When to call Suspects next: at the next possible suspicion, at most a tick after the last
  /// call.
  Timepoint NextDeadline() const;

  /// The silence that is allowed to the worker now; `limit` if it is not watched.
  Duration Allowed(const WorkerId& worker) const;

 private:
  struct Watched {
    Duration heard{};        // in watched time
    double mean_square = 0;  // of lateness, s²
    std::uint64_t beats = 0;
  };

  /// The time that has been watched until `now`: time without the watcher's pauses.
  Duration Advance(Timepoint now);
  Duration Allowed(const Watched& watched) const;

  DetectorOptions options_;
  std::map<WorkerId, Watched> watched_;
  bool started_ = false;
  Timepoint last_call_{};
  Duration time_{};  // watched time at last_call_
};

}  // namespace swarm::protocol
