#include "ctl/profile/findings.h"

#include <algorithm>
#include <optional>

#include "ctl/format.h"
#include "worker/protocol/balance/stage_rates.h"

namespace swarm::ctl {
namespace {

namespace balancing = protocol::balancing;

// From these shares of a stage's time on, a finding is worth its line.
constexpr double kMuchCoding = 0.10;
constexpr double kMuchTransfer = 0.10;
constexpr double kMuchSumming = 0.10;
constexpr double kMuchState = 0.20;
constexpr double kMuchWaiting = 0.25;
/// So much faster are the other stages than one that holds them up.
constexpr double kBehind = 1.15;
/// So much slower is a layer than the median one that has a line.
constexpr double kSlowLayer = 1.5;

std::string Percent(double share) { return Format("%.0f %%", 100 * share); }
std::string Milliseconds(double seconds) { return Format("%.2f ms", 1000 * seconds); }
std::string StageName(std::size_t stage) { return "stage " + std::to_string(stage); }

/// The stage of which the workers spend the largest part of their time so.
struct Most {
  std::size_t stage = 0;
  double share = 0;
};
template <typename Share>
Most FindMost(const ProfileSummary& summary, Share share) {
  Most most;
  for (std::size_t s = 0; s < summary.stages.size(); ++s) {
    const double of_stage = share(summary.stages[s]);
    if (of_stage > most.share) most = {s, of_stage};
  }
  return most;
}

/// The stage that holds the others up, as the rules of balance count it; none if all are about as
/// fast, or it is not known of one.
std::optional<std::size_t> FindBottleneck(const ProfileSummary& summary) {
  std::vector<protocol::StageLoad> loads;
  for (const StageProfile& stage : summary.stages) {
    if (stage.rate <= 0) return std::nullopt;
    loads.push_back({.replicas = {{.worker = {}, .rate = stage.rate, .ready = true}}});
  }
  const std::vector<double> rates = balancing::ReadyRates(loads);
  const std::size_t least = balancing::Least(rates);
  for (std::size_t s = 0; s < rates.size(); ++s) {
    if (s != least && rates[s] < kBehind * rates[least]) return std::nullopt;
  }
  return rates.size() > 1 ? std::optional(least) : std::nullopt;
}

std::optional<Finding> Bottleneck(const ProfileSummary& summary) {
  const auto slowest = FindBottleneck(summary);
  if (!slowest) return std::nullopt;
  const Most waits = FindMost(summary, [](const StageProfile& stage) {
    return stage.share(Activity::kWaiting) + stage.share(Activity::kTransfer);
  });
  std::string what = StageName(*slowest) + " is the slowest: its workers could do " +
                     balancing::Text(summary.stages[*slowest].rate);
  if (waits.stage != *slowest) {
    what += "; " + StageName(waits.stage) + " waits " + Percent(waits.share) + " of its time";
  }
  return Finding{std::move(what),
                 "give it another worker (--workers), or fewer layers (pipeline.boundary.layers)"};
}

/// All stages are as fast, and one of them waits.
std::optional<Finding> Drained(const ProfileSummary& summary) {
  const Most most =
      FindMost(summary, [](const StageProfile& stage) { return stage.share(Activity::kWaiting); });
  if (FindBottleneck(summary) || most.share < kMuchWaiting) return std::nullopt;
  return Finding{StageName(most.stage) + " waits " + Percent(most.share) +
                     " of its time, while no stage is much slower than the others",
                 "the pipeline fills and drains in each step: more microbatches a step"
                 " (training.globalBatchSize), or training.stepMode: Delayed"};
}

std::optional<Finding> OnItsWay(const ProfileSummary& summary) {
  const Most most =
      FindMost(summary, [](const StageProfile& stage) { return stage.share(Activity::kTransfer); });
  if (most.share < kMuchTransfer) return std::nullopt;
  return Finding{
      StageName(most.stage) + " has no work " + Percent(most.share) +
          " of its time while the next is on its way",
      "fewer bytes (pipeline.boundary.codec), faster links, or more microbatches a step"};
}

std::optional<Finding> Coding(const ProfileSummary& summary) {
  const Most most = FindMost(summary, [](const StageProfile& stage) {
    return stage.share(Activity::kEncode) + stage.share(Activity::kDecode);
  });
  if (most.share < kMuchCoding) return std::nullopt;
  return Finding{
      StageName(most.stage) + " encodes and decodes " + Percent(most.share) + " of its time",
      "where links are fast, a simpler encoding (pipeline.boundary.codec, .coefficients:"
      " BF16 or None)"};
}

std::optional<Finding> Summing(const ProfileSummary& summary) {
  const Most most =
      FindMost(summary, [](const StageProfile& stage) { return stage.share(Activity::kSumming); });
  if (most.share < kMuchSumming) return std::nullopt;
  return Finding{StageName(most.stage) + " has no work " + Percent(most.share) +
                     " of its time while its gradients are summed",
                 "sum while the next step computes (training.stepMode: Delayed), sum fewer bytes"
                 " (training.reduceCodec), or sum less often (training.globalBatchSize)"};
}

std::optional<Finding> State(const ProfileSummary& summary) {
  const Most most =
      FindMost(summary, [](const StageProfile& stage) { return stage.share(Activity::kState); });
  if (most.share < kMuchState) return std::nullopt;
  return Finding{StageName(most.stage) + " adds gradients up and updates weights " +
                     Percent(most.share) + " of its time",
                 "more tokens a microbatch (training.microbatchSize), and more microbatches a step"
                 " (training.globalBatchSize)"};
}

const LayerProfile* SlowestLayer(const ProfileSummary& summary) {
  const auto slowest = std::ranges::max_element(summary.layers, {}, &LayerProfile::seconds);
  return slowest == summary.layers.end() ? nullptr : &*slowest;
}

double MedianOfLayers(const ProfileSummary& summary) {
  std::vector<double> seconds;
  for (const LayerProfile& layer : summary.layers) seconds.push_back(layer.seconds());
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

std::optional<Finding> SlowLayer(const ProfileSummary& summary) {
  const LayerProfile* slowest = SlowestLayer(summary);
  if (slowest == nullptr || slowest->seconds() < kSlowLayer * MedianOfLayers(summary)) {
    return std::nullopt;
  }
  return Finding{"layer " + std::to_string(slowest->layer) + " takes " +
                     Milliseconds(slowest->seconds()) + " a microbatch, the median layer " +
                     Milliseconds(MedianOfLayers(summary)),
                 "look at it in the trace: what is always slow wants fewer layers in its stage, and"
                 " what is slow now and then was held up by something else on its machine"};
}

std::string TableOf(const ProfileSummary& summary) {
  std::string text = Format("%5s %8s", "stage", "workers");
  for (const auto& [activity, name] : EnumNames<Activity>::kNames) {
    text += Format(" %10s", std::string(name).c_str());
  }
  text += Format(" %10s %12s\n", "sending", "could do");
  for (std::size_t s = 0; s < summary.stages.size(); ++s) {
    const StageProfile& stage = summary.stages[s];
    text += Format("%5zu %8llu", s, static_cast<unsigned long long>(stage.workers));
    for (const auto& [activity, name] : EnumNames<Activity>::kNames) {
      text += Format(" %10s", Percent(stage.share(activity)).c_str());
    }
    const double sending = stage.seconds > 0 ? stage.send_seconds / stage.seconds : 0;
    text += Format(" %10s %12s\n", Percent(sending).c_str(), balancing::Text(stage.rate).c_str());
  }
  return text;
}

}  // namespace

std::vector<Finding> FindWhatCosts(const ProfileSummary& summary) {
  std::vector<Finding> findings;
  for (const auto find : {Bottleneck, Drained, OnItsWay, Summing, Coding, State, SlowLayer}) {
    if (auto finding = find(summary)) findings.push_back(*std::move(finding));
  }
  return findings;
}

std::string ToText(const ProfileSummary& summary) {
  std::string text =
      Format("Steps %llu to %llu took %.3f s. Of the time of each stage's workers:\n",
             static_cast<unsigned long long>(summary.first_step),
             static_cast<unsigned long long>(summary.last_step), summary.seconds());
  text += TableOf(summary);
  if (const LayerProfile* slowest = SlowestLayer(summary)) {
    text += "Slowest layer: " + std::to_string(slowest->layer) + " of " +
            StageName(slowest->stage) + ", " + Milliseconds(slowest->forward_seconds) +
            " forward and " + Milliseconds(slowest->backward_seconds) +
            " backward a microbatch; the median layer takes " +
            Milliseconds(MedianOfLayers(summary)) + ".\n";
  }
  for (const CrossingProfile& crossing : summary.crossings) {
    text += "From " + StageName(crossing.from) + " to " + StageName(crossing.to) + ": " +
            Format("%.1f KiB", crossing.bytes / 1024) + " a microbatch, on their way for " +
            Milliseconds(crossing.seconds) + ".\n";
  }
  if (summary.dropped > 0) {
    text += std::to_string(summary.dropped) +
            " spans had no room, so the end is missing: take fewer --steps.\n";
  }
  const std::vector<Finding> findings = FindWhatCosts(summary);
  if (findings.empty()) text += "Nothing stands out.\n";
  for (const Finding& finding : findings)
    text += "- " + finding.what + ": " + finding.advice + ".\n";
  return text;
}

}  // namespace swarm::ctl
