// A chart as HTML: curves in SVG, with labels beside it that keep their size on every screen. Pure.
#pragma once

#include <span>
#include <string>

#include "ctl/report/report.h"

namespace swarm::ctl {

/// A figure. The script of the page (html_style.h) shows the values under the pointer.
std::string ChartHtml(const Chart& chart, std::span<const Mark> marks);

/// What the marks mean, of those that there are; empty without marks.
std::string MarkLegendHtml(std::span<const Mark> marks);

}  // namespace swarm::ctl
