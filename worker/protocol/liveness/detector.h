// Tells which workers have been silent for too long. The transport sees a broken stream at once.
// The detector finds the failures that leave sockets open: a stopped process, a cut cable, a dead
// machine. The trainer uses it. Pure: the caller passes the time, and there is no thread.
//
// The silence that is allowed to a worker follows its own heartbeats: the period, plus a multiple
// of the lateness of its beats (root mean square), between `floor` and `limit`. One late beat is
// enough to raise it, and it falls over minutes, because late packets come in spells. A worker of a
// large swarm sends beats less often, and says with each beat when the next one comes.
// bench/detector_bench.cc measures the false alarms and the time to detection.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// Between two heartbeats of a worker in a swarm of so many members: 250 ms, or so many times that
/// long that a trainer gets at most 250 a second on each of the two connections, from all together.
/// 0: there is no roster yet, and a second is soon enough, however many begin at once.
Duration HeartbeatPeriod(std::size_t members);

struct DetectorOptions {
  /// Between two beats of a healthy worker that does not say otherwise.
  Duration period = std::chrono::milliseconds(250);
  /// Silence that is always allowed: a busy machine may delay a thread for so long.
  Duration floor = std::chrono::milliseconds(1250);
  /// The most silence that is ever allowed. A worker without beats so far is allowed all of it.
  /// With a beat that took 200 ms to arrive, and a tick, detection stays below 3 s.
  Duration limit = std::chrono::milliseconds(2750);
  /// The caller asks for suspects at least this often.
  Duration tick = std::chrono::milliseconds(100);
  /// A caller that has not asked for so long was itself stopped or starved, and heard no worker.
  Duration watcher_pause = std::chrono::milliseconds(300);
};

/// Requires that the caller calls Suspects at NextDeadline or soon after, so at least every `tick`.
/// A time before the latest one counts as the latest one.
class FailureDetector {
 public:
  explicit FailureDetector(DetectorOptions options = {});

  /// Begins to watch the worker, as if it had just sent a beat; anew if it is watched already.
  void Watch(const WorkerId& worker, Timepoint now) { Watch(worker, now, options_.period); }
  /// The same of a worker whose first beat comes after `first`, for the connection is not open yet.
  void Watch(const WorkerId& worker, Timepoint now, Duration first);
  /// Stops watching the worker, if it is watched.
  void Forget(const WorkerId& worker);
  /// A heartbeat of the worker came. The caller may report other messages as well: they end a
  /// silence, and do not change the measured lateness, because they are early. Ignored if the
  /// worker is not watched.
  void OnBeat(const WorkerId& worker, Timepoint now) { OnBeat(worker, now, options_.period); }
  /// The same of a worker that will send the next beat after `next`. A longer time than kPeriodMax
  /// counts as that. All silence that is allowed grows by what `next` is longer than the period.
  void OnBeat(const WorkerId& worker, Timepoint now, Duration next);
  static constexpr Duration kPeriodMax = std::chrono::seconds(30);

  /// The watched workers that have been silent for longer than is allowed to them, sorted. A worker
  /// stays in the answer until its next beat or until it is forgotten.
  ///
  /// More than `watcher_pause` between two calls of this object does not count as silence: workers
  /// may have sent beats to a stopped process.
  std::vector<WorkerId> Suspects(Timepoint now);
  /// When to call Suspects next: at the next possible suspicion, at most a tick after the last
  /// call.
  Timepoint NextDeadline() const;

  /// The silence that is allowed to the worker now; `limit` if it is not watched.
  Duration Allowed(const WorkerId& worker) const;

 private:
  struct Watched {
    Duration heard{};        // in watched time
    Duration period{};       // until the next beat is due
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
