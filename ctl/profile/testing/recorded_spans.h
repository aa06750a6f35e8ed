// For tests: spans made by hand, at milliseconds.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ctl/profile/worker_spans.h"

namespace swarm::ctl {

inline Timepoint At(std::int64_t milliseconds) {
  return Timepoint(std::chrono::milliseconds(milliseconds));
}

/// A span of microbatch 0 in step 0.
inline Span During(SpanKind kind, std::int64_t begin, std::int64_t end) {
  return {.kind = kind, .microbatch = 0, .begin = At(begin), .end = At(end)};
}

inline Span OfStep(std::uint64_t step, Span span) {
  span.step = step;
  return span;
}

inline Span OfLayer(std::uint64_t layer, Span span) {
  span.layer = layer;
  return span;
}

inline Span OfBytes(std::uint64_t bytes, Span span) {
  span.bytes = bytes;
  return span;
}

/// What a worker of the stage recorded.
inline WorkerSpans OfStage(std::uint64_t stage, std::string worker, std::vector<Span> spans) {
  for (Span& span : spans) span.stage = stage;
  std::ranges::stable_sort(spans, {}, &Span::begin);
  return {std::move(worker), std::move(spans)};
}

/// A microbatch on its way through two workers, of one stage each, in 100 ms.
inline std::vector<WorkerSpans> OneMicrobatch() {
  using enum SpanKind;
  return {
      OfStage(0, "a",
              {During(kReceiveActivations, 0, 0), During(kForward, 0, 20),
               OfLayer(0, During(kLayerForward, 2, 8)), OfLayer(1, During(kLayerForward, 8, 16)),
               During(kEncode, 18, 20), OfBytes(2048, During(kSendActivations, 20, 21)),
               OfBytes(2048, During(kReceiveGradients, 58, 60)), During(kBackward, 60, 90),
               During(kDecode, 60, 61), OfLayer(1, During(kLayerBackward, 61, 80)),
               OfLayer(0, During(kLayerBackward, 80, 89)), During(kFold, 90, 95),
               During(kSum, 90, 98), During(kUpdate, 98, 100)}),
      OfStage(1, "b",
              {OfBytes(2048, During(kReceiveActivations, 29, 30)), During(kForward, 30, 40),
               During(kBackward, 40, 50), OfBytes(2048, During(kSendGradients, 50, 51))})};
}

}  // namespace swarm::ctl
