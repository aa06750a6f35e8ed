#include "tests/simulation/sweep.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/rng.h"

namespace swarm::simulation {

SweepResult Sweep(const SweepOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t end = options.first + options.count;
  std::atomic<std::uint64_t> next{options.first};
  std::mutex mutex;
  SweepResult result;
  const auto work = [&] {
    for (std::uint64_t seed = next++; seed < end; seed = next++) {
      const Outcome outcome = RunSeed(seed, options.wishes, options.mutations, options.verbose);
      const std::lock_guard lock(mutex);
      ++result.seeds;
      result.fingerprint += MixAll(seed, outcome.fingerprint);
      result.events += outcome.events;
      result.commits += outcome.decisions;
      result.worker_processes += outcome.incarnations;
      result.takeovers += outcome.trainers - 1;
      result.rollbacks += outcome.generations - 1;
      if (!outcome.violation) continue;
      result.failures.push_back({seed, *outcome.violation});
      if (result.failures.size() >= options.failures_max) next = end;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < options.threads; ++i) threads.emplace_back(work);
  }
  std::sort(result.failures.begin(), result.failures.end(),
            [](const auto& a, const auto& b) { return a.seed < b.seed; });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

std::string Describe(const SeedFailure& failure, const Wishes& wishes) {
  const std::string only = wishes.only ? " --only " + std::string(NameOf(*wishes.only)) : "";
  const std::string links = wishes.unlike_links ? " --unlike-links" : "";
  const std::string divided = wishes.divided ? " --divided" : "";
  const std::string local = wishes.local ? " --local" : "";
  const std::string audits = wishes.audits ? " --audits" : "";
  const std::string survive = wishes.survive ? " --survive" : "";
  return failure.violation.invariant + " violated: " + failure.violation.text + "\n  " +
         Describe(DrawScenario(failure.seed, wishes)) + "\n  replay: simulate --seed " +
         std::to_string(failure.seed) + only + links + divided + local + audits + survive +
         " --verbose";
}

}  // namespace swarm::simulation
