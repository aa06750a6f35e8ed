#include "ctl/profile/summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace swarm::ctl {
namespace {

double SecondsOf(const Span& span) { return ToSeconds(span.end - span.begin); }

bool IsTask(const Span& span) {
  return span.kind == SpanKind::kForward || span.kind == SpanKind::kBackward;
}

class Mean {
 public:
  void Add(double value) {
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }

 private:
  double sum_ = 0;
  std::uint64_t count_ = 0;
};

/// Microbatches a second of a worker that always has work.
double RateOf(const std::vector<Span>& spans, Timepoint begin) {
  double seconds = 0;
  std::uint64_t forwards = 0;
  for (const Span& span : spans) {
    if (span.begin < begin) continue;
    if (IsTask(span) || span.kind == SpanKind::kFold) seconds += SecondsOf(span);
    forwards += span.kind == SpanKind::kForward ? 1 : 0;
  }
  return seconds > 0 ? static_cast<double>(forwards) / seconds : 0;
}

void Add(const WorkerSpans& worker, const std::vector<Transfer>& incoming, const Window& window,
         StageProfile* stage) {
  ++stage->workers;
  stage->seconds += ToSeconds(window.end - window.begin);
  for (const Piece& piece : Divide(worker.spans, incoming, window)) {
    stage->of_activity[static_cast<std::size_t>(piece.activity)] +=
        ToSeconds(piece.end - piece.begin);
  }
  for (const Span& span : worker.spans) {
    if (IsSent(span) && span.begin >= window.begin) stage->send_seconds += SecondsOf(span);
  }
  stage->rate += RateOf(worker.spans, window.begin);
}

std::vector<LayerProfile> LayersOf(const std::vector<WorkerSpans>& workers, Timepoint begin) {
  struct Sums {
    std::uint64_t stage = 0;
    double forward = 0, backward = 0;
    std::set<std::pair<std::uint64_t, std::uint64_t>> microbatches;  // with their steps
  };
  std::map<std::uint64_t, Sums> sums;
  for (const WorkerSpans& worker : workers) {
    for (const Span& span : worker.spans) {
      if (span.layer == Span::kNone || span.begin < begin) continue;
      Sums& layer = sums[span.layer];
      layer.stage = span.stage;
      layer.microbatches.emplace(span.step, span.microbatch);
      (span.kind == SpanKind::kLayerForward ? layer.forward : layer.backward) += SecondsOf(span);
    }
  }
  std::vector<LayerProfile> layers;
  for (const auto& [layer, sum] : sums) {
    const auto count = static_cast<double>(sum.microbatches.size());
    layers.push_back({layer, sum.stage, sum.forward / count, sum.backward / count});
  }
  return layers;
}

std::vector<CrossingProfile> CrossingsOf(const std::vector<Transfer>& transfers, Timepoint begin) {
  struct Means {
    Mean bytes, seconds;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Means> means;
  for (const Transfer& transfer : transfers) {
    if (transfer.sent.begin < begin) continue;
    Means& crossing = means[{transfer.sent.stage, transfer.received.stage}];
    crossing.bytes.Add(static_cast<double>(transfer.sent.bytes));
    crossing.seconds.Add(ToSeconds(transfer.received.end - transfer.sent.begin));
  }
  std::vector<CrossingProfile> crossings;
  for (const auto& [stages, mean] : means) {
    crossings.push_back({stages.first, stages.second, mean.bytes.value(), mean.seconds.value()});
  }
  return crossings;
}

}  // namespace

Result<ProfileSummary> Summarize(const std::vector<WorkerSpans>& workers,
                                 const std::vector<Transfer>& transfers, std::uint64_t first_step) {
  ProfileSummary summary{.first_step = Span::kNone,
                         .window = {Timepoint::max(), Timepoint::min()},
                         .stages = {},
                         .layers = {},
                         .crossings = {}};
  for (const WorkerSpans& worker : workers) {
    summary.dropped += worker.dropped;
    for (const Span& span : worker.spans) {
      if (span.step < first_step) continue;
      summary.window.end = std::max(summary.window.end, span.end);
      if (!IsTask(span)) continue;
      summary.window.begin = std::min(summary.window.begin, span.begin);
      summary.first_step = std::min(summary.first_step, span.step);
      summary.last_step = std::max(summary.last_step, span.step);
    }
  }
  if (summary.first_step == Span::kNone) {
    return NotFound("no worker has computed step " + std::to_string(first_step) +
                    " or a later one");
  }
  std::vector<std::vector<Transfer>> incoming(workers.size());
  for (const Transfer& transfer : transfers) incoming[transfer.to].push_back(transfer);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const std::uint64_t stage = workers[i].stage();
    if (summary.stages.size() <= stage) summary.stages.resize(stage + 1);
    Add(workers[i], incoming[i], summary.window, &summary.stages[stage]);
  }
  summary.layers = LayersOf(workers, summary.window.begin);
  summary.crossings = CrossingsOf(transfers, summary.window.begin);
  return summary;
}

}  // namespace swarm::ctl
