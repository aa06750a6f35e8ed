#include "ctl/report/curve.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ctl/format.h"

namespace swarm::ctl {
namespace {

constexpr int kTicks = 4;           // about so many
constexpr double kFarApart = 30;    // greatest value over least
constexpr double kPowersMax = 5;    // ticks at powers of ten
constexpr double kFewPowers = 2.5;  // with fewer, 2 and 5 times these get ticks, too

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
  for (double p = std::floor(std::log10(scale->low)); std::pow(10, p) <= scale->high; p += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, p);
      const bool wanted = factor == 1 || powers < kFewPowers;
      if (wanted && tick >= scale->low && tick <= scale->high) scale->ticks.push_back(tick);
    }
  }
}

void AddBucket(std::span<const Point> bucket, std::vector<Point>* thinned) {
  const auto [least, greatest] =
      std::minmax_element(bucket.begin(), bucket.end(),
                          [](const Point& a, const Point& b) { return a.value < b.value; });
  std::array<const Point*, 4> kept{&bucket.front(), &*least, &*greatest, &bucket.back()};
  std::sort(kept.begin(), kept.end());
  const auto end = std::unique(kept.begin(), kept.end());
  for (auto it = kept.begin(); it != end; ++it) thinned->push_back(**it);
}

}  // namespace

std::vector<Point> Thin(std::span<const Point> points, std::size_t buckets) {
  std::vector<Point> finite;
  std::copy_if(points.begin(), points.end(), std::back_inserter(finite), [](const Point& point) {
    return std::isfinite(point.step) && std::isfinite(point.value);
  });
  if (finite.size() <= 4 * buckets) return finite;
  const std::span<const Point> all(finite);
  std::vector<Point> thinned;
  for (std::size_t i = 0; i < buckets; ++i) {
    const std::size_t begin = all.size() * i / buckets, end = all.size() * (i + 1) / buckets;
    AddBucket(all.subspan(begin, end - begin), &thinned);
  }
  return thinned;
}

double Scale::HeightOf(double value) const {
  const double height =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return std::clamp(height, 0.0, 1.0);
}

Scale ScaleFor(std::span<const Point> points, ScaleKind kind) {
  Scale scale;
  bool any = false;
  for (const Point& point : points) {
    if (!std::isfinite(point.value)) continue;
    scale.low = any ? std::min(scale.low, point.value) : point.value;
    scale.high = any ? std::max(scale.high, point.value) : point.value;
    any = true;
  }
  if (kind == ScaleKind::kSpread && any && scale.low > 0 && scale.high > kFarApart * scale.low) {
    scale.logarithmic = true;
    AddLogTicks(&scale);
    return scale;
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
