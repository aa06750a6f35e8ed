#include "worker/trainer/pulses.h"

#include <algorithm>

namespace swarm::trainer {

using protocol::WorkerId;

namespace {

/// When the next beat is due; a number that is none counts as a short time.
Duration NextOf(const protocol::Heartbeat& beat) {
  const double longest = ToSeconds(protocol::FailureDetector::kPeriodMax);
  return FromSeconds(beat.next_seconds > 0 ? std::min(beat.next_seconds, longest) : 0);
}

}  // namespace

void Pulses::Forget(const WorkerId& worker) {
  pulses_.erase(worker);
  detector_.Forget(worker);
}

void Pulses::OnSignOfLife(const WorkerId& worker, const protocol::Heartbeat& beat, Timepoint now) {
  detector_.OnBeat(worker, now, NextOf(beat));
}

void Pulses::OnBeat(const WorkerId& worker, const protocol::Heartbeat& beat, Timepoint now) {
  OnSignOfLife(worker, beat, now);
  Pulse& pulse = pulses_[worker];
  const double seconds = ToSeconds(now - pulse.time);
  if (pulse.time != Timepoint() && seconds > 0) {
    // A second's worth of memory, whatever the rate of the beats.
    const double weight = std::min(1.0, seconds);
    const double busy = (beat.busy_seconds - pulse.beat.busy_seconds) / seconds;
    const double rate = static_cast<double>(beat.bytes_sent - pulse.beat.bytes_sent) / seconds;
    pulse.utilization += weight * (busy - pulse.utilization);
    pulse.bytes_per_second += weight * (rate - pulse.bytes_per_second);
  }
  pulse.time = now;
  pulse.beat = beat;
}

std::vector<WorkerId> Pulses::TakeSilent(Timepoint now) {
  std::vector<WorkerId> silent = detector_.Suspects(now);
  for (const WorkerId& worker : silent) Forget(worker);
  return silent;
}

void Pulses::Describe(protocol::JobStatus* status) const {
  for (protocol::StageStatus& stage : status->stages) {
    for (auto& worker : stage.workers) {
      const auto pulse = pulses_.find(worker.id);
      if (pulse == pulses_.end()) continue;
      worker.queued = pulse->second.beat.queued_tasks;
      worker.utilization = pulse->second.utilization;
      worker.bytes_per_second = pulse->second.bytes_per_second;
    }
  }
}

}  // namespace swarm::trainer
