#include "worker/net/pod/pod_endpoint.h"

#include <optional>
#include <utility>

#include "base/log.h"

namespace swarm::net {

Result<std::unique_ptr<Endpoint>> PodEndpoint::Create(std::shared_ptr<PodMemory> memory,
                                                      std::set<WorkerId> peers,
                                                      EndpointHandler* handler,
                                                      const MakeEndpoint& make) {
  std::unique_ptr<PodEndpoint> endpoint(
      new PodEndpoint(std::move(memory), std::move(peers), handler));
  ASSIGN_OR_RETURN(endpoint->inner_, make(endpoint.get()));
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

void PodEndpoint::Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) {
  inner_->Connect(peer, addresses);
}

void PodEndpoint::Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) {
  inner_->Know(peer, addresses);
}

void PodEndpoint::Disconnect(const WorkerId& peer) { inner_->Disconnect(peer); }

Status PodEndpoint::Send(const WorkerId& to, Lane lane, Envelope envelope) {
  std::optional<Bytes> loan;
  if (envelope.payload.size() >= kLentBytesMin && peers_.contains(to)) {
    loan = memory_->Lend(envelope.payload, Clock::now());
  }
  if (!loan) return inner_->Send(to, lane, std::move(envelope));
  const std::size_t bytes = envelope.payload.size();
  envelope.payload = *loan;
  const Status status = inner_->Send(to, lane, std::move(envelope));
  if (status.ok()) {
    bytes_lent_ += bytes - loan->size();
  } else {
    memory_->TakeBack(*loan);
  }
  return status;
}

void PodEndpoint::OnMessage(const WorkerId& from, Lane lane, Envelope envelope) {
  if (memory_->IsLoan(envelope.payload) && peers_.contains(from)) {
    auto payload = memory_->Take(envelope.payload);
    if (!payload.ok()) {
      ++refused_;
      LOG_WARN("refused a message from {}: {}", from.value, payload.status().ToString());
      return;
    }
    bytes_taken_ += payload->size() - envelope.payload.size();
    envelope.payload = *std::move(payload);
  }
  handler_->OnMessage(from, lane, std::move(envelope));
}

Traffic PodEndpoint::traffic() const {
  Traffic traffic = inner_->traffic();
  traffic.bytes_sent += bytes_lent_;
  traffic.bytes_received += bytes_taken_;
  traffic.messages_refused += refused_;
  return traffic;
}

}  // namespace swarm::net
