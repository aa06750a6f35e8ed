// What the workers of a profile recorded, and what their records say together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/spans.h"

namespace swarm::ctl {

struct WorkerSpans {
  std::string worker;
  std::vector<Span> spans;    ///< by begin, at least one
  std::uint64_t dropped = 0;  ///< for which the worker had no room

  /// A worker of a profile serves one stage.
  std::uint64_t stage() const { return spans.front().stage; }
};

/// An output or an input gradient that goes from one worker to another. Workers are named by their
/// places in the list.
struct Transfer {
  std::size_t from = 0, to = 0;
  Span sent, received;
};

/// Of what was received, that of which the sender is known: not tokens, which the trainer sends.
/// Requires one clock for all workers. By arrival. Pure.
std::vector<Transfer> FindTransfers(const std::vector<WorkerSpans>& workers);

/// Whether the span is of a message that is handed to the network.
inline bool IsSent(const Span& span) {
  return span.kind == SpanKind::kSendActivations || span.kind == SpanKind::kSendGradients;
}

}  // namespace swarm::ctl
