#include "ctl/plan/link_rates.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/format/enum_names.h"
#include "ctl/format.h"
#include "ctl/plan/plan_report.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using planner::LinkStudy;
using planner::Manner;
using planner::Plan;

constexpr double kMbpsMax = 1e6;
constexpr std::size_t kRatesMax = 64;
constexpr int kColumn = 19;  // characters

bool IsSwapped(const Plan& plan) {
  return plan.way.spec.pipeline.residency == api::Residency::kSwap;
}

/// "1 stage", "3 stages"
std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// Of a curve at a rate: "Local (6 machines)"
std::string CurveText(const LinkStudy& study, std::size_t curve, double rate) {
  const planner::MannerCurve& of = study.curves[curve];
  return MannerText(of.manner) + " (" + PlanText(of.plans.at(rate)) + ")";
}

/// The training of a plan in rounds, if there is one.
const api::Training* LocalTraining(const LinkStudy& study) {
  if (study.curves.empty() || study.curves.back().manner != Manner::kLocal) return nullptr;
  return &study.curves.back().plans.begin()->second.way.spec.training;
}

std::string Cell(const LinkStudy& study, std::size_t curve, double rate) {
  const Plan& plan = study.curves[curve].plans.at(rate);
  const bool leads = planner::LeaderAt(study, rate) == curve;
  return Format("%.0f", plan.prediction.tokens_per_second) + (IsSwapped(plan) ? " swapped" : "") +
         (leads ? " *" : "  ");
}

}  // namespace

Result<std::vector<double>> ParseLinkRates(std::string_view text) {
  std::vector<double> rates;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    double mbps = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), mbps);
    const bool is_number = read.ec == std::errc() && read.ptr == word.data() + word.size();
    if (!is_number || !(mbps > 0 && mbps <= kMbpsMax)) {
      return InvalidArgument("--link-rates: '" + std::string(word) +
                             "' is no rate of a line; give Mb/s, above 0 and at most 1000000,"
                             " as in 10,50,200");
    }
    rates.push_back(mbps * kMegabit);
  }
  std::ranges::sort(rates);
  const auto [first, last] = std::ranges::unique(rates);
  rates.erase(first, last);
  if (rates.size() > kRatesMax) {
    return InvalidArgument("--link-rates: " + std::to_string(rates.size()) +
                           " rates are too many; give at most " + std::to_string(kRatesMax));
  }
  return rates;
}

std::string MannerText(Manner manner) {
  switch (manner) {
    case Manner::kSyncReplicas:
      return "Sync replicas";
    case Manner::kSyncPipeline:
      return "Sync pipeline";
    case Manner::kDelayedReplicas:
      return "Delayed replicas";
    case Manner::kDelayedPipeline:
      return "Delayed pipeline";
    case Manner::kLocal:
      break;
  }
  return "Local";
}

std::string PlanText(const Plan& plan) {
  const api::Spec& spec = plan.way.spec;
  std::uint64_t machines = 0;
  for (const planner::StagePrediction& stage : plan.prediction.stages) machines += stage.machines;
  std::string text = Count(machines, "machine");
  if (spec.pipeline.stages > 1) {
    text += " in " + Count(spec.pipeline.stages, "stage");
    const api::BoundaryCodec codec = spec.pipeline.boundary.codec;
    if (codec != api::BoundaryCodec::kNone) text += ", " + std::string(swarm::NameOf(codec));
  }
  if (IsSwapped(plan)) text += ", swapped";
  if (spec.training.local.overlap) text += ", overlapped";
  return text;
}

std::string MbpsText(double rate) {
  const double mbps = rate / kMegabit;
  return Format(mbps < 1000 ? "%.3g" : "%.0f", mbps);
}

std::vector<std::string> LeadTexts(const LinkStudy& study) {
  std::vector<std::string> texts;
  for (const planner::Lead& lead : study.leads) {
    texts.push_back("from " + MbpsText(lead.rate) + " Mb/s on " +
                    CurveText(study, lead.curve, lead.rate));
  }
  return texts;
}

