// What a replica's runner works with: the parts of its worker, and what it asks of the worker
// itself.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/loop.h"
#include "base/status.h"
#include "worker/net/endpoint.h"
#include "worker/protocol/messages/message.h"
#include "worker/stage/compute.h"
#include "worker/stage/memory/account.h"
#include "worker/stage/metrics/worker_metrics.h"
#include "worker/stage/reduce/reducing.h"
#include "worker/stage/worker_options.h"

namespace swarm::stage {

/// What a runner needs of its worker. Called on the control loop.
class RunnerHost {
 public:
  virtual ~RunnerHost() = default;
  virtual void Send(const protocol::WorkerId& to, net::Lane lane, protocol::Message message,
                    Bytes payload) = 0;
  /// Sends to the trainer, if there is one.
  virtual void Tell(protocol::Message message) = 0;
  /// As Tell; reports may wait a little for others.
  virtual void Report(const protocol::Progress& progress) = 0;
  /// The replica has taken a roster, or a change of it, and has not acted on it yet.
  virtual void OnRoster(const protocol::Roster& roster) = 0;
  virtual void OnRosterChange(const protocol::RosterChange& change) = 0;
  /// The replica is of no use any more; it is to load another state.
  virtual void BeginAnew(const protocol::Rollback& request) = 0;
  /// The state is of no use any more; the worker may come back as a new incarnation.
  virtual void Rejoin(const std::string& reason) = 0;
  virtual void GiveUp(const Status& why) = 0;
};

/// The parts of a worker that a runner uses. All outlive it, or are stopped before it ends.
struct RunnerParts {
  const WorkerOptions& options;
  Loop& control;
  Compute& compute;
  Reducing& reducing;
  WorkerMetrics& metrics;
  MemoryAccount& memory;
  RunnerHost& host;
};

}  // namespace swarm::stage
