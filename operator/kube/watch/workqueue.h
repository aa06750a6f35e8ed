// What must be looked at again: a queue of keys, where each key waits at most once and is worked on
// by at most one thread at a time.
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
#include "operator/kube/transport/timing.h"

namespace swarm::kube {

struct WorkQueueOptions {
  std::string name;  ///< label of the metrics
  /// Of AddRateLimited: doubles with each failure of a key in a row.
  Duration first_pause = std::chrono::milliseconds(5);
  Duration longest_pause = std::chrono::seconds(1000);
  /// Of AddRateLimited: for all keys together.
  double adds_per_second = 10;
  double burst = 100;
};

/// The queue's rules. Not thread-safe; time is a value. Its size is bounded by the number of keys
/// there are.
///
/// A key is dirty if it must be looked at, and processing while somebody does. `ready_` holds just
/// the keys that are dirty and not processing, in the order in which they became so.
class WorkQueueRules {
 public:
  explicit WorkQueueRules(const WorkQueueOptions& options);

  void Add(const std::string& key, Timepoint now);
  /// Not before `when`; of several wishes for one key the earliest counts.
  void AddAt(const std::string& key, Timepoint when);
  /// After a failure: when the key's own pause, and the common rate, allow it.
  void AddRateLimited(const std::string& key, Timepoint now);
  void Forget(const std::string& key);
  int Failures(const std::string& key) const;

  /// Moves what is due to the others. Then the next key, if there is one.
  std::optional<std::string> Take(Timepoint now);
  void Done(const std::string& key, Timepoint now);
  /// When the next delayed key is due.
  std::optional<Timepoint> NextDue() const;
  bool has_ready() const { return !ready_.empty(); }
  void DropDelayed();

  struct Reading {
    std::size_t depth = 0;
    std::uint64_t adds = 0;
    std::uint64_t retries = 0;
    double unfinished_seconds = 0;  ///< of all that are being worked on
    double longest_running_seconds = 0;
    HistogramReading queue_seconds;  ///< from Add to Take
    HistogramReading work_seconds;   ///< from Take to Done
  };
  Reading Read(Timepoint now) const;

 private:
  Duration PauseAfter(int failures) const;

  const WorkQueueOptions options_;
  TokenBucket bucket_;
  std::deque<std::string> ready_;
  std::map<std::string, Timepoint> dirty_;           // since
  std::map<std::string, Timepoint> processing_;      // since
  std::map<std::string, Timepoint> delayed_;         // until
  std::set<std::pair<Timepoint, std::string>> due_;  // delayed_ by time
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
  /// The key did well: its next failure counts as the first.
  void Forget(const std::string& key);
  int Failures(const std::string& key) const;

  /// Waits for a key and takes it; Done must follow. None once `stop` was requested, or after
  /// ShutDown when no key is left that is ready.
  std::optional<std::string> Get(std::stop_token stop);
  /// The key may be taken again, at once if it was added meanwhile.
  void Done(const std::string& key);
  /// Nothing is added any more; what is delayed is dropped.
  void ShutDown();

  const std::string& name() const { return name_; }
  Reading Read() const;

 private:
  const std::string name_;
  Timing& timing_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  WorkQueueRules rules_;
  bool shut_down_ = false;
};

}  // namespace swarm::kube
