#include "worker/net/detour/detour_endpoint.h"

#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

/// Whether workers send it to each other.
bool IsData(const protocol::Message& message) {
  return std::visit(
      [](const auto& content) {
        using M = std::decay_t<decltype(content)>;
        return std::is_same_v<M, protocol::Forward> || std::is_same_v<M, protocol::Backward> ||
               std::is_same_v<M, protocol::ReduceChunk> || std::is_same_v<M, protocol::Parcel> ||
               std::is_same_v<M, protocol::Fetch> || std::is_same_v<M, protocol::Fetched>;
      },
      message);
}

}  // namespace

Result<std::unique_ptr<DetourEndpoint>> DetourEndpoint::Create(const WorkerId& self,
                                                               EndpointHandler* handler,
                                                               const MakeEndpoint& make) {
  std::unique_ptr<DetourEndpoint> endpoint(new DetourEndpoint(self, handler));
  ASSIGN_OR_RETURN(endpoint->inner_, make(endpoint.get()));
  return endpoint;
}

void DetourEndpoint::SetDetours(std::map<WorkerId, WorkerId> via) {
  const std::lock_guard lock(mutex_);
  via_ = std::move(via);
  any_ = !via_.empty();
}

WorkerId DetourEndpoint::ViaFor(const WorkerId& to) const {
  if (!any_) return {};
  const std::lock_guard lock(mutex_);
  const auto via = via_.find(to);
  return via == via_.end() ? WorkerId() : via->second;
}

void DetourEndpoint::Connect(const WorkerId& peer,
                             const std::vector<protocol::Address>& addresses) {
  inner_->Connect(peer, addresses);
}

void DetourEndpoint::Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) {
  inner_->Know(peer, addresses);
}

void DetourEndpoint::Disconnect(const WorkerId& peer) { inner_->Disconnect(peer); }

Status DetourEndpoint::Send(const WorkerId& to, Lane lane, Envelope envelope) {
  const WorkerId via = ViaFor(to);
  if (via.empty() || !IsData(envelope.message)) return inner_->Send(to, lane, std::move(envelope));
  ASSIGN_OR_RETURN(std::string header, EncodeHeader(envelope.message));
  return inner_->Send(
      via, lane, {protocol::Relayed{self_, to, std::move(header)}, std::move(envelope.payload)});
}

void DetourEndpoint::OnMessage(const WorkerId& from, Lane lane, Envelope envelope) {
  const auto* relayed = std::get_if<protocol::Relayed>(&envelope.message);
  if (relayed == nullptr || relayed->to != self_) {
    handler_->OnMessage(from, lane, std::move(envelope));
    return;
  }
  // Only workers stand in for each other: an onlooker would speak as one by this.
  const bool of_workers = !protocol::IsOnlooker(from) && !protocol::IsOnlooker(relayed->from);
  auto message = DecodeHeader(std::as_bytes(std::span(relayed->header)));
  if (!of_workers || !message.ok() || !IsData(*message)) {
    ++refused_;
    return;
  }
  handler_->OnMessage(relayed->from, lane, {*std::move(message), std::move(envelope.payload)});
}

Traffic DetourEndpoint::traffic() const {
  Traffic traffic = inner_->traffic();
  traffic.messages_refused += refused_;
  return traffic;
}

}  // namespace swarm::net
