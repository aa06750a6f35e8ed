#include "ctl/simulate/fleet_report.h"

#include <nlohmann/json.hpp>

#include "ctl/format.h"

namespace swarm::ctl {
namespace {

constexpr double kMegabyte = 1e6;
constexpr double kMicrosecond = 1e-6;

/// A row: what, and a value with its unit.
void Row(std::ostream& out, const std::string& what, const std::string& value) {
  out << Format("%-22s %s\n", what.c_str(), value.c_str());
}

/// A number of something in a second.
double Rate(double number, const FleetResult& result) {
  return result.traffic_seconds > 0 ? number / result.traffic_seconds : 0;
}

double MeasuredPerMessage(const TrainerLoad& load) {
  return load.received == 0 ? 0
                            : load.measured_message_seconds / static_cast<double>(load.received);
}

}  // namespace

void PrintFleetTable(const FleetResult& result, std::ostream& out) {
  Row(out, "tokens/s", Format("%.0f", result.tokens_per_second));
  Row(out, "goodput",
      Format("%.1f %% of %.0f tokens/s, if no machine ever waited", 100 * result.Goodput(),
             result.ideal_tokens_per_second));
  Row(out, "  and",
      Format("%.1f %% of %.0f tokens/s, with the best assignment of machines to stages",
             100 * result.AssignedShare(), result.assigned_tokens_per_second));
  Row(out, "machines",
      Format("%.1f on average, %.1f %% of their time computing", result.workers,
             100 * result.busy_share));
  Row(out, "steps",
      Format("%llu in %.0f s", static_cast<unsigned long long>(result.steps), result.seconds));
  Row(out, "lost, arrived",
      Format("%llu, %llu", static_cast<unsigned long long>(result.lost),
             static_cast<unsigned long long>(result.arrived)));
  const RecoveryTimes& recoveries = result.recoveries;
  Row(out, "recoveries",
      Format("%zu: mean %.2f s, p50 %.2f s, p99 %.2f s; %llu rolled back, %llu open",
             recoveries.seconds.size(), recoveries.Mean(), recoveries.Quantile(0.5),
             recoveries.Quantile(0.99), static_cast<unsigned long long>(recoveries.rolled_back),
             static_cast<unsigned long long>(recoveries.open)));
  Row(out, "trainer's counts",
      Format("%llu evictions, %llu leaves, %llu moves, %llu joins, %llu rollbacks",
             static_cast<unsigned long long>(result.counts.evictions),
             static_cast<unsigned long long>(result.counts.leaves),
             static_cast<unsigned long long>(result.counts.moves),
             static_cast<unsigned long long>(result.counts.joins),
             static_cast<unsigned long long>(result.counts.rollbacks)));
  for (const auto& [kind, name] : EnumNames<Traffic>::kNames) {
    const double bytes = result.traffic.Of(kind);
    if (bytes == 0) continue;
    Row(out, "bytes, " + std::string(name),
        Format("%.1f MB, %.3f MB/s", bytes / kMegabyte, Rate(bytes, result) / kMegabyte));
  }
  const TrainerLoad& load = result.trainer;
  Row(out, "trainer's messages",
      Format("%.0f/s received, %.0f/s sent, %.0f/s heartbeats",
             Rate(static_cast<double>(load.received), result),
             Rate(static_cast<double>(load.sent), result),
             Rate(static_cast<double>(load.heartbeats), result)));
  Row(out, "  measured here",
      Format("%.1f us of a processor for each received, all with heartbeats and deadlines %.2f %% "
             "of one",
             MeasuredPerMessage(load) / kMicrosecond,
             100 * Rate(load.measured_message_seconds + load.measured_other_seconds, result)));
}

nlohmann::json FleetJson(const FleetResult& result) {
  nlohmann::json bytes = nlohmann::json::object();
  for (const auto& [kind, name] : EnumNames<Traffic>::kNames) bytes[name] = result.traffic.Of(kind);
  nlohmann::json timeline = nlohmann::json::array();
  for (const FleetResult::Point& point : result.timeline) {
    timeline.push_back({{"seconds", point.seconds},
                        {"tokensPerSecond", point.tokens_per_second},
                        {"workers", point.workers}});
  }
  const RecoveryTimes& recoveries = result.recoveries;
  const TrainerLoad& load = result.trainer;
  return {{"seconds", result.seconds},
          {"steps", result.steps},
          {"tokensPerSecond", result.tokens_per_second},
          {"idealTokensPerSecond", result.ideal_tokens_per_second},
          {"goodput", result.Goodput()},
          {"assignedTokensPerSecond", result.assigned_tokens_per_second},
          {"assignedShare", result.AssignedShare()},
          {"busyShare", result.busy_share},
          {"workers", result.workers},
          {"lost", result.lost},
          {"arrived", result.arrived},
          {"countedSeconds", result.traffic_seconds},
          {"evictions", result.counts.evictions},
          {"leaves", result.counts.leaves},
          {"moves", result.counts.moves},
          {"joins", result.counts.joins},
          {"rollbacks", result.counts.rollbacks},
          {"replays", result.counts.replays},
          {"revocations", result.counts.revocations},
          {"recoveries",
           {{"count", recoveries.seconds.size()},
            {"meanSeconds", recoveries.Mean()},
            {"p50Seconds", recoveries.Quantile(0.5)},
            {"p99Seconds", recoveries.Quantile(0.99)},
            {"rolledBack", recoveries.rolled_back},
            {"open", recoveries.open}}},
          {"bytes", std::move(bytes)},
          {"trainer",
           {{"received", load.received}, {"sent", load.sent}, {"heartbeats", load.heartbeats}}},
          {"measured",
           {{"messageSeconds", load.measured_message_seconds},
            {"otherSeconds", load.measured_other_seconds},
            {"secondsPerMessage", MeasuredPerMessage(load)}}},
          {"events", result.events},
          {"timeline", std::move(timeline)}};
}

std::string FleetEvents(const FleetResult& result) {
  std::string lines;
  for (const FleetResult::Event& event : result.log) {
    const nlohmann::json line = {
        {"seconds", event.seconds}, {"kind", NameOf(event.kind)}, {"text", event.text}};
    lines += line.dump() + "\n";
  }
  return lines;
}

}  // namespace swarm::ctl
