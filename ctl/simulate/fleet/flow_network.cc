#include "ctl/simulate/fleet/flow_network.h"

#include <algorithm>
#include <utility>

namespace swarm::ctl {
namespace {

/// Less is rounding of nanoseconds.
constexpr double kNoBytes = 0.5;

}  // namespace

FlowNetwork::Node FlowNetwork::Add(double upload, double download) {
  ends_.push_back({{.rate = upload}, {.rate = download}});
  return ends_.size() - 1;
}

FlowNetwork::FlowId FlowNetwork::Start(Flow flow) {
  if (free_.empty()) {
    free_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const std::size_t at = free_.back();
  free_.pop_back();
  ++flows_;
  Slot& slot = slots_[at];
  slot = {.flow = std::move(flow), .number = ++numbers_};
  slot.left = slot.flow.bytes;
  const FlowId id{at, slot.number};
  const Connection connection{slot.flow.from, slot.flow.to};
  if (connection.first == connection.second) {
    Attach(at);
    return id;
  }
  const auto [waiting, idle] = waiting_.try_emplace(connection);
  if (idle) {
    ends_[connection.first].peers.insert(connection.second);
    ends_[connection.second].peers.insert(connection.first);
    Attach(at);
  } else {
    slot.waits = true;
    waiting->second.push_back(id);
  }
  return id;
}

void FlowNetwork::Attach(std::size_t at) {
  Slot& slot = slots_[at];
  slot.waits = false;
  slot.began = slot.settled = queue_.now();
  slot.wake = Timepoint::max();
  Line& up = ends_[slot.flow.from].up;
  Line& down = ends_[slot.flow.to].down;
  slot.up_at = up.flows.size();
  slot.down_at = down.flows.size();
  up.flows.push_back(at);
  down.flows.push_back(at);
  up.weight += slot.flow.weight;
  down.weight += slot.flow.weight;
  Share(slot.flow.from, slot.flow.to);
  Rerate(at);
}

void FlowNetwork::SendNext(const Connection& connection) {
  const auto found = waiting_.find(connection);
  if (found == waiting_.end()) return;
  std::deque<FlowId>& waiting = found->second;
  while (!waiting.empty()) {
    const FlowId next = waiting.front();
    waiting.pop_front();
    if (Lives(next)) return Attach(next.slot);
  }
  waiting_.erase(found);
}

void FlowNetwork::Cancel(FlowId id) {
  if (Lives(id)) Detach(id.slot);
}

void FlowNetwork::Remove(Node node) {
  const auto drop = [this](const Connection& connection) {
    const auto waiting = waiting_.extract(connection);
    if (waiting.empty()) return;
    for (const FlowId id : waiting.mapped()) Cancel(id);
  };
  for (const Node peer : std::exchange(ends_[node].peers, {})) {
    drop({node, peer});
    drop({peer, node});
    ends_[peer].peers.erase(node);
  }
  while (!ends_[node].up.flows.empty()) Detach(ends_[node].up.flows.back());
  while (!ends_[node].down.flows.empty()) Detach(ends_[node].down.flows.back());
}

double FlowNetwork::Left(FlowId id) {
  if (!Lives(id)) return 0;
  if (!slots_[id.slot].waits) Settle(slots_[id.slot]);
  return slots_[id.slot].left;
}

void FlowNetwork::Detach(std::size_t at) {
  Slot& slot = slots_[at];
  const Node from = slot.flow.from, to = slot.flow.to;
  const bool waits = slot.waits;
  const auto take = [&](Line& line, std::size_t Slot::* place) {
    const std::size_t last = line.flows.back();
    line.flows[slot.*place] = last;
    slots_[last].*place = slot.*place;
    line.flows.pop_back();
    line.weight = line.flows.empty() ? 0 : line.weight - slot.flow.weight;
  };
  if (!waits) {
    take(ends_[from].up, &Slot::up_at);
    take(ends_[to].down, &Slot::down_at);
  }
  slot.number = 0;
  slot.flow = {};
  free_.push_back(at);
  --flows_;
  if (waits) return;
  Share(from, to);
  if (from != to) SendNext({from, to});
}

void FlowNetwork::Share(Node from, Node to) {
  // Flows of a line without a limit do not depend on each other.
  if (ends_[from].up.rate < kUnlimited) {
    for (const std::size_t slot : ends_[from].up.flows) Rerate(slot);
  }
  if (ends_[to].down.rate < kUnlimited) {
    for (const std::size_t slot : ends_[to].down.flows) Rerate(slot);
  }
}

void FlowNetwork::Settle(Slot& slot) const {
  const double seconds = ToSeconds(queue_.now() - slot.settled);
  slot.settled = queue_.now();
  if (seconds > 0) slot.left = std::max(0.0, slot.left - slot.rate * seconds);
}

void FlowNetwork::Rerate(std::size_t at) {
  Slot& slot = slots_[at];
  Settle(slot);
  const Line& up = ends_[slot.flow.from].up;
  const Line& down = ends_[slot.flow.to].down;
  const double weight = slot.flow.weight;
  slot.rate = std::min(
      {up.rate * weight / up.weight, down.rate * weight / down.weight, slot.flow.rate_max});
  // A flow that slows down wakes too early, and sleeps again.
  const Timepoint end = EndOf(slot);
  if (end >= slot.wake) return;
  slot.wake = end;
  queue_.At(end, [this, id = FlowId{at, slot.number}] { Wake(id); });
}

Timepoint FlowNetwork::EndOf(const Slot& slot) const {
  if (slot.left <= kNoBytes || slot.rate == kUnlimited) return queue_.now();
  // Rounded up, so that the bytes are through by then.
  return queue_.now() + FromSeconds(slot.left / slot.rate) + Duration(1);
}

void FlowNetwork::Wake(FlowId id) {
  // Another event of the flow may have come between, or stands later for it.
  if (!Lives(id) || slots_[id.slot].wake > queue_.now()) return;
  Slot& slot = slots_[id.slot];
  Settle(slot);
  const Timepoint end = EndOf(slot);
  if (end > queue_.now()) {
    slot.wake = end;
    queue_.At(end, [this, id] { Wake(id); });
    return;
  }
  const auto done = std::move(slot.flow.done);
  const double seconds = ToSeconds(queue_.now() - slot.began);
  Detach(id.slot);
  if (done) done(seconds);
}

}  // namespace swarm::ctl
