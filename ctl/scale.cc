#include "ctl/scale.h"

#include <algorithm>
#include <cmath>

#include "ctl/format.h"

namespace swarm::ctl {
namespace {

constexpr int kTicks = 4;           // about so many
constexpr double kFarApart = 30;    // greatest value over least
constexpr double kPowersMax = 5;    // ticks at powers of ten
constexpr double kFewPowers = 2.5;  // with fewer, 2 and 5 times these get ticks, too
constexpr double kRounding = 1e-9;  // as a share, of powers and products

/// The least of 1, 2, 2.5, 5 and 10 times a power of ten that is not below `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// Makes the ends round, and the ticks between them.
void RoundEnds(Scale* scale) {
  const double step = RoundStep((scale->high - scale->low) / kTicks);
  const double first = std::floor(scale->low / step + 1e-9);
  const double last = std::ceil(scale->high / step - 1e-9);
  scale->low = first * step;
  scale->high = last * step;
  for (double i = first; i <= last + 0.5; ++i) scale->ticks.push_back(i * step);
}

void AddLogTicks(Scale* scale) {
  const double powers = std::log10(scale->high / scale->low);
  const double every = std::max(1.0, std::ceil(powers / kPowersMax));
  const double last = scale->high * (1 + kRounding);
  for (double p = std::floor(std::log10(scale->low)); std::pow(10, p) <= last; p += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, p);
      const bool wanted = factor == 1 || powers < kFewPowers;
      const bool within = tick >= scale->low * (1 - kRounding) && tick <= last;
      if (wanted && within) scale->ticks.push_back(tick);
    }
  }
}

}  // namespace

double Scale::HeightOf(double value) const {
  const double height =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return std::clamp(height, 0.0, 1.0);
}

Scale ScaleFor(std::span<const double> values, ScaleKind kind) {
  Scale scale;
  bool any = false;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    scale.low = any ? std::min(scale.low, value) : value;
    scale.high = any ? std::max(scale.high, value) : value;
    any = true;
  }
  if (kind == ScaleKind::kSpread && any && scale.low > 0 && scale.high > kFarApart * scale.low) {
    return LogScale(scale.low, scale.high);
  }
  if (kind != ScaleKind::kLinear) scale.low = std::min(scale.low, 0.0);
  if (scale.high <= scale.low) {
    // One value alone is shown in the middle.
    const double margin = scale.low == 0 ? 1 : std::abs(scale.low) / 2;
    scale.low -= margin;
    scale.high += margin;
  }
  RoundEnds(&scale);
  return scale;
}

Scale LogScale(double low, double high) {
  Scale scale{.low = low, .high = high, .logarithmic = true, .ticks = {}};
  if (high <= low) {
    scale.low = low / 2;
    scale.high = low * 2;
  }
  AddLogTicks(&scale);
  return scale;
}

Scale StepScale(double first, double last) {
  Scale scale{.low = first, .high = std::max(last, first + 1), .ticks = {}};
  // 2.5 is no step.
  const double step = std::ceil(RoundStep((scale.high - scale.low) / kTicks));
  for (double tick = std::ceil(scale.low / step) * step; tick <= scale.high; tick += step) {
    scale.ticks.push_back(tick);
  }
  return scale;
}

std::string TickText(double value) {
  if (value != 0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e6)) {
    return Format("%.2g", value);
  }
  return Format("%.6g", value);
}

}  // namespace swarm::ctl
