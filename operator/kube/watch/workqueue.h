// A queue of keys to work on. Each key waits at most once, and at most one thread works on it at a
// time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "base/histogram.h"
#include "operator/kube/client/retry.h"
#include "operator/kube/timing/timing.h"

namespace swarm::kube {

struct WorkQueueOptions {
  /// The pause of AddRateLimited doubles with each failure of a key in a row.
  Duration first_pause = std::chrono::milliseconds(5);
  Duration longest_pause = std::chrono::seconds(1000);
  /// The rate of AddRateLimited for all keys together.
  double adds_per_second = 10;
  double burst = 100;
};

/// The rules of the queue. Not thread-safe; time is a parameter. The number of keys bounds its
/// size.
///
/// A key is dirty if it must be worked on, processing while a thread works on it, and resting for a
/// while after that. `ready_` contains exactly the keys that are dirty and neither processing nor
/// resting, in the order in which they became so.
class WorkQueueRules {
 public:
  explicit WorkQueueRules(const WorkQueueOptions& options);

  void Add(const std::string& key, Timepoint now);
  /// Adds the key at `when`. If a key has several such times, the earliest one counts.
  void AddAt(const std::string& key, Timepoint when);
  /// Adds the key after a failure, when its pause has passed and the common rate allows it.
  void AddRateLimited(const std::string& key, Timepoint now);
  void Forget(const std::string& key);
  int Failures(const std::string& key) const;

  /// Makes the delayed keys that are due ready, and those that have rested. Then takes the next
  /// ready key, if there is one.
  std::optional<std::string> Take(Timepoint now);
  /// The key rests until `now` + `rest`.
  void Done(const std::string& key, Timepoint now, Duration rest = {});
  /// When the next delayed key is due, or one has rested.
  std::optional<Timepoint> NextDue() const;
  bool has_ready() const { return !ready_.empty(); }

  struct Reading {
    std::size_t depth = 0;
    std::uint64_t adds = 0;
    std::uint64_t retries = 0;
    double unfinished_seconds = 0;  ///< of all keys that are processing
    double longest_running_seconds = 0;
    HistogramReading queue_seconds;  ///< from Add to Take
    HistogramReading work_seconds;   ///< from Take to Done
  };
  Reading Read(Timepoint now) const;

 private:
  Duration PauseAfter(int failures) const;
  bool IsHeld(const std::string& key) const {
    return processing_.contains(key) || resting_.contains(key);
  }

  const WorkQueueOptions options_;
  TokenBucket bucket_;
  std::deque<std::string> ready_;
  std::map<std::string, Timepoint> dirty_;           // since
  std::map<std::string, Timepoint> processing_;      // since
  std::map<std::string, Timepoint> delayed_;         // until
  std::set<std::pair<Timepoint, std::string>> due_;  // delayed_ by time
  std::set<std::string> resting_;
  std::set<std::pair<Timepoint, std::string>> rested_;  // resting_ by the time of its end
  std::map<std::string, int> failures_;
  std::uint64_t adds_ = 0;
  std::uint64_t retries_ = 0;
  SecondsHistogram queue_seconds_;
  SecondsHistogram work_seconds_;
};

/// Thread-safe.
class WorkQueue {
 public:
  using Reading = WorkQueueRules::Reading;

  /// `timing` must outlive the queue.
  WorkQueue(const WorkQueueOptions& options, Timing& timing);

  void Add(const std::string& key);
  void AddAfter(const std::string& key, Duration delay);
  void AddRateLimited(const std::string& key);
  /// The key succeeded: its next failure counts as the first.
  void Forget(const std::string& key);
  int Failures(const std::string& key) const;

  /// Waits for a key and takes it; Done must follow. None: `stop` was requested.
  std::optional<std::string> Get(std::stop_token stop);
  /// The key may be taken again after `rest`: what comes for it meanwhile is worked on at once.
  void Done(const std::string& key, Duration rest = {});

  Reading Read() const;

 private:
  Timing& timing_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  WorkQueueRules rules_;
};

}  // namespace swarm::kube
