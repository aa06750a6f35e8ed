// An observer on a real network that only dials: for programs that know a trainer's address and
// hold the job's identity in memory.
#pragma once

#include <memory>
#include <string>

#include "worker/net/wire/receive_buffers.h"
#include "worker/trainer/observer/observer.h"

namespace swarm::trainer {

struct DialledObserverOptions {
  protocol::WorkerId self;  ///< "operator/NAME": see Observer::Start
  std::string dial;         ///< host:port of the trainer
  std::string job_uid;
  std::string ca, certificate, key;  ///< PEM; all empty: no TLS
  Duration interval = std::chrono::seconds(1);
  Duration redial_max = std::chrono::seconds(3);  ///< between two tries, if it does not answer
  std::shared_ptr<Loop> loop;                     ///< may be shared; null: two threads of its own
  std::shared_ptr<StatusMemory> memory;           ///< may be shared; null: no bound
  /// Bounds the large messages that are decoded at the same time; may be shared. Null: its own.
  std::shared_ptr<net::ReceiveBuffers> receive_buffers;
};

/// Errors: kInvalidArgument (a certificate that cannot be read, or names another id).
Result<std::unique_ptr<Observer>> DialObserver(const DialledObserverOptions& options);

}  // namespace swarm::trainer
