// Heartbeats of one worker over a bad network, in virtual time, against the real detector: for its
// tests and its benchmark. Deterministic for a seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "worker/protocol/liveness/detector.h"

namespace swarm::protocol {

struct BadNetwork {
  double jitter_seconds = 0;  ///< each transmission takes 0 to this much, evenly distributed
  double loss = 0;            ///< fraction of transmissions that are lost, independently
  /// What a loss does: the beat is gone (a datagram), or it and all behind it wait for its
  /// retransmission, after a timeout that doubles each time (TCP).
  bool retransmits = false;
  double retransmit_seconds = 0.2;
  /// Independent connections on which each beat is sent; any one of them is enough.
  int connections = 1;
};

/// When the beats of one connection arrive, in order.
class BeatArrivals {
 public:
  BeatArrivals(const BadNetwork& network, std::uint64_t key)
      : network_(network), rng_(key), sent_(rng_.Uniform() * kPeriod) {}

  /// The next arrival, in seconds, of beats sent before `end`; `end` + 1e9 when there is none.
  double Next(double end) {
    while (sent_ < end) {
      const double sent = sent_;
      sent_ += kPeriod;
      double delay = 0;
      bool lost = rng_.Uniform() < network_.loss;
      if (lost && !network_.retransmits) continue;
      for (double timeout = network_.retransmit_seconds; lost; timeout *= 2) {
        delay += timeout;
        lost = rng_.Uniform() < network_.loss;
      }
      last_ = std::max(last_, sent + delay + rng_.Uniform() * network_.jitter_seconds);
      return last_;
    }
    return end + 1e9;
  }

 private:
  static constexpr double kPeriod = 0.25;
  const BadNetwork network_;
  Rng rng_;
  double sent_;
  double last_ = 0;
};

struct DetectorOutcome {
  std::uint64_t false_alarms = 0;  ///< spells of silence in which a living worker was suspected
  double detection_seconds = 0;    ///< from its death to the suspicion
};

/// A worker that lives for `seconds` and dies; its last transmissions may still arrive. The watcher
/// asks at each deadline that the detector names.
inline DetectorOutcome SimulateHeartbeats(const BadNetwork& network, double seconds,
                                          std::uint64_t seed) {
  const WorkerId worker("w");
  const Timepoint start{};
  FailureDetector detector;
  detector.Watch(worker, start);
  std::vector<BeatArrivals> connections;
  std::vector<double> next;
  for (int c = 0; c < network.connections; ++c) {
    connections.emplace_back(network, MixAll(seed, c));
    next.push_back(connections.back().Next(seconds));
  }
  DetectorOutcome outcome;
  Timepoint deadline = detector.NextDeadline();
  bool suspected = false;
  while (true) {
    const auto first = std::min_element(next.begin(), next.end());
    // Retransmissions die with the machine.
    if (*first > seconds + network.jitter_seconds) break;
    const Timepoint arrival = start + FromSeconds(*first);
    for (; deadline < arrival; deadline = detector.NextDeadline()) {
      const bool alarm = !detector.Suspects(deadline).empty();
      if (alarm && !suspected) ++outcome.false_alarms;
      suspected = alarm;
    }
    detector.OnBeat(worker, arrival);
    suspected = false;
    deadline = detector.NextDeadline();
    *first = connections[static_cast<std::size_t>(first - next.begin())].Next(seconds);
  }
  while (detector.Suspects(deadline).empty()) deadline = detector.NextDeadline();
  outcome.detection_seconds = ToSeconds(deadline - start) - seconds;
  return outcome;
}

}  // namespace swarm::protocol
