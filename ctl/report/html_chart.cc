#include "ctl/report/html_chart.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ctl/format.h"
#include "ctl/report/html_text.h"
#include "ctl/report/text.h"

namespace swarm::ctl {
namespace {

// The picture is stretched to its place; lines keep their width.
constexpr double kWidth = 1000, kHeight = 250;
constexpr std::size_t kColors = 6;  // classes c0 to c5
constexpr double kNearEnd = 0.06;   // of the width: labels closer to an end are aligned to it

constexpr std::ptrdiff_t kFullMarksMax = 25;  // of a class

struct MarkStyle {
  EventClass what;
  const char* name;  ///< of the class in the style
  const char* label;
};
constexpr std::array<MarkStyle, 4> kMarkStyles{{
    {EventClass::kFault, "fault", "fault"},
    {EventClass::kTakeover, "takeover", "a new trainer, or a return to a checkpoint"},
    {EventClass::kRoster, "roster", "a worker comes, goes or moves"},
    {EventClass::kCheckpoint, "checkpoint", "checkpoint"},
}};

/// The places of steps and values in the picture.
struct Frame {
  Scale steps, values;
  double X(double step) const { return kWidth * steps.HeightOf(step); }
  double Y(double value) const { return kHeight * (1 - values.HeightOf(value)); }
};

Frame FrameOf(const Chart& chart) {
  std::vector<Point> all;
  for (const CurveLine& line : chart.lines) {
    all.insert(all.end(), line.points.begin(), line.points.end());
  }
  const auto [first, last] = std::minmax_element(
      all.begin(), all.end(), [](const Point& a, const Point& b) { return a.step < b.step; });
  std::vector<double> values;
  for (const Point& point : all) values.push_back(point.value);
  return {all.empty() ? StepScale(0, 1) : StepScale(first->step, last->step),
          ScaleFor(values, chart.scale)};
}

std::string ClassOfLine(std::size_t index) { return "c" + std::to_string(index % kColors); }

std::string LineHtml(const CurveLine& line, std::size_t index, const Frame& frame) {
  std::string path;
  for (const Point& point : line.points) {
    const bool begins = path.empty() || line.dots;
    path += Format("%s%.1f %.2f%s", begins ? "M" : "L", frame.X(point.step), frame.Y(point.value),
                   line.dots ? "h0" : "");
  }
  if (path.empty()) return "";
  // Lines that are the same as the first show at its sides.
  const char* more = line.dots ? " dots" : index > 0 ? " under" : "";
  return "<path class=\"line " + ClassOfLine(index) + more + "\" data-name=\"" + Escape(line.name) +
         "\" d=\"" + path + "\"/>\n";
}

/// From where to where in the picture, from above, a mark of a class goes.
std::pair<double, double> SpanOfMarks(EventClass what, std::ptrdiff_t count) {
  // Checkpoints are many, and part of the plan.
  if (what == EventClass::kCheckpoint) return {0.94 * kHeight, kHeight};
  // Many lines would hide the curve.
  return {0, count > kFullMarksMax ? 0.06 * kHeight : kHeight};
}

std::string MarksHtml(std::span<const Mark> marks, const Frame& frame) {
  std::string html;
  for (const MarkStyle& style : kMarkStyles) {
    const auto is_of_class = [&](const Mark& mark) { return mark.what == style.what; };
    const auto [top, bottom] =
        SpanOfMarks(style.what, std::count_if(marks.begin(), marks.end(), is_of_class));
    for (const Mark& mark : marks) {
      if (!is_of_class(mark)) continue;
      html += Format("<path class=\"mark %s\" d=\"M%.1f %.0fV%.0f\"><title>", style.name,
                     frame.X(mark.step), top, bottom) +
              Escape(mark.text) + "</title></path>\n";
    }
  }
  return html;
}

std::string LegendHtml(const Chart& chart) {
  if (chart.lines.size() < 2) return "";
  std::string html = "<span class=\"legend\">";
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    html += "<span><i class=\"key " + ClassOfLine(i) + (chart.lines[i].dots ? " dots" : "") +
            "\"></i>" + Escape(chart.lines[i].name) + "</span>";
  }
  return html + "</span>";
}

std::string StepLabels(const Frame& frame) {
  std::string html;
  for (const double tick : frame.steps.ticks) {
    const double place = frame.steps.HeightOf(tick);
    const char* end = place < kNearEnd       ? " class=\"first\""
                      : place > 1 - kNearEnd ? " class=\"last\""
                                             : "";
    html += Format("<span%s style=\"left:%.2f%%\">", end, 100 * place) +
            CountText(static_cast<std::uint64_t>(tick)) + "</span>";
  }
  return html;
}

}  // namespace

std::string ChartHtml(const Chart& chart, std::span<const Mark> marks) {
  const Frame frame = FrameOf(chart);
  std::string grid, labels;
  for (const double tick : frame.values.ticks) {
    grid += Format("M0 %.2fH%.0f", frame.Y(tick), kWidth);
    labels += Format("<span style=\"bottom:%.2f%%\">%s</span>", 100 * frame.values.HeightOf(tick),
                     TickText(tick).c_str());
  }
  const std::string unit =
      chart.unit +
      (frame.values.logarithmic ? std::string(chart.unit.empty() ? "" : ", ") + "logarithmic" : "");
  std::string html = "<figure class=\"chart\">\n<figcaption><b>" + Escape(chart.title) + "</b>";
  if (!unit.empty()) html += " <span class=\"unit\">" + Escape(unit) + "</span>";
  html += LegendHtml(chart) + "<output></output></figcaption>\n<div class=\"plot\">\n";
  html += "<div class=\"ys\" aria-hidden=\"true\">" + labels + "</div>\n";
  html += Format(
      "<svg viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=\"none\" role=\"img\" data-x=\"%.17g "
      "%.17g\" data-y=\"%.17g %.17g %d\">\n<title>",
      kWidth, kHeight, frame.steps.low, frame.steps.high, frame.values.low, frame.values.high,
      frame.values.logarithmic ? 1 : 0);
  html += Escape(chart.title) + " by step</title>\n<path class=\"grid\" d=\"" + grid + "\"/>\n";
  html += MarksHtml(marks, frame);
  // The first line lies above the others, and dots above all.
  for (const bool dots : {false, true}) {
    for (std::size_t i = chart.lines.size(); i-- > 0;) {
      if (chart.lines[i].dots == dots) html += LineHtml(chart.lines[i], i, frame);
    }
  }
  html += "<path class=\"cursor\"/>\n</svg>\n<div class=\"xs\" aria-hidden=\"true\">" +
          StepLabels(frame) + "</div>\n</div>\n</figure>\n";
  return html;
}

std::string MarkLegendHtml(std::span<const Mark> marks) {
  std::string html;
  for (const MarkStyle& style : kMarkStyles) {
    const bool there = std::any_of(marks.begin(), marks.end(),
                                   [&](const Mark& mark) { return mark.what == style.what; });
    if (there) {
      html +=
          std::string("<span><i class=\"key ") + style.name + "\"></i>" + style.label + "</span>";
    }
  }
  return html.empty() ? "" : "<p class=\"legend\">" + html + "</p>\n";
}

}  // namespace swarm::ctl
