#include "api/format/wall_time.h"

#include <cstdio>

namespace swarm::api {
namespace {

// The functions below remove what they read from the front of `text`.

bool TakeChar(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

// Exactly `digits` decimal digits.
std::optional<int> TakeDigits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int number = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return number;
}

// "Z", or "+HH:MM": how far the time is ahead of UTC.
std::optional<std::chrono::seconds> TakeOffset(std::string_view& text) {
  if (TakeChar(text, 'Z')) return std::chrono::seconds(0);
  const bool behind = text.starts_with('-');
  if (!behind && !text.starts_with('+')) return std::nullopt;
  text.remove_prefix(1);
  const auto hours = TakeDigits(text, 2);
  const bool colon = TakeChar(text, ':');
  const auto minutes = TakeDigits(text, 2);
  if (!hours || !colon || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::chrono::seconds ahead = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return behind ? -ahead : ahead;
}

std::optional<std::chrono::sys_days> TakeDate(std::string_view& text) {
  const auto year = TakeDigits(text, 4);
  const bool first = TakeChar(text, '-');
  const auto month = TakeDigits(text, 2);
  const bool second = TakeChar(text, '-');
  const auto day = TakeDigits(text, 2);
  if (!year || !month || !day || !first || !second) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  return date.ok() ? std::optional(std::chrono::sys_days(date)) : std::nullopt;
}

std::optional<std::chrono::seconds> TakeTimeOfDay(std::string_view& text) {
  const auto hours = TakeDigits(text, 2);
  const bool first = TakeChar(text, ':');
  const auto minutes = TakeDigits(text, 2);
  const bool second = TakeChar(text, ':');
  const auto seconds = TakeDigits(text, 2);
  if (!hours || !minutes || !seconds || !first || !second) return std::nullopt;
  if (*hours > 23 || *minutes > 59 || *seconds > 59) return std::nullopt;
  if (TakeChar(text, '.')) {
    if (!TakeDigits(text, 1)) return std::nullopt;
    while (TakeDigits(text, 1)) continue;
  }
  return std::chrono::hours(*hours) + std::chrono::minutes(*minutes) +
         std::chrono::seconds(*seconds);
}

}  // namespace

std::string FormatTime(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

std::optional<WallTime> ParseTime(std::string_view text) {
  const auto day = TakeDate(text);
  const bool separated = TakeChar(text, 'T');
  const auto clock = day && separated ? TakeTimeOfDay(text) : std::nullopt;
  const auto ahead = clock ? TakeOffset(text) : std::nullopt;
  if (!ahead || !text.empty()) return std::nullopt;
  const WallTime time = *day + *clock - *ahead;
  const WallTime end = std::chrono::sys_days(std::chrono::year(10000) / 1 / 1);
  return time >= WallTime() && time < end ? std::optional(time) : std::nullopt;
}

}  // namespace swarm::api
