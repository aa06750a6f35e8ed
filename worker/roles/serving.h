// What both roles of swarm-worker serve: the wire to their peers, and pages for probes and metrics.
#pragma once

#include <memory>
#include <vector>

#include "base/metrics/exporter.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/flags/flags.h"
#include "worker/net/endpoint.h"
#include "worker/net/grpc/revocations.h"
#include "worker/protocol/ids.h"

namespace swarm::roles {

/// A loop that does not answer a probe within this time is stuck.
inline constexpr Duration kProbeLimit = std::chrono::seconds(3);

/// Where a worker reaches its trainer, in the order in which it tries.
std::vector<protocol::Address> WaysToTrainer(const WorkerFlags& flags);

/// The workers whose certificates count no more, those of --revoked-file among them.
std::shared_ptr<net::Revocations> RevocationsOf(const WorkerFlags& flags);

/// Makes the endpoint of `self` as the flags say; with --chaos-file one whose network can be
/// disturbed.
net::MakeEndpoint EndpointMaker(const WorkerFlags& flags, const protocol::WorkerId& self,
                                std::shared_ptr<net::Revocations> revocations);

/// Serves metrics and probes, and writes the address to --metrics-address-file. Null if the flags
/// do not ask for metrics.
Result<std::unique_ptr<metrics::Exporter>> ServePages(const WorkerFlags& flags,
                                                      metrics::Pages pages);

}  // namespace swarm::roles
