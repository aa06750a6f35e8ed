#include "worker/net/faulty/faulty_endpoint.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/log.h"

namespace swarm::net {
namespace {

/// Counted per message, besides its payload.
constexpr std::size_t kMessageBytes = 256;
/// Until the window of the endpoint inside is tried again.
constexpr Duration kRetry = std::chrono::milliseconds(2);

}  // namespace

FaultyEndpoint::FaultyEndpoint(FaultyOptions options, EndpointHandler* handler)
    : options_(std::move(options)), handler_(handler), loop_(std::make_unique<Loop>("faulty")) {}

Result<std::unique_ptr<Endpoint>> FaultyEndpoint::Create(const FaultyOptions& options,
                                                         EndpointHandler* handler,
                                                         const MakeEndpoint& make) {
  std::unique_ptr<FaultyEndpoint> endpoint(new FaultyEndpoint(options, handler));
  if (!options.rules_file.empty()) endpoint->PollFile();
  ASSIGN_OR_RETURN(endpoint->inner_, make(endpoint.get()));
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

FaultyEndpoint::~FaultyEndpoint() {
  loop_->Stop();
  inner_.reset();  // before all that its calls use
}

void FaultyEndpoint::SetRules(chaos::FaultRules rules) {
  std::vector<WorkerId> peers;
  {
    const std::lock_guard lock(mutex_);
    rules_ = std::move(rules);
    for (const auto& [id, peer] : peers_) peers.push_back(id);
  }
  for (const WorkerId& id : peers) {
    loop_->Post([this, id] {
      Flush(id);
      Drain(id);
    });
  }
}

void FaultyEndpoint::PollFile() {
  std::ifstream in(options_.rules_file);
  std::ostringstream text;
  text << in.rdbuf();
  if (in && text.str() != file_text_) {
    file_text_ = text.str();
    auto rules = chaos::ParseFaultRules(file_text_);
    if (rules.ok()) {
      LOG_INFO("the network is disturbed by {} rules from now on", rules->size());
      SetRules(*std::move(rules));
    } else {
      LOG_WARN("{}: {}", options_.rules_file, rules.status().message());
    }
  }
  loop_->PostAt(Clock::now() + options_.poll, [this] { PollFile(); });
}

void FaultyEndpoint::Connect(const WorkerId& peer,
                             const std::vector<protocol::Address>& addresses) {
  inner_->Connect(peer, addresses);
}

void FaultyEndpoint::Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) {
  inner_->Know(peer, addresses);
}

void FaultyEndpoint::Disconnect(const WorkerId& peer) {
  inner_->Disconnect(peer);
  const std::lock_guard lock(mutex_);
  Peer& state = peers_[peer];
  for (LaneQueue& queue : state.out) queue = {};
  state.in.clear();
  state.downs_held = 0;
  state.owner_up = false;
}

Status FaultyEndpoint::Send(const WorkerId& to, Lane lane, Envelope envelope) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[to];
  LaneQueue& queue = peer.out[static_cast<std::size_t>(lane)];
  const bool cut = chaos::IsCut(rules_, options_.self, to);
  const Duration delay = chaos::DelayOf(rules_, options_.self, to);
  if (!cut && delay == Duration::zero() && queue.held.empty() && peer.downs_held == 0) {
    return inner_->Send(to, lane, std::move(envelope));
  }
  if (!peer.owner_up) return Unavailable("no connection to " + to.value);
  if (peer.downs_held > 0) return Status();  // into the black hole
  const std::size_t bytes = kMessageBytes + envelope.payload.size();
  if (queue.bytes > 0 && queue.bytes + bytes > options_.held_bytes_max) {
    return ResourceExhausted("the window of " + std::to_string(options_.held_bytes_max) +
                             " bytes to " + to.value + " is full; send it later or to another");
  }
  Timepoint due = Clock::now() + delay;
  if (!queue.held.empty()) due = std::max(due, queue.held.back().due);
  // If others wait, Flush takes care of this one as well.
  if (queue.held.empty() && !cut) loop_->PostAt(due, [this, to] { Flush(to); });
  queue.bytes += bytes;
  queue.held.push_back({due, bytes, std::move(envelope)});
  return Status();
}

