// An endpoint that counts the payload that it sends to each peer, whatever regions the peers say.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "worker/net/endpoint.h"

namespace swarm::net {

/// Bytes of payload by receiver. Thread-safe.
class SentBytes {
 public:
  void Add(const WorkerId& to, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[to] += bytes;
  }
  std::map<WorkerId, std::uint64_t> Read() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<WorkerId, std::uint64_t> bytes_;
};

class CountingEndpoint final : public Endpoint {
 public:
  /// `sent` outlives it.
  CountingEndpoint(std::unique_ptr<Endpoint> inner, SentBytes* sent)
      : inner_(std::move(inner)), sent_(sent) {}

  void Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override {
    inner_->Connect(peer, addresses);
  }
  void Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override {
    inner_->Know(peer, addresses);
  }
  void Disconnect(const WorkerId& peer) override { inner_->Disconnect(peer); }
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) override {
    const std::uint64_t bytes = envelope.payload.size();
    Status status = inner_->Send(to, lane, std::move(envelope));
    if (status.ok() && bytes > 0) sent_->Add(to, bytes);
    return status;
  }
  std::vector<protocol::Address> addresses() const override { return inner_->addresses(); }
  Traffic traffic() const override { return inner_->traffic(); }
  std::map<WorkerId, protocol::Link> links() const override { return inner_->links(); }

 private:
  const std::unique_ptr<Endpoint> inner_;
  SentBytes* const sent_;
};

}  // namespace swarm::net
