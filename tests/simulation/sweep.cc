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

/// The flags of `simulate` that make these wishes.
static std::string FlagsOf(const Wishes& wishes) {
  std::string flags;
  const auto add = [&flags](const std::string& flag) { flags += " --" + flag; };
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  if (wishes.order_sensitive) add("order-sensitive " + text(*wishes.order_sensitive));
  if (wishes.delayed) add("delayed " + text(*wishes.delayed));
  if (wishes.stages) add("stages " + std::to_string(*wishes.stages));
  if (wishes.faults) add("faults " + std::to_string(*wishes.faults));
  if (wishes.only) add("only " + std::string(NameOf(*wishes.only)));
  const std::pair<bool, const char*> switches[] = {
      {wishes.unlike_links, "unlike-links"}, {wishes.grids, "grids"},    {wishes.sparse, "sparse"},
      {wishes.divided, "divided"},           {wishes.local, "local"},    {wishes.audits, "audits"},
      {wishes.regions, "regions"},           {wishes.survive, "survive"}};
  for (const auto& [wished, name] : switches) {
    if (wished) add(name);
  }
  return flags;
}

std::string Describe(const SeedFailure& failure, const Wishes& wishes) {
  return failure.violation.invariant + " violated: " + failure.violation.text + "\n  " +
         Describe(DrawScenario(failure.seed, wishes)) + "\n  replay: simulate --seed " +
         std::to_string(failure.seed) + FlagsOf(wishes) + " --verbose";
}

}  // namespace swarm::simulation
