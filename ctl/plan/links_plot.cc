#include "ctl/plan/links_plot.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "ctl/format.h"
#include "ctl/plan/link_rates.h"
#include "ctl/plan/plan_report.h"
#include "ctl/scale.h"

namespace swarm::ctl {
namespace {

using planner::LinkStudy;
using planner::MannerCurve;
using planner::Plan;

constexpr double kWidth = 1000, kHeight = 480;
constexpr double kLeft = 68, kRight = 314, kTop = 104, kBottom = 56;
constexpr double kCurvesWidth = kWidth - kLeft - kRight, kCurvesHeight = kHeight - kTop - kBottom;
constexpr double kNameHeight = 36;  // of a curve's name and its plan
constexpr double kRateWidth = 66;   // of "74.3 Mb/s"
constexpr double kStrip = 6;        // the height of the strip of leaders

/// On a light page and on a dark one, as those of a report's curves.
struct Color {
  const char* light;
  const char* dark;
};
constexpr std::array<Color, 5> kColors{{{"#0b62ad", "#69b3f5"},
                                        {"#d55e00", "#ff9d57"},
                                        {"#00806a", "#3ecfb0"},
                                        {"#a8447f", "#e58bc4"},
                                        {"#6b6f00", "#c9cd5a"}}};

std::string StyleOf(bool dark) {
  std::string style =
      Format(".page{fill:%s}text{fill:%s}.soft{fill:%s}.grid,.join{stroke:%s}.cut{stroke:%s}",
             dark ? "#14181d" : "#fff", dark ? "#e4e8ed" : "#1c2128", dark ? "#98a2ae" : "#5d6672",
             dark ? "#2c333b" : "#dfe3e8", dark ? "#98a2ae" : "#5d6672");
  for (std::size_t i = 0; i < kColors.size(); ++i) {
    const char* color = dark ? kColors[i].dark : kColors[i].light;
    style += Format(".s%zu{stroke:%s}.f%zu{fill:%s}", i, color, i, color);
  }
  return style;
}

std::size_t ColorOf(const MannerCurve& curve) {
  return static_cast<std::size_t>(curve.manner) % kColors.size();
}

/// The places of rates and throughputs in the picture.
struct Places {
  Scale rates, tokens;
  double X(double rate) const { return kLeft + kCurvesWidth * rates.HeightOf(rate); }
  double Y(double value) const { return kTop + kCurvesHeight * (1 - tokens.HeightOf(value)); }
  double Y(const Plan& plan) const { return Y(plan.prediction.tokens_per_second); }
};

Places PlacesOf(const LinkStudy& study, std::span<const double> rates) {
  std::vector<double> tokens;
  for (const MannerCurve& curve : study.curves) {
    for (const auto& [rate, plan] : curve.plans) {
      tokens.push_back(plan.prediction.tokens_per_second);
    }
  }
  // Ticks are round in Mb/s.
  Scale scale = LogScale(rates.front() / kMegabit, rates.back() / kMegabit);
  scale.low *= kMegabit;
  scale.high *= kMegabit;
  for (double& tick : scale.ticks) tick *= kMegabit;
  return {std::move(scale), ScaleFor(tokens, ScaleKind::kFromZero)};
}

std::string Axes(const Places& places) {
  std::string svg;
  for (const double tick : places.tokens.ticks) {
    svg += Format("<path class=\"grid\" d=\"M%.0f %.1fH%.0f\"/>", kLeft, places.Y(tick),
                  kLeft + kCurvesWidth);
    svg += Format("<text class=\"soft\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  kLeft - 10, places.Y(tick) + 4, TickText(tick).c_str());
  }
  for (const double tick : places.rates.ticks) {
    svg += Format("<path class=\"grid\" d=\"M%.1f %.0fv5\"/>", places.X(tick), kHeight - kBottom);
    svg += Format("<text class=\"soft\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
                  places.X(tick), kHeight - kBottom + 20, TickText(tick / kMegabit).c_str());
  }
  return svg + Format(
                   "<text class=\"soft\" x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">rate of "
                   "every machine's line, up and down, Mb/s</text>\n",
                   kLeft + kCurvesWidth / 2, kHeight - 14);
}

std::string CurveSvg(const MannerCurve& curve, std::span<const double> rates,
                     const Places& places) {
  std::array<std::string, 2> paths;  // in memory, swapped
  for (auto from = curve.plans.begin(), to = std::next(from); to != curve.plans.end();
       from = to, ++to) {
    const bool swaps = from->second.way.spec.pipeline.residency == api::Residency::kSwap;
    std::string& path = paths[swaps ? 1 : 0];
    const std::string begin = Format("M%.1f %.1f", places.X(from->first), places.Y(from->second));
    const std::string end = Format("L%.1f %.1f", places.X(to->first), places.Y(to->second));
    path += (path.ends_with("L" + begin.substr(1)) ? "" : begin) + end;
  }
  // It shows at the sides of Sync, where both are as fast.
  const bool delayed = curve.manner == planner::Manner::kDelayedReplicas ||
                       curve.manner == planner::Manner::kDelayedPipeline;
  std::string svg;
  for (std::size_t swaps = 0; swaps < paths.size(); ++swaps) {
    if (paths[swaps].empty()) continue;
    svg += Format("<path class=\"line%s s%zu\"%s d=\"", delayed ? " broad" : "", ColorOf(curve),
                  swaps == 1 ? " stroke-dasharray=\"9 5\"" : "") +
           paths[swaps] + "\"/>\n";
  }
  for (const double rate : rates) {
    svg += Format("<circle class=\"f%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>", ColorOf(curve),
                  places.X(rate), places.Y(curve.plans.at(rate)));
  }
  return svg + "\n";
}

/// Moves heights, which are ascending, so that each has room and none is below `bottom`.
void Spread(std::vector<double>* heights, double room, double bottom) {
  for (std::size_t i = 1; i < heights->size(); ++i) {
    (*heights)[i] = std::max((*heights)[i], (*heights)[i - 1] + room);
  }
  double most = bottom;
  for (std::size_t i = heights->size(); i-- > 0; most -= room) {
    (*heights)[i] = std::min((*heights)[i], most);
    most = (*heights)[i];
  }
}

/// Beside its end each curve has its name and its plan there.
std::string Names(const LinkStudy& study, double rate, const Places& places) {
  std::vector<std::pair<double, const MannerCurve*>> ends;
  for (const MannerCurve& curve : study.curves) {
    ends.emplace_back(places.Y(curve.plans.at(rate)), &curve);
  }
  std::ranges::stable_sort(ends, {}, &decltype(ends)::value_type::first);
  std::vector<double> heights;
  for (const auto& [y, curve] : ends) heights.push_back(y);
  Spread(&heights, kNameHeight, kHeight - kBottom - kNameHeight / 2);
  const double x = places.X(rate) + 30;
  std::string svg;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const MannerCurve& curve = *ends[i].second;
    svg += Format("<path class=\"join\" d=\"M%.1f %.1fL%.1f %.1f\"/>", places.X(rate) + 6,
                  ends[i].first, x - 5, heights[i]);
    svg += Format("<text class=\"name f%zu\" x=\"%.1f\" y=\"%.1f\">%s</text>", ColorOf(curve), x,
                  heights[i] + 1, MannerText(curve.manner).c_str());
    svg += Format("<text class=\"soft small\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x,
                  heights[i] + 15, PlanText(curve.plans.at(rate)).c_str());
  }
  return svg;
}

/// The strip of those that lead, and at which rates others begin to.
std::string Leaders(const LinkStudy& study, double last, const Places& places) {
  std::string svg;
  const double strip = kTop - 14;
  std::array<double, 2> taken{};  // by row of rates: to where
  for (std::size_t i = 0; i < study.leads.size(); ++i) {
    const planner::Lead& lead = study.leads[i];
    const MannerCurve& curve = study.curves[lead.curve];
    const double x = places.X(lead.rate);
    const double end = places.X(i + 1 < study.leads.size() ? study.leads[i + 1].rate : last);
    svg += Format("<rect class=\"f%zu\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%.0f\"/>\n",
                  ColorOf(curve), x, strip, end - x, kStrip);
    if (i == 0) continue;
    const double y = places.Y(curve.plans.at(lead.rate));
    svg += Format("<path class=\"cut\" d=\"M%.1f %.0fV%.0f\"/>", x, strip, kHeight - kBottom);
    svg += Format("<circle class=\"page cut\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>", x, y);
    const std::size_t row = x - kRateWidth / 2 >= taken[0] ? 0 : 1;
    if (x - kRateWidth / 2 < taken[row]) continue;
    taken[row] = x + kRateWidth / 2;
    svg += Format("<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s Mb/s</text>\n", x,
                  strip - 6 - 15 * static_cast<double>(row), MbpsText(lead.rate).c_str());
  }
  return svg + Format("<text class=\"soft\" x=\"%.1f\" y=\"%.0f\">the fastest</text>\n",
                      places.X(last) + 30, strip + kStrip + 1);
}

}  // namespace

std::string PlotLinks(const LinkStudy& study, std::span<const double> rates,
                      const std::string& job) {
  const Places places = PlacesOf(study, rates);
  std::string svg =
      Format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n",
             kWidth, kHeight);
  svg += "<title>" + job + ": tokens a second by the rate of the lines</title>\n<desc>The fastest:";
  for (const std::string& text : LeadTexts(study)) svg += " " + text + ".";
  svg +=
      "</desc>\n<style>text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
      ".title{font-size:16px;font-weight:600}.name{font-weight:600}.small{font-size:12px}"
      ".line{fill:none;stroke-width:2.5;stroke-linejoin:round}.broad{stroke-width:6;opacity:.5}"
      ".cut{stroke-dasharray:3 3}circle.cut{stroke-width:2;stroke-dasharray:none}\n" +
      StyleOf(/*dark=*/false) + "\n@media (prefers-color-scheme:dark){" + StyleOf(/*dark=*/true) +
      "}</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
  svg += Format("<text class=\"title\" x=\"%.0f\" y=\"28\">", kLeft) + job + "</text>\n";
  svg +=
      Format("<text class=\"soft\" x=\"%.0f\" y=\"48\">predicted tokens a second</text>\n", kLeft);
  svg += Axes(places);
  // The plainest lies above the others.
  for (std::size_t i = study.curves.size(); i-- > 0;) {
    svg += CurveSvg(study.curves[i], rates, places);
  }
  return svg + Leaders(study, rates.back(), places) + Names(study, rates.back(), places) +
         "</svg>\n";
}

}  // namespace swarm::ctl
