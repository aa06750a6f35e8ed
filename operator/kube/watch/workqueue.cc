#include "operator/kube/watch/workqueue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"

namespace swarm::kube {

WorkQueueRules::WorkQueueRules(const WorkQueueOptions& options)
    : options_(options), bucket_(options.adds_per_second, options.burst) {}

void WorkQueueRules::Add(const std::string& key, Timepoint now) {
  if (!dirty_.emplace(key, now).second) return;
  ++adds_;
  // A key that is held is enqueued at the end of that.
  if (!IsHeld(key)) ready_.push_back(key);
}

void WorkQueueRules::AddAt(const std::string& key, Timepoint when) {
  const auto [at, is_new] = delayed_.emplace(key, when);
  if (!is_new) {
    if (at->second <= when) return;
    due_.erase({at->second, key});
    at->second = when;
  }
  due_.emplace(when, key);
}

Duration WorkQueueRules::PauseAfter(int failures) const {
  // Beyond 2^40, every pause is the longest one.
  const double factor = std::exp2(std::min(failures, 40));
  return FromSeconds(
      std::min(ToSeconds(options_.first_pause) * factor, ToSeconds(options_.longest_pause)));
}

void WorkQueueRules::AddRateLimited(const std::string& key, Timepoint now) {
  ++retries_;
  const Duration own = PauseAfter(failures_[key]++);
  AddAt(key, now + std::max(own, bucket_.Reserve(now)));
}

void WorkQueueRules::Forget(const std::string& key) { failures_.erase(key); }

int WorkQueueRules::Failures(const std::string& key) const {
  const auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second;
}

std::optional<std::string> WorkQueueRules::Take(Timepoint now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const std::string key = due_.begin()->second;
    due_.erase(due_.begin());
    delayed_.erase(key);
    Add(key, now);
  }
  while (!rested_.empty() && rested_.begin()->first <= now) {
    const std::string key = rested_.begin()->second;
    rested_.erase(rested_.begin());
    resting_.erase(key);
    if (dirty_.contains(key)) ready_.push_back(key);
  }
  if (ready_.empty()) return std::nullopt;
  std::string key = std::move(ready_.front());
  ready_.pop_front();
  const auto dirty = dirty_.extract(key);
  queue_seconds_.Observe(ToSeconds(now - dirty.mapped()));
  processing_.emplace(key, now);
  return key;
}

void WorkQueueRules::Done(const std::string& key, Timepoint now, Duration rest) {
  const auto processing = processing_.extract(key);
  SWARM_CHECK(!processing.empty(), "Done for a key that was not taken: " + key);
  work_seconds_.Observe(ToSeconds(now - processing.mapped()));
  if (rest > Duration::zero()) {
    resting_.insert(key);
    rested_.emplace(now + rest, key);
  } else if (dirty_.contains(key)) {
    ready_.push_back(key);
  }
}

std::optional<Timepoint> WorkQueueRules::NextDue() const {
  std::optional<Timepoint> next;
  for (const auto* times : {&due_, &rested_}) {
    if (!times->empty()) next = std::min(next.value_or(Timepoint::max()), times->begin()->first);
  }
  return next;
}

WorkQueueRules::Reading WorkQueueRules::Read(Timepoint now) const {
  Reading reading;
  reading.depth = ready_.size();
  reading.adds = adds_;
  reading.retries = retries_;
  for (const auto& [key, since] : processing_) {
    const double seconds = ToSeconds(now - since);
    reading.unfinished_seconds += seconds;
    reading.longest_running_seconds = std::max(reading.longest_running_seconds, seconds);
  }
  reading.queue_seconds = queue_seconds_.Read();
  reading.work_seconds = work_seconds_.Read();
  return reading;
}

WorkQueue::WorkQueue(const WorkQueueOptions& options, Timing& timing)
    : timing_(timing), rules_(options) {}

void WorkQueue::Add(const std::string& key) {
  const std::lock_guard lock(mutex_);
  rules_.Add(key, timing_.Now());
  changed_.notify_one();
}

void WorkQueue::AddAfter(const std::string& key, Duration delay) {
  if (delay <= Duration::zero()) return Add(key);
  const std::lock_guard lock(mutex_);
  rules_.AddAt(key, timing_.Now() + delay);
  changed_.notify_one();  // a waiting thread may have to wake earlier
}

void WorkQueue::AddRateLimited(const std::string& key) {
  const std::lock_guard lock(mutex_);
  rules_.AddRateLimited(key, timing_.Now());
  changed_.notify_one();
}

void WorkQueue::Forget(const std::string& key) {
  const std::lock_guard lock(mutex_);
  rules_.Forget(key);
}

int WorkQueue::Failures(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return rules_.Failures(key);
}

std::optional<std::string> WorkQueue::Get(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  // The rules are checked before each wait, so spurious wake-ups are harmless.
  while (!stop.stop_requested()) {
    if (auto key = rules_.Take(timing_.Now())) return key;
    const auto due = rules_.NextDue();
    const auto woken = [&] { return rules_.has_ready() || rules_.NextDue() != due; };
    if (due) {
      changed_.wait_until(lock, stop, *due, woken);
    } else {
      changed_.wait(lock, stop, woken);
    }
  }
  return std::nullopt;
}

void WorkQueue::Done(const std::string& key, Duration rest) {
  const std::lock_guard lock(mutex_);
  rules_.Done(key, timing_.Now(), rest);
  changed_.notify_one();
}

WorkQueue::Reading WorkQueue::Read() const {
  const std::lock_guard lock(mutex_);
  return rules_.Read(timing_.Now());
}

}  // namespace swarm::kube
