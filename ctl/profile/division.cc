#include "ctl/profile/division.h"

#include <algorithm>
#include <array>
#include <optional>

namespace swarm::ctl {
namespace {

/// None: the span is a part of another one, or of the network.
std::optional<Activity> ActivityOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return Activity::kForward;
    case SpanKind::kBackward:
      return Activity::kBackward;
    case SpanKind::kEncode:
      return Activity::kEncode;
    case SpanKind::kDecode:
      return Activity::kDecode;
    case SpanKind::kFold:
    case SpanKind::kUpdate:
      return Activity::kState;
    case SpanKind::kSum:
      return Activity::kSumming;
    case SpanKind::kLayerForward:
    case SpanKind::kLayerBackward:
    case SpanKind::kSendActivations:
    case SpanKind::kSendGradients:
    case SpanKind::kReceiveActivations:
    case SpanKind::kReceiveGradients:
      return std::nullopt;
  }
  return std::nullopt;
}

/// An activity begins (+1) or ends (-1).
struct Change {
  Timepoint when;
  Activity activity;
  int by;
};

}  // namespace

std::vector<Piece> Divide(const std::vector<Span>& spans, const std::vector<Transfer>& incoming,
                          const Window& window) {
  std::vector<Change> changes;
  const auto add = [&](Activity activity, Timepoint begin, Timepoint end) {
    begin = std::max(begin, window.begin);
    end = std::min(end, window.end);
    if (begin >= end) return;
    changes.push_back({begin, activity, 1});
    changes.push_back({end, activity, -1});
  };
  add(Activity::kWaiting, window.begin, window.end);
  for (const Span& span : spans) {
    if (const auto activity = ActivityOf(span.kind)) add(*activity, span.begin, span.end);
  }
  for (const Transfer& transfer : incoming) {
    add(Activity::kTransfer, transfer.sent.begin, transfer.received.end);
  }
  std::ranges::stable_sort(changes, {}, &Change::when);

  std::vector<Piece> pieces;
  std::array<int, kActivities> running{};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    running[static_cast<std::size_t>(changes[i].activity)] += changes[i].by;
    if (i + 1 == changes.size() || changes[i + 1].when == changes[i].when) continue;
    const auto first = std::ranges::find_if(running, [](int count) { return count > 0; });
    const auto activity = static_cast<Activity>(first - running.begin());
    if (!pieces.empty() && pieces.back().activity == activity) {
      pieces.back().end = changes[i + 1].when;
    } else {
      pieces.push_back({activity, changes[i].when, changes[i + 1].when});
    }
  }
  return pieces;
}

}  // namespace swarm::ctl
