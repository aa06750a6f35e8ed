#include "ctl/view/live_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/short_time.h"
#include "ctl/format.h"
#include "worker/protocol/messages/count_workers.h"

namespace swarm::ctl {
namespace {

constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// Text of known width in columns: what is shown may be longer in bytes (UTF-8, colours).
class Line {
 public:
  Line(std::size_t width, bool color) : left_(width), color_(color) {}

  /// Adds plain text, cut where the line ends.
  Line& Add(std::string_view text, const char* style = "") {
    const std::string_view fitting = Prefix(text);
    if (fitting.empty()) return *this;
    const bool styled = color_ && *style != '\0';
    if (styled) text_ += std::string("\x1b[") + style + "m";
    text_ += fitting;
    if (styled) text_ += "\x1b[0m";
    return *this;
  }
  std::size_t left() const { return left_; }
  std::string Take() { return std::move(text_); }

 private:
  // As many whole characters as there are columns left. Every character shown is one column wide.
  std::string_view Prefix(std::string_view text) {
    std::size_t bytes = 0;
    while (bytes < text.size() && left_ > 0) {
      do ++bytes;
      while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80);
      --left_;
    }
    return text.substr(0, bytes);
  }

  std::string text_;
  std::size_t left_;
  const bool color_;
};

constexpr const char* kBold = "1";
constexpr const char* kDim = "2";
constexpr const char* kGreen = "32";
constexpr const char* kYellow = "33";
constexpr const char* kRed = "31";
constexpr const char* kCyan = "36";

const char* StyleOf(protocol::JobState state) {
  if (state == protocol::JobState::kFailed) return kRed;
  if (state == protocol::JobState::kWaiting) return kYellow;
  return kGreen;
}

double Fraction(const protocol::JobStatus& status) {
  if (status.max_steps == 0) return 0;
  return std::min(1.0,
                  static_cast<double>(status.step.value) / static_cast<double>(status.max_steps));
}

std::string Steps(const protocol::JobStatus& status) {
  return Format("%llu/%llu", static_cast<unsigned long long>(status.step.value),
                static_cast<unsigned long long>(status.max_steps));
}

std::string Left(const protocol::JobStatus& status) {
  return status.seconds_left > 0 ? ShortTime(status.seconds_left) + " left" : std::string();
}

/// "$1.20/hour"; empty: not known.
std::string Cost(const protocol::JobStatus& status,
                 const std::optional<api::DollarRange>& worker_price) {
  const auto cost = api::Times(worker_price, static_cast<double>(CountWorkers(status)));
  return cost ? api::DollarText(*cost) + "/hour" : "";
}

void AddBar(Line& line, double fraction, std::size_t width) {
  const auto full = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(width)));
  std::string done, open;
  for (std::size_t i = 0; i < width; ++i) (i < full ? done : open) += i < full ? "█" : "░";
  line.Add(done, kGreen).Add(open, kDim);
}

std::string ProgressLine(const protocol::JobStatus& status, const ViewOptions& options) {
  Line line(options.width, options.color);
  const std::string tail = " " + Steps(status) + Format("  %3.0f%%", 100 * Fraction(status)) +
                           (Left(status).empty() ? "" : "  " + Left(status));
  const bool is_known = status.state != protocol::JobState::kUnknown;
  line.Add(is_known ? std::string(NameOf(status.state)) : "Starting", StyleOf(status.state))
      .Add(" ");
  constexpr std::size_t kBarMax = 40, kBarMin = 5;
  if (line.left() > tail.size() + kBarMin) {
    AddBar(line, Fraction(status), std::min(kBarMax, line.left() - tail.size()));
  }
  return line.Add(tail).Take();
}

std::string LossLine(const protocol::JobStatus& status, const LossHistory& history,
                     const ViewOptions& options) {
  Line line(options.width, options.color);
  line.Add("loss ").Add(status.loss != 0 ? Format("%.4f", status.loss) : "-", kBold);
  if (status.validation_loss != 0) {
    line.Add("  validation ").Add(Format("%.4f", status.validation_loss), kBold);
  }
  line.Add("  " + ShortNumber(status.tokens_per_second) + " tokens/s  ");
  if (const std::string cost = Cost(status, options.worker_price); !cost.empty()) {
    line.Add(cost + "  ");
  }
  constexpr std::size_t kSparklineMax = 40;
  return line.Add(Sparkline(history.values(), std::min(kSparklineMax, line.left())), kCyan).Take();
}

std::string WorkerLine(const protocol::StageStatus& stage, std::size_t index,
                       const ViewOptions& options) {
  const protocol::StageStatus::Worker& worker = stage.workers[index];
  Line line(options.width, options.color);
  line.Add(index == 0 ? Format("stage %-3llu", static_cast<unsigned long long>(stage.stage.value))
                      : std::string(9, ' '),
           kBold);
  line.Add(Format("%-14.14s", worker.id.value.c_str()));
  line.Add(Format(" %4llu queued ", static_cast<unsigned long long>(worker.queued)),
           worker.queued > 0 ? "" : kDim);
  const double busy = std::clamp(worker.utilization, 0.0, 1.0);
  AddBar(line, busy, 8);
  line.Add(Format(" %3.0f%%", 100 * busy));
  return line
      .Add(" " + ShortNumber(worker.microbatches_per_second) + " tasks/s " +
           ShortNumber(worker.bytes_per_second) + "B/s")
      .Take();
}

