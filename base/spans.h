// What a worker did and when, for a profile (docs/profile.md): spans, as the threads that do the
// work record them. Off, it costs a look at a null pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "base/time.h"

namespace swarm {

enum class SpanKind : std::uint8_t {
  kForward,   ///< of a microbatch, with the kinds below as parts of it
  kBackward,  ///< the same
  kLayerForward,
  kLayerBackward,
  kEncode,
  kDecode,
  kFold,
  kUpdate,
  kSum,  ///< of a group's gradients: from its begin at this worker to its result
  kSendActivations,
  kSendGradients,
  kReceiveActivations,  ///< from the arrival until the worker has taken them
  kReceiveGradients,
};

template <>
struct EnumNames<SpanKind> {
  static constexpr auto kNames =
      NameTable<SpanKind>({{SpanKind::kForward, "forward"},
                           {SpanKind::kBackward, "backward"},
                           {SpanKind::kLayerForward, "layer forward"},
                           {SpanKind::kLayerBackward, "layer backward"},
                           {SpanKind::kEncode, "encode"},
                           {SpanKind::kDecode, "decode"},
                           {SpanKind::kFold, "fold"},
                           {SpanKind::kUpdate, "update"},
                           {SpanKind::kSum, "sum"},
                           {SpanKind::kSendActivations, "send activations"},
                           {SpanKind::kSendGradients, "send gradients"},
                           {SpanKind::kReceiveActivations, "receive activations"},
                           {SpanKind::kReceiveGradients, "receive gradients"}});
};

struct Span {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  SpanKind kind{};
  std::uint64_t stage = 0;
  std::uint64_t step = 0;
  std::uint64_t microbatch = kNone;
  std::uint64_t layer = kNone;  ///< of the whole model
  std::uint64_t bytes = kNone;
  Timepoint begin{}, end{};

  bool operator==(const Span&) const = default;
};

/// Keeps the first spans, so many at most. Whoever records never waits, and no slot is written
/// twice, so that reading needs no lock either. Thread-safe.
class Spans {
 public:
  /// Their lines are less than 16 MiB.
  static constexpr std::size_t kCapacity = 100'000;

  explicit Spans(std::size_t capacity = kCapacity);

  void Record(const Span& span);
  /// Those that are recorded, in no order.
  std::vector<Span> Read() const;
  /// Spans for which there was no room.
  std::uint64_t dropped() const;

 private:
  struct Slot {
    Span span;
    std::atomic<bool> written{false};
  };
  const std::size_t capacity_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint64_t> next_{0};
};

/// Records a span from its making to its end; nothing if `spans` is null.
class SpanTimer {
 public:
  SpanTimer(Spans* spans, const Span& span) : spans_(spans), span_(span) {
    if (spans_ != nullptr) span_.begin = Clock::now();
  }
  ~SpanTimer() {
    if (spans_ == nullptr) return;
    span_.end = Clock::now();
    spans_->Record(span_);
  }
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

 private:
  Spans* const spans_;
  Span span_;
};

/// A line of JSON for each span, by begin: {"kind", "stage", "step", "begin", "end"}, and where it
/// has them "microbatch", "layer" and "bytes". Times are in nanoseconds of the machine's steady
/// clock, which all its processes share. The last line is {"dropped"}.
std::string ToJsonLines(const Spans& spans);

}  // namespace swarm
