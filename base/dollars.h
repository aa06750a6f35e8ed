// An amount of money in a few characters, for people.
#pragma once

#include <string>

namespace swarm {

/// "$12.35", "$0.0042", "<$0.0001". Amounts below ten cents have four digits, since a short run
/// costs no more. "-" if it is negative or no number.
std::string DollarText(double dollars);

}  // namespace swarm
