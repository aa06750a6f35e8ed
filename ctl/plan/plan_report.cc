#include "ctl/plan/plan_report.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "api/format/enum_names.h"
#include "base/gibibytes.h"
#include "ctl/format.h"
#include "planner/choice.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using planner::Limit;
using planner::Plan;
using planner::StagePrediction;

const char* NameOf(Limit limit) {
  switch (limit) {
    case Limit::kCompute:
      return "Compute";
    case Limit::kDisk:
      return "Disk";
    case Limit::kHostMemory:
      return "HostMemory";
    case Limit::kDeviceLink:
      return "DeviceLink";
    case Limit::kUpdate:
      return "Update";
    case Limit::kLine:
      return "Line";
    case Limit::kConnection:
      return "Connection";
    case Limit::kInFlight:
      return "InFlight";
    case Limit::kSum:
      return "Sum";
    case Limit::kStepLatency:
      return "StepLatency";
  }
  return "";
}

/// "16 x fast + 4 x slow"
std::string MachinesText(const std::vector<std::uint64_t>& counts, const planner::Fleet& fleet) {
  std::string text;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    if (counts[g] == 0) continue;
    if (!text.empty()) text += " + ";
    text += std::to_string(counts[g]) + " x " + fleet.groups[g].name;
  }
  return text;
}

std::string TurnText(const planner::Turn& turn) {
  std::string text;
  const auto add = [&](const std::optional<double>& factor, const char* what) {
    if (!factor) return;
    if (!text.empty()) text += ", or ";
    text += Format("%s %.3g times as fast", what, *factor);
  };
  add(turn.slower_links, "links");
  add(turn.faster_links, "links");
  add(turn.slower_devices, "devices");
  add(turn.faster_devices, "devices");
  add(turn.slower_hosts, "hosts");
  add(turn.faster_hosts, "hosts");
  if (turn.smaller_devices) {
    text += (text.empty() ? "" : ", or ") +
            ("devices of less than " + GibibytesText(*turn.smaller_devices));
  }
  return text.empty() ? "nothing within a factor of 1000" : text;
}

void Row(std::ostream& out, const char* what, const std::string& value) {
  out << Format("%-18s %s\n", what, value.c_str());
}

std::string WayText(const Plan& plan) {
  const api::Spec& spec = plan.way.spec;
  return Format(
      "%2llu stages  %-6s  %-7s  microbatch %2llu%s%s",
      static_cast<unsigned long long>(spec.pipeline.stages),
      std::string(spec.pipeline.stages == 1 ? "-" : swarm::NameOf(spec.pipeline.boundary.codec))
          .c_str(),
      std::string(swarm::NameOf(spec.training.stepMode)).c_str(),
      static_cast<unsigned long long>(spec.training.microbatchSize),
      spec.training.local.overlap ? "  overlapped" : "",
      spec.pipeline.residency == api::Residency::kSwap ? "  swapped" : "");
}

json StageNumbers(const StagePrediction& stage) {
  return {{"firstLayer", stage.run.first},
          {"layers", stage.run.count},
          {"machines", stage.machines},
          {"parameters", stage.parameters},
          {"tokenGigaflops", stage.token_flops / 1e9},
          {"busyShare", stage.busy_share},
          {"memoryGiB", stage.memory_bytes / kGibibyte},
          {"sentMbps", stage.bytes_per_second / kMegabit},
          {"inFlight", stage.in_flight}};
}

json SwapJson(const planner::SwapPrediction& swap) {
  return {{"segments", swap.segments},
          {"together", swap.tasks},
          {"inMemory", swap.in_memory},
          {"computeSeconds", swap.compute_seconds},
          {"passSeconds", swap.pass_seconds},
          {"waitsFor", NameOf(swap.waits)},
          {"updateSeconds", swap.update_seconds},
          {"updateWaitsFor", NameOf(swap.updates)}};
}

json StageJson(const StagePrediction& stage) {
  json text = StageNumbers(stage);
  if (stage.swap) text["swap"] = SwapJson(*stage.swap);
  return text;
}

/// How a stage is swapped, and what its passes and its update wait for.
std::string SwapText(const planner::SwapPrediction& swap, std::size_t stage) {
  std::string text = Format(
      "%llu segments, %llu microbatches together, state %s; passes %.3g s, of which devices "
      "compute "
      "%.3g s",
      static_cast<unsigned long long>(swap.segments), static_cast<unsigned long long>(swap.tasks),
      swap.in_memory ? "in the memory of the host" : "on the disk", swap.pass_seconds,
      swap.compute_seconds);
  if (swap.pass_seconds > swap.compute_seconds) {
    text += ", the rest waits for " + planner::LimitText(swap.waits, stage);
  }
  return text + Format("; update %.3g s, mostly ", swap.update_seconds) +
         planner::LimitText(swap.updates, stage);
}

json TurnJson(const planner::Turn& turn) {
  json factors = json::object();
  const auto add = [&](const char* key, const std::optional<double>& factor) {
    if (factor) factors[key] = *factor;
  };
  add("slowerLinks", turn.slower_links);
  add("fasterLinks", turn.faster_links);
  add("slowerDevices", turn.slower_devices);
  add("fasterDevices", turn.faster_devices);
  add("slowerHosts", turn.slower_hosts);
  add("fasterHosts", turn.faster_hosts);
  if (turn.smaller_devices) factors["smallerDevicesGiB"] = *turn.smaller_devices / kGibibyte;
  return factors;
}

}  // namespace

