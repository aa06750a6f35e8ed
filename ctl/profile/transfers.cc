#include <algorithm>
#include <map>
#include <tuple>

#include "ctl/profile/worker_spans.h"

namespace swarm::ctl {
namespace {

// What was sent, and by which stage.
using Key = std::tuple<SpanKind, std::uint64_t, std::uint64_t, std::uint64_t>;

Key KeyOf(SpanKind sent, const Span& span, std::uint64_t stage) {
  return {sent, span.step, span.microbatch, stage};
}

}  // namespace

std::vector<Transfer> FindTransfers(const std::vector<WorkerSpans>& workers) {
  struct Sent {
    std::size_t from;
    Span span;
  };
  std::map<Key, std::vector<Sent>> sent;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    for (const Span& span : workers[i].spans) {
      if (IsSent(span)) sent[KeyOf(span.kind, span, span.stage)].push_back({i, span});
    }
  }
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    for (const Span& span : workers[i].spans) {
      Key key;
      if (span.kind == SpanKind::kReceiveActivations && span.stage > 0) {
        key = KeyOf(SpanKind::kSendActivations, span, span.stage - 1);
      } else if (span.kind == SpanKind::kReceiveGradients) {
        key = KeyOf(SpanKind::kSendGradients, span, span.stage + 1);
      } else {
        continue;
      }
      // What is sent again has the same name: it was the last one before the arrival.
      const Sent* last = nullptr;
      for (const Sent& each : sent[key]) {
        const bool later = last == nullptr || each.span.begin > last->span.begin;
        if (each.span.begin <= span.begin && later) last = &each;
      }
      if (last != nullptr) transfers.push_back({last->from, i, last->span, span});
    }
  }
  std::ranges::stable_sort(transfers, {}, [](const Transfer& t) { return t.received.begin; });
  return transfers;
}

}  // namespace swarm::ctl
