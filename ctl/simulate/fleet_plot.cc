#include "ctl/simulate/fleet_plot.h"

#include <algorithm>
#include <cmath>

#include "ctl/format.h"

namespace swarm::ctl {
namespace {

constexpr double kWidth = 900, kHeight = 180;  // of a chart
constexpr double kLeft = 80, kTop = 40, kGap = 60;
constexpr int kTicks = 4;

/// The least round number, of one digit or 1.5 or 2.5 times a power of ten, that is not below.
double RoundUp(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0}) {
    if (factor * power >= value) return factor * power;
  }
  return 10 * power;
}

struct Unit {
  double seconds;
  const char* name;
};

Unit UnitOf(double seconds) {
  if (seconds > 3 * 3600) return {3600, "h"};
  if (seconds > 300) return {60, "min"};
  return {1, "s"};
}

/// One chart: a line of a field over time, from `top` down.
std::string Chart(const FleetResult& result, double FleetResult::Point::* field, const char* title,
                  const char* color, double top) {
  double most = 0;
  for (const auto& point : result.timeline) most = std::max(most, point.*field);
  most = RoundUp(most);
  const double seconds = result.traffic_seconds;
  const double bottom = top + kHeight;
  std::string svg = Format("<text x=\"%.0f\" y=\"%.0f\">%s</text>\n", kLeft, top - 8, title);
  for (int i = 0; i <= kTicks; ++i) {
    const double y = bottom - kHeight * i / kTicks;
    svg += Format("<path d=\"M%.0f %.1fH%.0f\" stroke=\"#ddd\"/>", kLeft, y, kLeft + kWidth);
    svg += Format("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", kLeft - 6, y + 4,
                  most * i / kTicks);
  }
  const Unit unit = UnitOf(seconds);
  for (int i = 0; i <= kTicks; ++i) {
    svg += Format("<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.3g %s</text>\n",
                  kLeft + kWidth * i / kTicks, bottom + 18, seconds * i / kTicks / unit.seconds,
                  unit.name);
  }
  svg += Format("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", color);
  for (const auto& point : result.timeline) {
    svg += Format("%.1f,%.1f ", kLeft + kWidth * point.seconds / seconds,
                  bottom - kHeight * (point.*field) / most);
  }
  return svg + "\"/>\n";
}

}  // namespace

std::string PlotFleet(const FleetResult& result) {
  const double height = kTop + 2 * kHeight + kGap + 30;
  const double width = kLeft + kWidth + 30;
  return Format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n",
             width, height) +
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
         Chart(result, &FleetResult::Point::tokens_per_second, "tokens a second", "#1f77b4", kTop) +
         Chart(result, &FleetResult::Point::workers, "machines", "#d62728", kTop + kHeight + kGap) +
         "</svg>\n";
}

}  // namespace swarm::ctl
