#include "api/format/quantity.h"

#include <charconv>
#include <utility>

namespace swarm::api {

std::optional<double> ParseQuantity(std::string_view text) {
  // What else from_chars reads, as -1 and inf, is no quantity.
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},     {"m", 1e-3},    {"k", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},
      {"P", 1e15}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}};
  for (const auto& [unit, factor] : kUnits) {
    if (std::string_view(stop, end) == unit) return number * factor;
  }
  return std::nullopt;
}

}  // namespace swarm::api
