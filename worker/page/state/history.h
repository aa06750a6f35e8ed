// The curves of a run, and what happened along them, from the lines of steps.jsonl and
// events.jsonl. Pure. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/curve.h"

namespace swarm::page {

class History {
 public:
  /// Beyond so many steps, every second of them is forgotten.
  static constexpr std::size_t kStepsMax = 1u << 19;
  /// Beyond so many marks or validations, the oldest is forgotten.
  static constexpr std::size_t kMarksMax = 2000;
  /// A curve has at most four times as many points.
  static constexpr std::size_t kBuckets = 400;

  explicit History(std::size_t steps_max = kStepsMax) : steps_max_(steps_max) {}

  /// A line of steps.jsonl or of events.jsonl; others are ignored.
  void AddStep(std::string_view line);
  void AddEvent(std::string_view line);
  void Clear();
  std::size_t steps() const { return steps_.size(); }
  /// Whether there is anything to tell.
  bool has_news() const {
    return anew_ || !new_steps_.empty() || !new_validations_.empty() || !new_marks_.empty();
  }

  /// JSON of what was added since the last call: {"steps": [[step, loss, gradNorm, learningRate,
  /// seconds], ...], "validations": [[version, loss], ...], "marks": [...]}. Nothing: so much, or
  /// the history was cleared, that all of it is to be told.
  std::optional<std::string> TakeNews();
  /// JSON of each curve between two steps, thinned so that it looks the same: {"loss": [[steps],
  /// [values]], ...}.
  std::string CurvesJson(double from, double to) const;
  /// JSON of the marks: [{"step", "kind", "text"}, ...].
  std::string MarksJson() const;

 private:
  struct Step {
    double step, loss, grad_norm, learning_rate, seconds;
  };
  struct Mark {
    double step = 0;
    std::string kind;
    std::string text;
  };
  std::vector<Point> Curve(double Step::* field, double from, double to) const;
  /// There is so much news that the page is to be told all.
  void BoundNews();

  const std::size_t steps_max_;
  std::vector<Step> steps_;
  std::deque<Point> validations_;
  std::deque<Mark> marks_;
  // Of which TakeNews has not told.
  bool anew_ = true;
  std::vector<Step> new_steps_;
  std::vector<Point> new_validations_;
  std::vector<Mark> new_marks_;
};

}  // namespace swarm::page
