// Text in the way of printf.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace swarm::ctl {

/// What printf would print.
[[gnu::format(printf, 1, 2)]] inline std::string Format(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

}  // namespace swarm::ctl