void PrintLinks(const LinkStudy& study, std::span<const double> rates, std::ostream& out) {
  out << "tokens/s, if every line has this rate, up and down (* the fastest)\n\n    Mb/s";
  for (const planner::MannerCurve& curve : study.curves) {
    out << Format("%*s  ", kColumn - 2, MannerText(curve.manner).c_str());
  }
  out << "\n";
  for (const double rate : rates) {
    out << Format("%8s", Format("%.6g", rate / kMegabit).c_str());
    for (std::size_t i = 0; i < study.curves.size(); ++i) {
      out << Format("%*s", kColumn, Cell(study, i, rate).c_str());
    }
    out << "\n";
  }
  out << "\nthe fastest, of those within 1 % the plainest:\n";
  for (const std::string& text : LeadTexts(study)) out << "  " << text << "\n";
  out << "\ncurves that cross:\n";
  for (const planner::Overtaking& at : study.overtakings) {
    out << "  from " << MbpsText(at.rate) << " Mb/s on " << CurveText(study, at.faster, at.rate)
        << (at.equal ? " is as fast as " : " is faster than ")
        << CurveText(study, at.slower, at.rate) << "\n";
  }
  if (study.overtakings.empty()) out << "  none\n";
  if (const api::Training* training = LocalTraining(study)) {
    const std::uint64_t microbatches = training->local.microbatches;
    out << "\nLocal: rounds of " << training->globalBatchSize << " sequences. A replica takes "
        << Count(training->local.innerSteps, "step") << ", each with " << microbatches
        << (microbatches == 1 ? " microbatch" : " microbatches")
        << ". That trains differently, and no plan chooses it.\n";
  }
  if (!study.left_out.empty()) out << "\n";
  for (const planner::LeftOut& left : study.left_out) {
    out << "left out: " << MannerText(left.manner) << ": " << left.reason << "\n";
  }
}

json LinksJson(const LinkStudy& study, std::span<const double> rates,
               const planner::Request& request) {
  const auto name = [&](std::size_t curve) { return swarm::NameOf(study.curves[curve].manner); };
  json table = json::array(), leads = json::array(), overtakings = json::array(),
       left_out = json::array();
  for (const double rate : rates) {
    json plans = json::object();
    for (std::size_t i = 0; i < study.curves.size(); ++i) {
      plans[name(i)] = PlanJson(study.curves[i].plans.at(rate), request);
    }
    table.push_back({{"mbps", rate / kMegabit}, {"plans", std::move(plans)}});
    if (!study.curves.empty()) table.back()["fastest"] = name(planner::LeaderAt(study, rate));
  }
  for (const planner::Lead& lead : study.leads) {
    leads.push_back({{"mbps", lead.rate / kMegabit}, {"manner", name(lead.curve)}});
  }
  for (const planner::Overtaking& at : study.overtakings) {
    overtakings.push_back({{"mbps", at.rate / kMegabit},
                           {"faster", name(at.faster)},
                           {"slower", name(at.slower)},
                           {"equal", at.equal}});
  }
  for (const planner::LeftOut& left : study.left_out) {
    left_out.push_back({{"manner", swarm::NameOf(left.manner)}, {"reason", left.reason}});
  }
  json result = {{"linkRates", std::move(table)},
                 {"leads", std::move(leads)},
                 {"overtakings", std::move(overtakings)},
                 {"leftOut", std::move(left_out)}};
  if (const api::Training* training = LocalTraining(study)) {
    result["local"] = {{"innerSteps", training->local.innerSteps},
                       {"microbatches", training->local.microbatches},
                       {"microbatchSize", training->microbatchSize},
                       {"globalBatchSize", training->globalBatchSize}};
  }
  return result;
}

}  // namespace swarm::ctl
