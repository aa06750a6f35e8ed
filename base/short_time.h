// A length of time in a few characters, for people.
#pragma once

#include <string>

namespace swarm {

/// "1h02m", "3m05s", "12s": its two largest units. "-" if it is negative or no number of seconds.
std::string ShortTime(double seconds);

}  // namespace swarm
