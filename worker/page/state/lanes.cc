#include "worker/page/state/lanes.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace swarm::page {
namespace {

using Json = nlohmann::json;
using protocol::Heartbeat;
using protocol::WorkerId;

/// Of a counter that begins again at 0 with the worker's process. A sender may say anything.
double Growth(double before, double after) {
  const double growth = after - before;
  return std::isfinite(growth) ? std::max(0.0, growth) : 0;
}

double Bytes(const Heartbeat& beat) {
  return static_cast<double>(beat.bytes_sent) + static_cast<double>(beat.copied_bytes);
}

/// No more than all of it.
std::int64_t Percent(double part, double whole) {
  return whole > 0 ? std::llround(100 * std::min(1.0, part / whole)) : 0;
}

}  // namespace

void Lanes::OnBeat(const WorkerId& worker, const Heartbeat& beat, Timepoint now) {
  if (!lanes_.contains(worker)) Bound();
  History& lane = lanes_[worker];
  const Duration span = now - lane.heard;
  const bool first = lane.heard == Timepoint();
  if (!first && span > Duration() && span <= kUnheard) {
    const double seconds = ToSeconds(span);
    const double compute = Growth(lane.last.busy_seconds, beat.busy_seconds);
    const double sum = Growth(lane.last.sum_seconds, beat.sum_seconds);
    const double bytes = Growth(Bytes(lane.last), Bytes(beat));
    for (std::int64_t slot = SlotOf(lane.heard); slot <= SlotOf(now); ++slot) {
      const Timepoint begin = std::max(lane.heard, Timepoint(slot * kSlot));
      const Timepoint end = std::min(now, Timepoint((slot + 1) * kSlot));
      if (end <= begin) continue;
      const double part = ToSeconds(end - begin) / seconds;
      if (lane.slots.empty() || lane.slots.back().slot != slot) {
        lane.slots.push_back({.slot = slot});
        if (lane.slots.size() > kSlots) lane.slots.pop_front();
      }
      LaneSlot& at = lane.slots.back();
      at.seconds += part * seconds;
      at.compute_seconds += part * compute;
      at.sum_seconds += part * sum;
      at.bytes += part * bytes;
    }
  }
  lane.heard = now;
  lane.last = beat;
}

void Lanes::Bound() {
  if (lanes_.size() < kLanesMax) return;
  lanes_.erase(std::min_element(lanes_.begin(), lanes_.end(), [](const auto& a, const auto& b) {
    return a.second.heard < b.second.heard;
  }));
}

std::vector<Lane> Lanes::Since(std::int64_t after, Timepoint now) const {
  const std::int64_t begin = std::max(after, SlotOf(now) - kSlots) + 1;
  std::vector<Lane> lanes;
  for (const auto& [worker, history] : lanes_) {
    const auto from = std::lower_bound(
        history.slots.begin(), history.slots.end(), begin,
        [](const LaneSlot& slot, std::int64_t bound) { return slot.slot < bound; });
    if (from != history.slots.end()) lanes.push_back({worker, {from, history.slots.end()}});
  }
  return lanes;
}

std::string ToJson(const LanesView& view, double now) {
  const double slot_seconds = ToSeconds(Lanes::kSlot);
  Json lanes = Json::array(), lost = Json::array();
  for (const Lane& lane : view.lanes) {
    Json slots = Json::array();
    for (const LaneSlot& slot : lane.slots) {
      slots.push_back({slot.slot, Percent(slot.seconds, slot_seconds),
                       Percent(slot.compute_seconds, slot.seconds),
                       Percent(slot.sum_seconds, slot.seconds),
                       slot.seconds > 0 ? std::round(slot.bytes / slot.seconds) : 0});
    }
    lanes.push_back({{"id", lane.worker.value}, {"slots", std::move(slots)}});
  }
  for (const protocol::Eviction& eviction : view.lost) {
    lost.push_back({{"id", eviction.worker.value},
                    {"stage", eviction.stage.value},
                    {"cause", NameOf(eviction.cause)},
                    {"text", eviction.text},
                    {"ago", std::max(0.0, now - eviction.time)}});
  }
  const Json json{{"slot", view.slot},
                  {"slotSeconds", slot_seconds},
                  {"slots", Lanes::kSlots},
                  {"lanes", std::move(lanes)},
                  {"lost", std::move(lost)}};
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace swarm::page
