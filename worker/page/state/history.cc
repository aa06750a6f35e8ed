#include "worker/page/state/history.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "worker/protocol/coordinator/event_kind.h"

namespace swarm::page {
namespace {

using Json = nlohmann::json;
using protocol::EventKind;

constexpr std::size_t kNewsMax = 2000;

/// What the curves have marks for.
constexpr std::array kMarked{EventKind::kWorkerLost, EventKind::kWorkerMoves, EventKind::kTookOver,
                             EventKind::kCheckpointWritten, EventKind::kRolledBack};

bool IsMarked(const std::string& kind) {
  for (const EventKind marked : kMarked) {
    if (kind == NameOf(marked)) return true;
  }
  return false;
}

/// The object of a line; null for any other line.
Json Parse(std::string_view line) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json();
}

double NumberAt(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>()
                                                   : std::numeric_limits<double>::quiet_NaN();
}

std::string TextAt(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

template <typename T>
void Bound(std::deque<T>* items, std::size_t most) {
  if (items->size() > most) items->pop_front();
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json Columns(const std::vector<Point>& points) {
  Json steps = Json::array(), values = Json::array();
  for (const Point& point : points) {
    steps.push_back(point.step);
    values.push_back(point.value);
  }
  return {std::move(steps), std::move(values)};
}

template <typename Marks>
Json ToJson(const Marks& marks) {
  Json json = Json::array();
  for (const auto& mark : marks) {
    json.push_back({{"step", mark.step}, {"kind", mark.kind}, {"text", mark.text}});
  }
  return json;
}

}  // namespace

void History::AddStep(std::string_view text) {
  const Json line = Parse(text);
  Step step{.step = NumberAt(line, "step"),
            .loss = NumberAt(line, "loss"),
            .grad_norm = NumberAt(line, "grad_norm"),
            .learning_rate = NumberAt(line, "lr"),
            .seconds = NumberAt(line, "seconds")};
  if (!std::isfinite(step.step)) return;
  // A trainer that took over does not know how long the steps of the one before have taken.
  if (step.seconds <= 0) step.seconds = std::numeric_limits<double>::quiet_NaN();
  if (steps_.size() >= steps_max_) {
    for (std::size_t i = 0; 2 * i < steps_.size(); ++i) steps_[i] = steps_[2 * i];
    steps_.resize((steps_.size() + 1) / 2);
  }
  steps_.push_back(step);
  new_steps_.push_back(step);
  BoundNews();
}

void History::AddEvent(std::string_view text) {
  const Json line = Parse(text);
  const std::string kind = TextAt(line, "kind");
  if (kind == "Validation") {
    const Point point{NumberAt(line, "step"), NumberAt(line, "loss")};
    if (!std::isfinite(point.step) || !std::isfinite(point.value)) return;
    validations_.push_back(point);
    Bound(&validations_, kMarksMax);
    new_validations_.push_back(point);
  } else if (IsMarked(kind)) {
    // Programs before this one wrote no version.
    const Mark mark{NumberAt(line, "version"), kind, TextAt(line, "text")};
    if (!std::isfinite(mark.step)) return;
    marks_.push_back(mark);
    Bound(&marks_, kMarksMax);
    new_marks_.push_back(mark);
  }
  BoundNews();
}

void History::BoundNews() {
  if (new_steps_.size() + new_validations_.size() + new_marks_.size() > kNewsMax) anew_ = true;
  if (!anew_) return;
  new_steps_.clear();
  new_validations_.clear();
  new_marks_.clear();
}

void History::Clear() {
  steps_.clear();
  validations_.clear();
  marks_.clear();
  anew_ = true;
  BoundNews();
}

std::optional<std::string> History::TakeNews() {
  if (std::exchange(anew_, false)) return std::nullopt;
  Json steps = Json::array(), validations = Json::array();
  for (const Step& step : std::exchange(new_steps_, {})) {
    steps.push_back({step.step, step.loss, step.grad_norm, step.learning_rate, step.seconds});
  }
  for (const Point& point : std::exchange(new_validations_, {})) {
    validations.push_back({point.step, point.value});
  }
  return Dump({{"steps", std::move(steps)},
               {"validations", std::move(validations)},
               {"marks", ToJson(std::exchange(new_marks_, {}))}});
}

std::vector<Point> History::Curve(double Step::* field, double from, double to) const {
  std::vector<Point> points;
  for (const Step& step : steps_) {
    if (step.step >= from && step.step <= to) points.push_back({step.step, step.*field});
  }
  return Thin(points, kBuckets);
}

std::string History::CurvesJson(double from, double to) const {
  std::vector<Point> validations;
  for (const Point& point : validations_) {
    if (point.step >= from && point.step <= to) validations.push_back(point);
  }
  return Dump({{"loss", Columns(Curve(&Step::loss, from, to))},
               {"gradNorm", Columns(Curve(&Step::grad_norm, from, to))},
               {"learningRate", Columns(Curve(&Step::learning_rate, from, to))},
               {"seconds", Columns(Curve(&Step::seconds, from, to))},
               {"validation", Columns(Thin(validations, kBuckets))}});
}

std::string History::MarksJson() const { return Dump(ToJson(marks_)); }

}  // namespace swarm::page
