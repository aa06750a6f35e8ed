// Numbers as a report writes them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "base/short_time.h"
#include "ctl/format.h"
#include "ctl/view/live_view.h"

namespace swarm::ctl {

/// In the place of a number that is not there.
inline constexpr const char* kNothing = "-";

/// "1,234,567".
inline std::string CountText(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// "1 step", "2,000 steps".
inline std::string Plural(std::uint64_t count, const std::string& noun) {
  return CountText(count) + " " + noun + (count == 1 ? "" : "s");
}

/// "0 s", "0.052 s", "3.4 s", "3m05s".
inline std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds)) return kNothing;
  if (seconds == 0) return "0 s";
  if (seconds >= 59.95) return ShortTime(seconds);
  return Format(seconds < 0.9995 ? "%.3f s" : "%.1f s", seconds);
}

/// Four digits; "-" if it is not finite.
inline std::string LossText(double loss) {
  return std::isfinite(loss) ? Format("%.4f", loss) : kNothing;
}

}  // namespace swarm::ctl
