#include "planner/fleet.h"

namespace swarm::planner {

Link LinkOf(std::span<const Link> links, std::string_view a, std::string_view b) {
  const auto fits = [](std::string_view pattern, std::string_view name) {
    return pattern == "*" || pattern == name;
  };
  Link found;
  for (const Link& link : links) {
    if ((fits(link.a, a) && fits(link.b, b)) || (fits(link.b, a) && fits(link.a, b))) found = link;
  }
  return found;
}

}  // namespace swarm::planner
