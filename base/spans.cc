#include "base/spans.h"

#include <algorithm>

namespace swarm {

Spans::Spans(std::size_t capacity)
    : capacity_(capacity), slots_(std::make_unique<Slot[]>(capacity)) {}

void Spans::Record(const Span& span) {
  const std::uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
  if (index >= capacity_) return;
  slots_[index].span = span;
  slots_[index].written.store(true, std::memory_order_release);
}

std::vector<Span> Spans::Read() const {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < capacity_; ++i) {
    if (slots_[i].written.load(std::memory_order_acquire)) spans.push_back(slots_[i].span);
  }
  return spans;
}

std::uint64_t Spans::dropped() const {
  const std::uint64_t recorded = next_.load();
  return recorded > capacity_ ? recorded - capacity_ : 0;
}

std::string ToJsonLines(const Spans& spans) {
  const auto nanoseconds = [](Timepoint time) {
    return std::to_string(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  };
  std::vector<Span> sorted = spans.Read();
  std::ranges::stable_sort(sorted, {}, &Span::begin);
  std::string text;
  for (const Span& span : sorted) {
    const auto number = [&](const char* name, std::uint64_t value) {
      if (value != Span::kNone)
        text += "\"" + std::string(name) + "\":" + std::to_string(value) + ",";
    };
    text += "{\"kind\":\"" + std::string(NameOf(span.kind)) + "\",";
    number("stage", span.stage);
    number("step", span.step);
    number("microbatch", span.microbatch);
    number("layer", span.layer);
    number("bytes", span.bytes);
    text += "\"begin\":" + nanoseconds(span.begin) + ",\"end\":" + nanoseconds(span.end) + "}\n";
  }
  return text + "{\"dropped\":" + std::to_string(spans.dropped()) + "}\n";
}

}  // namespace swarm
