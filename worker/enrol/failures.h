// Who has failed too often lately to be listened to: a bound on guesses, by source. Pure: the
// caller passes in the time. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace swarm::enrol {

struct FailureLimits {
  std::uint64_t failures_max = 10;  ///< of one source, within the window; then it has to wait
  Duration window = std::chrono::minutes(1);
  std::size_t sources_max = 1024;  ///< that are told apart; further ones count as one
};

class Failures {
 public:
  explicit Failures(const FailureLimits& limits) : limits_(limits) {}

  /// Whether the source may try now. Errors: kResourceExhausted, with the time to wait.
  Status Admit(const std::string& source, Timepoint now);
  void Count(const std::string& source, Timepoint now);

 private:
  /// The times of the source's failures within the window.
  std::vector<Timepoint>& Of(const std::string& source, Timepoint now);

  const FailureLimits limits_;
  std::map<std::string, std::vector<Timepoint>> times_;  // by source
};

}  // namespace swarm::enrol
