#include "ctl/simulate/simulate_command.h"

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "base/files.h"
#include "ctl/format.h"
#include "ctl/simulate/trace.h"
#include "ctl/simulate/trace_replay.h"

namespace swarm::ctl {
namespace {

struct NamedPolicy {
  const char* name;
  ReplayPolicy policy;
};
constexpr std::array<NamedPolicy, 4> kPolicies = {{{"Moves", ReplayPolicy::kMoves},
                                                   {"Copies", ReplayPolicy::kCopies},
                                                   {"Periodic", ReplayPolicy::kPeriodic},
                                                   {"None", ReplayPolicy::kNone}}};

/// Means over the runs.
struct Means {
  double seconds = 0;
  double efficiency = 0;
  double attainable_efficiency = 0;
  double stage_empty_share = 0;
  double moves = 0;
  double fetches = 0;
  double least_moves = 0;
  int departures = 0;
  int joins = 0;
};

Means Measure(const Trace& trace, const SimulateOptions& options, const NamedPolicy& named) {
  ReplayOptions replay;
  replay.stage_costs = options.stage_costs;
  if (replay.stage_costs.empty()) {
    replay.stage_costs.assign(static_cast<std::size_t>(options.stages), 1.0);
  }
  replay.policy = named.policy;
  replay.model.balance.state_load_seconds = options.state_load_seconds;
  replay.model.copies_per_worker = options.copies;
  replay.model.copy_drag = options.copy_drag;
  replay.period_seconds = options.period_seconds;
  replay.switch_seconds = options.switch_seconds;
  Means mean;
  for (int run = 0; run < options.runs; ++run) {
    replay.seed = options.seed + static_cast<std::uint64_t>(run);
    const ReplayResult result = Replay(trace, replay);
    mean.efficiency += result.efficiency / options.runs;
    mean.attainable_efficiency += result.attainable_efficiency / options.runs;
    mean.stage_empty_share += result.stage_empty_share / options.runs;
    mean.moves += static_cast<double>(result.moves) / options.runs;
    mean.fetches += static_cast<double>(result.fetches) / options.runs;
    mean.least_moves += static_cast<double>(result.least_moves) / options.runs;
    mean.seconds = result.seconds;
    mean.departures = result.departures;
    mean.joins = result.joins;
  }
  return mean;
}

nlohmann::json ToJson(const Means& means) {
  return {{"efficiency", means.efficiency},
          {"moves", means.moves},
          {"fetches", means.fetches},
          {"stage_empty_seconds", means.stage_empty_share * means.seconds},
          {"stage_empty_share", means.stage_empty_share}};
}

void PrintText(const SimulateOptions& options, const Trace& trace,
               const std::vector<std::pair<std::string, Means>>& all, std::ostream& out) {
  const Means& any = all.front().second;
  out << Format(
      "%s: %.1f h, %zu workers at first, %d departures, %d joins; %d stages, %g s to load a"
      " stage\n",
      options.trace.c_str(), any.seconds / 3600, trace.events.front().joins.size(), any.departures,
      any.joins, options.stages, options.state_load_seconds);
  out << "policy     throughput/optimum    moves  fetches  some stage empty\n";
  for (const auto& [name, means] : all) {
    out << Format("%-9s  %16.2f %%  %7.1f  %7.1f  %14.3f %%\n", name.c_str(),
                  100 * means.efficiency, means.moves, means.fetches,
                  100 * means.stage_empty_share);
  }
  out << Format("%-9s  %16.2f %%  %7.1f\n", "bound", 100 * any.attainable_efficiency,
                any.least_moves)
      << "Moves:  what swarm-worker does: a move is a leave and a join\n"
      << "Copies: a study; workers keep states of other stages at hand. swarm-worker does not\n"
      << "bound:  every move free and instant, joiners still load; the fewest moves for that\n";
}

}  // namespace

ExitCode SimulateTrace(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.stage_costs.empty() &&
      options.stage_costs.size() != static_cast<std::size_t>(options.stages)) {
    err << "--stage-costs has " << options.stage_costs.size() << " values for " << options.stages
        << " stages; give one a stage\n";
    return ExitCode::kBadUsage;
  }
  const Result<std::string> text = ReadFile(options.trace);
  const Result<Trace> trace = text.ok() ? ParseTrace(*text) : Result<Trace>(text.status());
  if (!trace.ok()) {
    err << trace.status().WithContext(options.trace).ToString() << "\n";
    return ExitCode::kBadUsage;
  }
  std::vector<std::pair<std::string, Means>> all;
  for (const NamedPolicy& named : kPolicies) {
    Means means = Measure(*trace, options, named);
    const bool chosen = options.policy == named.name;
    all.insert(chosen ? all.begin() : all.end(), {named.name, means});
  }
  if (!options.json) {
    PrintText(options, *trace, all, out);
    return ExitCode::kOk;
  }
  const Means& chosen = all.front().second;
  nlohmann::json json = ToJson(chosen);
  json["policy"] = options.policy;
  json["trace"] = options.trace;
  json["seconds"] = chosen.seconds;
  json["stages"] = options.stages;
  json["state_load_seconds"] = options.state_load_seconds;
  json["losses"] = chosen.departures;
  json["joins"] = chosen.joins;
  json["attainable_efficiency"] = chosen.attainable_efficiency;
  json["least_moves"] = chosen.least_moves;
  for (const auto& [name, means] : all) json["policies"][name] = ToJson(means);
  out << json.dump(2) << "\n";
  return ExitCode::kOk;
}

}  // namespace swarm::ctl
