// The metrics of a stage worker, written as it goes and read from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/histogram.h"
#include "base/time.h"

namespace swarm::stage {

/// Why a worker refuses frames and orders. Each has a counter from the start: a rate misses the
/// first event of a counter that the event creates.
inline constexpr std::string_view kRefusalReasons[] = {"addressee",
                                                       "bad chunk",
                                                       "closed attempt",
                                                       "committed step",
                                                       "control from a peer",
                                                       "duplicate",
                                                       "evicted sender",
                                                       "folded already",
                                                       "from an onlooker",
                                                       "generation",
                                                       "late chunk",
                                                       "no such task",
                                                       "parcel",
                                                       "reduce attempt",
                                                       "term",
                                                       "to be relayed for strangers",
                                                       "tokens",
                                                       "too many early chunks",
                                                       "too many parked",
                                                       "too much to relay",
                                                       "too much to send",
                                                       "version gone"};

/// Counts by reason. A reason is one of our literals, so there are few. Thread-safe.
class ReasonCounts {
 public:
  ReasonCounts() {
    for (const std::string_view reason : kRefusalReasons) counts_[reason] = 0;
  }
  void Add(std::string_view reason) {
    std::lock_guard lock(mutex_);
    ++counts_[reason];
  }
  std::map<std::string_view, std::uint64_t> Read() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string_view, std::uint64_t> counts_;
};

/// Payloads exchanged with other workers, by their region. Thread-safe.
class RegionBytes {
 public:
  struct Exchanged {
    std::uint64_t sent = 0, copied = 0;  ///< to them; from them, of state
  };

  void AddSent(const std::string& region, std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    bytes_[region].sent += bytes;
  }
  void AddCopied(const std::string& region, std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    bytes_[region].copied += bytes;
  }
  std::map<std::string, Exchanged> Read() const {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Exchanged> bytes_;
};

/// The time for which something lasted. Thread-safe.
class Stopwatch {
 public:
  /// Whether it lasts from `now` on.
  void Set(bool lasts, Timepoint now) {
    std::lock_guard lock(mutex_);
    if (lasts == since_.has_value()) return;
    if (since_) before_ += now - *since_;
    since_ = lasts ? std::optional(now) : std::nullopt;
  }
  double seconds(Timepoint now = Clock::now()) const {
    std::lock_guard lock(mutex_);
    return ToSeconds(before_ + (since_ ? now - *since_ : Duration()));
  }

 private:
  mutable std::mutex mutex_;
  Duration before_{};
  std::optional<Timepoint> since_;
};

struct WorkerMetrics {
  const Timepoint begin = Clock::now();

  // These only grow.
  SecondsHistogram forward_seconds;  ///< of compute, one observation a microbatch
  SecondsHistogram backward_seconds;
  std::atomic<std::uint64_t> commits{0};
  ReasonCounts refused;
  std::atomic<std::uint64_t> boundary_bytes_forward{0};
  std::atomic<std::uint64_t> boundary_bytes_backward{0};
  RegionBytes region_bytes;  ///< all but control; what is copied counts where it arrives
  Stopwatch summing;         ///< a sum is not done here
  std::atomic<std::uint64_t> reduce_bytes{0};
  std::atomic<std::uint64_t> relayed_bytes{0};  ///< for pairs that do not reach each other

  // The current state.
  std::atomic<std::uint64_t> queued_tasks{0};
  std::atomic<std::uint64_t> parked_frames{0};
  std::atomic<std::uint64_t> unheard_neighbours{0};
  std::atomic<std::int64_t> stage{-1};  ///< none yet
  std::atomic<std::uint64_t> stages{0};
  std::atomic<std::uint64_t> version{0};
};

}  // namespace swarm::stage