json PlanFragment(const Plan& plan, const planner::Open& open) {
  json fragment = json::object();
  planner::FillIn(planner::ChoiceOf(plan, {.residency = open.residency, .layers = open.layers}),
                  &fragment);
  return fragment;
}

json PlanJson(const Plan& plan, const planner::Request& request) {
  const planner::Fleet& fleet = request.fleet;
  const planner::Prediction& p = plan.prediction;
  json stages = json::array();
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    stages.push_back(StageJson(p.stages[s]));
    json& machines = stages.back()["byGroup"] = json::object();
    for (std::size_t g = 0; g < fleet.groups.size(); ++g) {
      if (plan.way.machines[s][g] > 0) machines[fleet.groups[g].name] = plan.way.machines[s][g];
    }
  }
  return {{"tokensPerSecond", p.tokens_per_second},
          {"dollarsPerHour", p.dollars_per_hour},
          {"tokensPerDollar", p.tokens_per_dollar},
          {"stepSeconds", p.step_seconds},
          {"boundSeconds", p.bound_seconds},
          {"fillSeconds", p.fill_seconds},
          {"reduceSeconds", p.reduce_seconds},
          {"commitSeconds", p.commit_seconds},
          {"updateSeconds", p.update_seconds},
          {"lostShare", p.lost_share},
          {"boundaryBytes", p.boundary_bytes},
          {"limit", NameOf(p.limit)},
          {"limitStage", p.limit_stage},
          {"stages", std::move(stages)},
          {"manifest", PlanFragment(plan, request.open)}};
}

void PrintPlans(const planner::Plans& plans, const planner::Request& request, std::ostream& out) {
  const Plan& best = plans.plans.front();
  const planner::Prediction& p = best.prediction;
  Row(out, "plan", WayText(best));
  Row(out, "tokens/s", Format("%.0f", p.tokens_per_second));
  if (p.dollars_per_hour > 0) {
    Row(out, "cost",
        Format("%.2f dollars an hour, %.4g tokens a dollar", p.dollars_per_hour,
               p.tokens_per_dollar));
  }
  const bool overlaps = best.way.spec.training.overlaps_steps();
  std::string step =
      Format("%.3g s: %.3g s of work, %.3g s to fill and drain, sums %.3g s%s, commit %.3g s%s",
             p.step_seconds, p.bound_seconds, p.fill_seconds, p.reduce_seconds,
             overlaps ? " beside the next step" : "", p.commit_seconds, overlaps ? " too" : "");
  if (p.update_seconds > 0) {
    step += Format(", update %.3g s%s", p.update_seconds, overlaps ? " within the work" : "");
  }
  Row(out, "step", step);
  Row(out, "bound by", LimitText(p));
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    if (!p.stages[s].swap) continue;
    Row(out, ("stage " + std::to_string(s)).c_str(), SwapText(*p.stages[s].swap, s));
  }
  if (p.lost_share > 0) {
    Row(out, "lost", Format("%.2f %% to machines that go, and recoveries", 100 * p.lost_share));
  }
  out << "\nstage  layers      parameters  machines                    busy   memory      sends\n";
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const StagePrediction& stage = p.stages[s];
    out << Format("%5zu  %3llu to %3llu  %9.1f M  %-26s %3.0f %%  %5.2f GiB %6.0f Mb/s\n", s,
                  static_cast<unsigned long long>(stage.run.first),
                  static_cast<unsigned long long>(stage.run.first + stage.run.count - 1),
                  static_cast<double>(stage.parameters) / 1e6,
                  MachinesText(best.way.machines[s], request.fleet).c_str(), 100 * stage.busy_share,
                  stage.memory_bytes / kGibibyte, stage.bytes_per_second / kMegabit);
  }
  out << "\nbeside it, of " << plans.candidates << " candidates:\n";
  for (std::size_t i = 1; i < plans.plans.size(); ++i) {
    const Plan& plan = plans.plans[i];
    out << "  " << WayText(plan) << Format("  %.0f tokens/s", plan.prediction.tokens_per_second);
    if (plan.prediction.dollars_per_hour > 0) {
      out << Format(", %.4g a dollar", plan.prediction.tokens_per_dollar);
    }
    out << "\n    would win with: " << TurnText(plans.turns[i - 1]) << "\n";
  }
  out << "\nin the manifest:\n" << PlanFragment(best, request.open).dump(2) << "\n";
}

json PlansJson(const planner::Plans& plans, const planner::Request& request) {
  json list = json::array();
  for (std::size_t i = 0; i < plans.plans.size(); ++i) {
    list.push_back(PlanJson(plans.plans[i], request));
    if (i > 0) list.back()["turns"] = TurnJson(plans.turns[i - 1]);
  }
  return {{"plans", std::move(list)}, {"candidates", plans.candidates}, {"changes", plans.changes}};
}

}  // namespace swarm::ctl