void FaultyEndpoint::Flush(const WorkerId& to) {
  const std::lock_guard lock(mutex_);
  if (chaos::IsCut(rules_, options_.self, to)) return;
  Peer& peer = peers_[to];
  for (const Lane lane : {Lane::kControl, Lane::kData}) {
    FlushLane(to, lane, peer.out[static_cast<std::size_t>(lane)]);
  }
}

void FaultyEndpoint::FlushLane(const WorkerId& to, Lane lane, LaneQueue& queue) {
  const Timepoint now = Clock::now();
  while (!queue.held.empty()) {
    const Held& first = queue.held.front();
    if (first.due > now) {
      loop_->PostAt(first.due, [this, to] { Flush(to); });
      return;
    }
    const Status status = inner_->Send(to, lane, first.envelope);
    if (status.code() == StatusCode::kResourceExhausted) {
      loop_->PostAt(now + kRetry, [this, to] { Flush(to); });
      return;
    }
    // The message is lost with its connection, and the owner hears of that by OnPeerDown. Or the
    // endpoint refused it for its content.
    if (status.code() == StatusCode::kInvalidArgument) {
      LOG_WARN("a message to {} was held back and is now lost: {}", to.value, status.message());
    }
    queue.bytes -= first.bytes;
    queue.held.pop_front();
  }
}

void FaultyEndpoint::OnMessage(const WorkerId& from, Lane lane, Envelope envelope) {
  Hear(from, Arrival{lane, std::move(envelope)});
}
void FaultyEndpoint::OnPeerUp(const WorkerId& peer) { Hear(peer, Up{}); }
void FaultyEndpoint::OnPeerDown(const WorkerId& peer, const Status& why) { Hear(peer, Down{why}); }

bool FaultyEndpoint::MayPass(const WorkerId& from, const Event& event) const {
  if (chaos::IsCut(rules_, from, options_.self)) return false;
  // No connection opens where one direction is cut.
  return !std::holds_alternative<Up>(event) || !chaos::IsCut(rules_, options_.self, from);
}

void FaultyEndpoint::Hear(const WorkerId& from, Event event) {
  std::unique_lock lock(mutex_);
  Peer& peer = peers_[from];
  if (std::holds_alternative<Down>(event)) {
    for (LaneQueue& queue : peer.out) queue = {};
  }
  if (!peer.in.empty() || peer.draining || !MayPass(from, event)) {
    if (std::holds_alternative<Down>(event)) ++peer.downs_held;
    peer.in.push_back(std::move(event));
    return;
  }
  if (!std::holds_alternative<Arrival>(event)) peer.owner_up = std::holds_alternative<Up>(event);
  ++peer.calls;
  lock.unlock();
  Tell(from, std::move(event));
  lock.lock();
  if (--peer.calls == 0 && !peer.in.empty()) {
    loop_->PostAt(Clock::now(), [this, from] { Drain(from); });
  }
}

void FaultyEndpoint::Drain(const WorkerId& from) {
  std::unique_lock lock(mutex_);
  Peer& peer = peers_[from];
  // A running call of the handler keeps this one away. The last of them comes back here.
  while (!peer.in.empty() && peer.calls == 0 && MayPass(from, peer.in.front())) {
    Event event = std::move(peer.in.front());
    peer.in.pop_front();
    if (std::holds_alternative<Down>(event)) --peer.downs_held;
    if (!std::holds_alternative<Arrival>(event)) peer.owner_up = std::holds_alternative<Up>(event);
    peer.draining = true;
    lock.unlock();
    Tell(from, std::move(event));
    lock.lock();
    peer.draining = false;
  }
}

void FaultyEndpoint::Tell(const WorkerId& from, Event event) {
  if (auto* arrival = std::get_if<Arrival>(&event)) {
    handler_->OnMessage(from, arrival->lane, std::move(arrival->envelope));
  } else if (const auto* down = std::get_if<Down>(&event)) {
    handler_->OnPeerDown(from, down->why);
  } else {
    handler_->OnPeerUp(from);
  }
}

}  // namespace swarm::net
