// What a worker's device did at each moment, or why it did nothing. The words are those of a
// report's "where time went" (ctl/report/stage_times.h), which knows sums of seconds and not when.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/enum_names.h"
#include "ctl/profile/worker_spans.h"

namespace swarm::ctl {

/// Of several at a moment, the first counts.
enum class Activity : std::uint8_t {
  kEncode,
  kDecode,
  kForward,
  kBackward,
  kState,     ///< gradients are added up, or the weights updated
  kSumming,   ///< no work, and a sum is being made
  kTransfer,  ///< no work, and the next one is on its way from another worker
  kWaiting,   ///< no work, and none on its way: other workers compute
};
inline constexpr std::size_t kActivities = 8;

}  // namespace swarm::ctl

namespace swarm {

template <>
struct EnumNames<ctl::Activity> {
  static constexpr auto kNames = NameTable<ctl::Activity>({{ctl::Activity::kEncode, "encode"},
                                                           {ctl::Activity::kDecode, "decode"},
                                                           {ctl::Activity::kForward, "forward"},
                                                           {ctl::Activity::kBackward, "backward"},
                                                           {ctl::Activity::kState, "other work"},
                                                           {ctl::Activity::kSumming, "summing"},
                                                           {ctl::Activity::kTransfer, "on its way"},
                                                           {ctl::Activity::kWaiting, "waiting"}});
};

}  // namespace swarm

namespace swarm::ctl {

/// A part of time.
struct Window {
  Timepoint begin, end;
};

struct Piece {
  Activity activity{};
  Timepoint begin, end;
  bool operator==(const Piece&) const = default;
};

/// The pieces of the window, in order: together they are all of it, and no two beside each other
/// have one activity. `spans` are a worker's, `incoming` the transfers to it.
std::vector<Piece> Divide(const std::vector<Span>& spans, const std::vector<Transfer>& incoming,
                          const Window& window);

}  // namespace swarm::ctl
