#include "worker/protocol/messages/retired.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace swarm::protocol {

bool Retired::Has(const WorkerId& id) const {
  std::string_view rest = id.value;
  if (below == 0 || !rest.starts_with(prefix)) return false;
  rest.remove_prefix(prefix.size());
  rest = rest.substr(0, rest.find('-'));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || end != rest.data() + rest.size()) return false;
  return number < below && !std::ranges::binary_search(except, number);
}

bool Retired::Learn(const Retired& other) {
  if (other.count() <= count()) return false;
  *this = other;
  return true;
}

}  // namespace swarm::protocol
