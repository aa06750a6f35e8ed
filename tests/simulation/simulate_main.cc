// Runs seeds of the deterministic simulation. Exit code 1 if an invariant is violated.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/version.h"
#include "tests/simulation/sweep.h"

namespace {

using namespace swarm::simulation;

int Run(const SweepOptions& options, bool fingerprint) {
  if (options.verbose) {
    std::printf("%s\n", Describe(DrawScenario(options.first, options.wishes)).c_str());
  }
  const SweepResult result = Sweep(options);
  for (const SeedFailure& failure : result.failures) {
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(failure.seed),
                Describe(failure, options.wishes).c_str());
  }
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu seeds from %llu, %llu failed; %llu events, %llu commits, %llu worker processes, "
      "%llu takeovers, %llu rollbacks; %.1f s\n",
      number(result.seeds), number(options.first), number(result.failures.size()),
      number(result.events), number(result.commits), number(result.worker_processes),
      number(result.takeovers), number(result.rollbacks), result.seconds);
  if (fingerprint) std::printf("fingerprint %016llx\n", number(result.fingerprint));
  return result.failures.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  SweepOptions options;
  std::vector<std::string> mutations, kinds;
  std::string only;
  bool fingerprint = false;
  for (std::uint64_t i = 0; i < kFaultKinds; ++i) {
    kinds.emplace_back(NameOf(static_cast<FaultKind>(i)));
  }
  CLI::App app("Deterministic simulation of trainer and workers under faults");
  app.set_version_flag("--version", swarm::Version());
  app.add_option("--seed", options.first, "The first seed");
  app.add_option("--count", options.count, "How many seeds");
  app.add_option("--threads", options.threads, "Seeds at a time");
  app.add_option("--failures", options.failures_max, "Stop after so many");
  app.add_flag("--verbose", options.verbose, "Print every event (of one seed)");
  app.add_flag(
      "--fingerprint", fingerprint,
      "Print a number that stands for all orders and actions: equal where nothing was decided "
      "differently");
  app.add_option("--mutate", mutations, "Break these rules")->check(CLI::IsMember(MutationNames()));
  app.add_option("--faults", options.wishes.faults, "How many, instead of drawn");
  app.add_option("--stages", options.wishes.stages, "S, instead of drawn");
  app.add_option("--order-sensitive", options.wishes.order_sensitive, "Sums as of floats, or not");
  app.add_option("--delayed", options.wishes.delayed, "Step mode Delayed, or Sync");
  app.add_flag("--grids", options.wishes.grids, "Large stages, whose sums go over a grid");
  app.add_flag("--unlike-links", options.wishes.unlike_links, "Workers report links of all kinds");
  app.add_flag("--sparse", options.wishes.sparse,
               "Workers have one or two neighbours in the stage beside their own");
  app.add_flag("--divided", options.wishes.divided, "Parts of stages have holders");
  app.add_flag("--local", options.wishes.local, "Replicas take steps of their own");
  app.add_flag("--audits", options.wishes.audits, "Microbatches are executed twice");
  app.add_flag("--regions", options.wishes.regions,
               "Workers are in two or three regions, which may be cut off or lost");
  app.add_flag("--survive", options.wishes.survive,
               "The same, and workers move so that each stage is in two regions");
  app.add_option("--only", only, "The one kind of fault")->check(CLI::IsMember(kinds));
  CLI11_PARSE(app, argc, argv);
  for (std::uint64_t i = 0; i < kFaultKinds; ++i) {
    if (kinds[i] == only) options.wishes.only = static_cast<FaultKind>(i);
  }
  for (const std::string& name : mutations) Mutate(name, &options.mutations);
  return Run(options, fingerprint);
}
