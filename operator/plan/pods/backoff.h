// Exponential back-off. The jitter is a function of the caller's name and the attempt, so a
// decision that is made again gives the same time. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace swarm::plan {

/// The pause after this many attempts: first × 2^(attempts − 1), at most `cap` (but at least
/// `first`), with a jitter of ±20 % that depends on `name` and `attempts`. No attempts: no pause.
std::chrono::seconds BackOff(std::chrono::seconds first, std::chrono::seconds cap,
                             std::uint64_t attempts, std::string_view name);

}  // namespace swarm::plan