std::string EmptyStageLine(const protocol::StageStatus& stage, const ViewOptions& options) {
  Line line(options.width, options.color);
  line.Add(Format("stage %-3llu", static_cast<unsigned long long>(stage.stage.value)), kBold);
  return line.Add("no worker", kRed).Take();
}

}  // namespace

void LossHistory::Add(std::uint64_t step, double loss) {
  if (step <= last_step_) return;
  last_step_ = step;
  sum_ += loss;
  if (++count_ < steps_per_value_) return;
  values_.push_back(sum_ / static_cast<double>(count_));
  sum_ = 0, count_ = 0;
  if (values_.size() < kValuesMax) return;
  for (std::size_t i = 0; i < kValuesMax / 2; ++i) {
    values_[i] = (values_[2 * i] + values_[2 * i + 1]) / 2;
  }
  values_.resize(kValuesMax / 2);
  steps_per_value_ *= 2;
}

std::string Sparkline(std::span<const double> values, std::size_t width) {
  const std::size_t cells = std::min(width, values.size());
  std::vector<double> means;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t begin = cell * values.size() / cells,
                      end = (cell + 1) * values.size() / cells;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  for (const double mean : means) {
    if (std::isfinite(mean)) lowest = std::min(lowest, mean), highest = std::max(highest, mean);
  }
  std::string text;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      text += ' ';
      continue;
    }
    const double height = highest > lowest ? (mean - lowest) / (highest - lowest) : 0;
    text += kBlocks[static_cast<std::size_t>(std::lround(height * (kBlocks.size() - 1)))];
  }
  return text;
}

std::string ShortNumber(double number) {
  constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  if (!std::isfinite(number)) return "-";
  std::size_t unit = 0;
  // 999.5 is shown as 1.00k, not as 1000.
  while (std::abs(number) >= 999.5 && unit + 1 < kUnits.size()) number /= 1000, ++unit;
  const double size = std::abs(number);
  const int decimals = unit == 0 && size == std::floor(size) ? 0
                       : size < 9.995                        ? 2
                       : size < 99.95                        ? 1
                                                             : 0;
  return Format("%.*f%s", decimals, number, kUnits[unit]);
}

std::vector<std::string> RenderView(const protocol::JobStatus& status, const LossHistory& history,
                                    const ViewOptions& options) {
  std::vector<std::string> lines{ProgressLine(status, options), LossLine(status, history, options)};
  // The lines after the rows: the number of rows left out, and the message.
  const std::size_t kept = status.message.empty() ? 1 : 2;
  const auto has_room = [&] { return lines.size() + kept < options.height_max; };
  std::size_t hidden = 0;
  for (const protocol::StageStatus& stage : status.stages) {
    if (stage.workers.empty() && has_room()) lines.push_back(EmptyStageLine(stage, options));
    for (std::size_t i = 0; i < stage.workers.size(); ++i) {
      has_room() ? lines.push_back(WorkerLine(stage, i, options)) : void(++hidden);
    }
  }
  if (hidden > 0) {
    Line line(options.width, options.color);
    lines.push_back(line.Add("and " + std::to_string(hidden) + " more workers", kDim).Take());
  }
  if (!status.message.empty()) {
    Line line(options.width, options.color);
    lines.push_back(line.Add(status.message, kYellow).Take());
  }
  return lines;
}

std::string RenderLine(const protocol::JobStatus& status,
                       const std::optional<api::DollarRange>& worker_price) {
  std::string line = "step " + Steps(status);
  if (status.loss != 0) line += Format("  loss %.4f", status.loss);  // 0: no step is done yet
  if (status.validation_loss != 0) line += Format("  validation %.4f", status.validation_loss);
  if (status.tokens_per_second > 0) {
    line += "  " + ShortNumber(status.tokens_per_second) + " tokens/s";
  }
  if (const std::string cost = Cost(status, worker_price); !cost.empty()) line += "  " + cost;
  if (!Left(status).empty()) line += "  " + Left(status);
  if (!status.message.empty()) line += "  " + status.message;
  return line;
}

bool LinePace::IsDue(const protocol::JobStatus& status, Timepoint now) {
  const std::uint64_t step = status.step.value;
  if (last_) {
    const std::uint64_t last = last_->step.value;
    const bool has_moved = step != last;
    const bool is_due =
        step / kSteps != last / kSteps || step >= status.max_steps || now - told_ >= kPeriod;
    if (status.state == last_->state && !(has_moved && is_due)) return false;
  }
  last_ = status;
  told_ = now;
  return true;
}

}  // namespace swarm::ctl
