// The forms of a report. Pure.
#pragma once

#include <string>

#include "ctl/report/report.h"

namespace swarm::ctl {

/// One file that loads nothing from elsewhere: style, pictures and a little script are in it.
std::string ToHtml(const Report& report);

std::string ToMarkdown(const Report& report);

/// An object, indented, with a newline at the end.
std::string ToJson(const Report& report);

}  // namespace swarm::ctl
