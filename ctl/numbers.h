// Numbers as text for messages.
#pragma once

#include <string>

#include "base/time.h"

namespace swarm::ctl {

/// At most six decimals, without trailing zeros: "3", "0.05".
inline std::string FormatNumber(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// "10 s", "0.5 s".
inline std::string FormatSeconds(Duration duration) {
  return FormatNumber(ToSeconds(duration)) + " s";
}

}  // namespace swarm::ctl
