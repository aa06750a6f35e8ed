#include "ctl/profile/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace swarm::ctl {
namespace {

using Json = nlohmann::json;

enum class Lane : int { kTasks = 1, kState = 2, kWaits = 3, kSends = 4 };
constexpr std::pair<Lane, const char*> kLanes[] = {{Lane::kTasks, "tasks"},
                                                   {Lane::kState, "other work"},
                                                   {Lane::kWaits, "waits"},
                                                   {Lane::kSends, "sends"}};

/// Collects the events of one trace.
class Trace {
 public:
  explicit Trace(Timepoint begin) : begin_(begin) {}

  void Name(int process, const std::string& name) {
    Describe(process, "process_name", {{"name", name}});
    Describe(process, "process_sort_index", {{"sort_index", process}});
    for (const auto& [lane, of_lane] : kLanes) {
      Describe(process, "thread_name", {{"name", of_lane}}, static_cast<int>(lane));
    }
  }
  void Slice(int process, Lane lane, const std::string& name, std::string_view category,
             Timepoint begin, Timepoint end, Json args) {
    Add(begin, end - begin,
        {{"ph", "X"},
         {"name", name},
         {"cat", category},
         {"pid", process},
         {"tid", static_cast<int>(lane)},
         {"dur", Microseconds(end - begin)},
         {"args", std::move(args)}});
  }
  /// May overlap with others.
  void Asynchronous(int process, const std::string& name, Timepoint begin, Timepoint end,
                    const Json& args) {
    const Json both{{"name", name},
                    {"cat", name},
                    {"pid", process},
                    {"tid", 0},
                    {"id", std::to_string(++last_id_)}};
    Json first = both, last = both;
    first.update({{"ph", "b"}, {"args", args}});
    last["ph"] = "e";
    Add(begin, end - begin, std::move(first));
    Add(end, Duration::zero(), std::move(last));
  }

  std::string ToText() {
    // What encloses others comes before them. An end has the length 0, and was added behind its
    // begin.
    std::ranges::stable_sort(events_, {}, [](const Event& event) {
      return std::pair(event.begin, -event.length.count());
    });
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + names_;
    for (const Event& event : events_) text += event.text;
    text.resize(text.size() - 2);  // the last comma, and its line's end
    return text + "\n]}\n";
  }

 private:
  struct Event {
    Timepoint begin;
    Duration length;
    std::string text;
  };

  static double Microseconds(Duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  }
  static std::string TextOf(const Json& event) {
    return event.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + ",\n";
  }
  void Describe(int process, const char* what, const Json& args, int lane = 0) {
    names_ +=
        TextOf({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", lane}, {"args", args}});
  }
  void Add(Timepoint begin, Duration length, Json event) {
    event["ts"] = Microseconds(begin - begin_);
    events_.push_back({begin, length, TextOf(event)});
  }

  const Timepoint begin_;
  std::string names_;
  std::vector<Event> events_;
  std::uint64_t last_id_ = 0;
};

Json ArgumentsOf(const Span& span) {
  Json args{{"step", span.step}};
  if (span.microbatch != Span::kNone) args["microbatch"] = span.microbatch;
  if (span.bytes != Span::kNone) args["bytes"] = span.bytes;
  return args;
}

void AddSpan(int process, const Span& span, Trace* trace) {
  const std::string_view kind = NameOf(span.kind);
  const auto slice = [&](Lane lane, const std::string& name) {
    trace->Slice(process, lane, name, kind, span.begin, span.end, ArgumentsOf(span));
  };
  switch (span.kind) {
    case SpanKind::kForward:
    case SpanKind::kBackward:
    case SpanKind::kEncode:
    case SpanKind::kDecode:
      return slice(Lane::kTasks, std::string(kind));
    case SpanKind::kLayerForward:
    case SpanKind::kLayerBackward:
      return slice(Lane::kTasks, "layer " + std::to_string(span.layer));
    case SpanKind::kFold:
    case SpanKind::kUpdate:
      return slice(Lane::kState, std::string(kind));
    case SpanKind::kSendActivations:
    case SpanKind::kSendGradients:
      return slice(Lane::kSends, std::string(kind));
    case SpanKind::kSum:
    case SpanKind::kReceiveActivations:
    case SpanKind::kReceiveGradients:
      return trace->Asynchronous(process, std::string(kind), span.begin, span.end,
                                 ArgumentsOf(span));
  }
}

std::string WaitName(Activity activity) {
  switch (activity) {
    case Activity::kSumming:
      return "a sum";
    case Activity::kTransfer:
      return "what is on its way";
    case Activity::kWaiting:
      return "other workers";
    case Activity::kEncode:
    case Activity::kDecode:
    case Activity::kForward:
    case Activity::kBackward:
    case Activity::kState:
      return {};
  }
  return {};
}

}  // namespace

std::string ToTrace(const std::vector<WorkerSpans>& workers, const std::vector<Transfer>& transfers,
                    const Window& window) {
  std::vector<std::size_t> order(workers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(
      order, {}, [&](std::size_t i) { return std::pair(workers[i].stage(), workers[i].worker); });
  Timepoint begin = Timepoint::max();
  for (const WorkerSpans& worker : workers) begin = std::min(begin, worker.spans.front().begin);

  Trace trace(begin);
  std::vector<std::vector<Transfer>> incoming(workers.size());
  for (const Transfer& transfer : transfers) incoming[transfer.to].push_back(transfer);
  for (int process = 1; const std::size_t i : order) {
    const WorkerSpans& worker = workers[i];
    trace.Name(process, "stage " + std::to_string(worker.stage()) + ": " + worker.worker);
    for (const Span& span : worker.spans) AddSpan(process, span, &trace);
    for (const Piece& piece : Divide(worker.spans, incoming[i], window)) {
      const std::string name = WaitName(piece.activity);
      if (name.empty()) continue;
      trace.Slice(process, Lane::kWaits, name, "wait", piece.begin, piece.end, Json::object());
    }
    for (const Transfer& transfer : incoming[i]) {
      Json args = ArgumentsOf(transfer.sent);
      args["from"] = workers[transfer.from].worker;
      const bool forward = transfer.sent.kind == SpanKind::kSendActivations;
      trace.Asynchronous(process, forward ? "activations on their way" : "gradients on their way",
                         transfer.sent.begin, transfer.received.end, args);
    }
    ++process;
  }
  return trace.ToText();
}

}  // namespace swarm::ctl
