#include "worker/page/state/view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "worker/protocol/messages/count_workers.h"

namespace swarm::page {
namespace {

using Json = nlohmann::json;
using protocol::JobStatus;
using protocol::StageStatus;
using protocol::WorkerState;

constexpr double kLostShownSeconds = 60;

/// Four digits: more are no news, but bytes of every worker, four times a second.
double Short(double number) {
  if (!std::isfinite(number) || number == 0) return number;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(number))) - 3);
  // Of a fraction the reciprocal of the unit is exact, so that the nearest double has few digits.
  return unit < 1 ? std::round(number * std::round(1 / unit)) / std::round(1 / unit)
                  : std::round(number / unit) * unit;
}

double ThroughputOf(const StageStatus& stage) {
  double sum = 0;
  for (const StageStatus::Worker& worker : stage.workers) {
    if (worker.state == WorkerState::kReady && std::isfinite(worker.microbatches_per_second)) {
      sum += worker.microbatches_per_second;
    }
  }
  return sum;
}

/// The stage that limits the job; none if there is but one, or all have the same throughput.
std::optional<std::size_t> FindBottleneck(const JobStatus& status) {
  std::vector<double> rates;
  for (const StageStatus& stage : status.stages) rates.push_back(ThroughputOf(stage));
  const auto [least, greatest] = std::minmax_element(rates.begin(), rates.end());
  if (least == greatest || *least == *greatest) return std::nullopt;
  return least - rates.begin();
}

Json ToJson(const JobView& view, const StageStatus::Worker& worker) {
  Json json{{"id", worker.id.value},
            {"state", NameOf(worker.state)},
            {"inFlight", worker.in_flight},
            {"queued", worker.queued},
            {"utilization", Short(worker.utilization)},
            {"bytesPerSecond", Short(worker.bytes_per_second)},
            {"microbatchesPerSecond", Short(worker.microbatches_per_second)}};
  if (const auto member = view.members.find(worker.id); member != view.members.end()) {
    json["region"] = member->second.region;
    json["version"] = member->second.version.value;
    if (member->second.round_trip > 0) json["roundTrip"] = Short(member->second.round_trip);
  }
  return json;
}

/// What crosses the boundary behind a stage; null: not known.
Json BoundaryToJson(const JobView& view, std::size_t stage) {
  if (stage >= view.boundaries.size()) return nullptr;
  const auto [forward, backward] = view.boundaries[stage];
  if (!(forward + backward > 0)) return nullptr;
  const double microbatches_per_second =
      view.tokens_of_microbatch > 0
          ? view.status.tokens_per_second / static_cast<double>(view.tokens_of_microbatch)
          : 0;
  return {{"forward", forward},
          {"backward", backward},
          {"bytesPerSecond", Short((forward + backward) * microbatches_per_second)}};
}

Json StagesToJson(const JobView& view) {
  const auto bottleneck = FindBottleneck(view.status);
  Json stages = Json::array();
  for (const StageStatus& stage : view.status.stages) {
    Json workers = Json::array();
    for (const StageStatus::Worker& worker : stage.workers) workers.push_back(ToJson(view, worker));
    stages.push_back({{"stage", stage.stage.value},
                      {"microbatchesPerSecond", Short(ThroughputOf(stage))},
                      {"bottleneck", bottleneck == stages.size()},
                      {"boundary", BoundaryToJson(view, stages.size())},
                      {"workers", std::move(workers)}});
  }
  return stages;
}

/// Of the workers that are there, for programs and for people; null: not known.
Json DollarsPerHour(const JobView& view) {
  const auto cost =
      api::Times(view.worker_price, static_cast<double>(protocol::CountWorkers(view.status)));
  if (!cost) return nullptr;
  return {{"least", cost->least}, {"most", cost->most}, {"text", api::DollarText(*cost)}};
}

/// Those that were lost lately, and have not come back.
Json LostToJson(const JobStatus& status, double now) {
  std::set<protocol::WorkerId> present(status.spares.begin(), status.spares.end());
  for (const StageStatus& stage : status.stages) {
    for (const StageStatus::Worker& worker : stage.workers) present.insert(worker.id);
  }
  Json lost = Json::array();
  for (const protocol::Eviction& eviction : status.evicted) {
    if (now - eviction.time > kLostShownSeconds || present.contains(eviction.worker)) continue;
    lost.push_back({{"id", eviction.worker.value},
                    {"stage", eviction.stage.value},
                    {"cause", NameOf(eviction.cause)},
                    {"text", eviction.text}});
  }
  return lost;
}

}  // namespace

double Goodput(const JobView& view) {
  const auto per_step = static_cast<double>(view.contributions_of_step);
  const double all = static_cast<double>(view.committed_steps) * per_step +
                     static_cast<double>(view.status.counts.replays);
  if (all <= 0) return std::numeric_limits<double>::quiet_NaN();
  // A rollback may discard steps of a trainer before this one.
  const std::uint64_t kept =
      view.committed_steps - std::min(view.committed_steps, view.discarded_steps);
  return static_cast<double>(kept) * per_step / all;
}

std::string ToJson(const JobView& view, const std::string& job, double now) {
  const JobStatus& status = view.status;
  Json spares = Json::array();
  for (const protocol::WorkerId& spare : status.spares) spares.push_back(spare.value);
  const Json json{
      {"job", job},
      {"state", NameOf(status.state)},
      {"waitingFor", status.waiting_for},
      {"message", status.message},
      {"term", status.term.value},
      {"step", status.step.value},
      {"maxSteps", status.max_steps},
      {"secondsLeft", status.seconds_left},
      {"loss", status.loss},
      {"validationLoss", status.validation_loss},
      {"tokensPerSecond", status.tokens_per_second},
      {"goodput", Goodput(view)},
      {"dollarsPerHour", DollarsPerHour(view)},
      {"checkpoint",
       {{"version", status.checkpoint.version.value}, {"error", status.checkpoint.error}}},
      {"losses", status.counts.evictions},
      {"moves", status.counts.moves},
      {"stages", StagesToJson(view)},
      {"spares", std::move(spares)},
      {"lost", LostToJson(status, now)}};
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace swarm::page
