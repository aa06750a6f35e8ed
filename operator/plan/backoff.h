// How long to wait before the next try: doubling, capped, and with a jitter that is a function of
// what waits, so that a decision taken again is the same. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace swarm::plan {

/// first × 2^(attempts − 1), at most `cap` (but not less than `first`), 20 % more or less as `who`
/// and the attempt give it. No attempts: no wait.
std::chrono::seconds BackOff(std::chrono::seconds first, std::chrono::seconds cap,
                             std::uint64_t attempts, std::string_view who);

}  // namespace swarm::plan
