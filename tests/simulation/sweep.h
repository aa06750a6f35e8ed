// Many seeds, on several threads.
#pragma once

#include <string>
#include <vector>

#include "tests/simulation/simulation.h"

namespace swarm::simulation {

struct SweepOptions {
  std::uint64_t first = 0;
  std::uint64_t count = 1;
  unsigned threads = 1;
  std::uint64_t failures_max = 1;  ///< stops after so many
  Wishes wishes;
  Mutations mutations;
  bool verbose = false;
};

struct SeedFailure {
  std::uint64_t seed = 0;
  Violation violation;
};

struct SweepResult {
  std::vector<SeedFailure> failures;  ///< ordered by seed
  std::uint64_t seeds = 0;            ///< that were run
  std::uint64_t fingerprint = 0;      ///< of all seeds, in whatever order they ran
  std::uint64_t events = 0, commits = 0, worker_processes = 0, takeovers = 0, rollbacks = 0;
  double seconds = 0;
};

SweepResult Sweep(const SweepOptions& options);

/// What went wrong, and how to see it again.
std::string Describe(const SeedFailure& failure, const Wishes& wishes);

}  // namespace swarm::simulation
