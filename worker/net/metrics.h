// The metrics of an endpoint.
#pragma once

#include <string>
#include <vector>

#include "base/metrics.h"
#include "worker/net/endpoint.h"

namespace swarm::net {

/// Appends the metrics of the messages that `program`, a worker or the trainer, sent and received.
inline void AppendMetrics(const WorkerId& program, const Traffic& traffic,
                          std::vector<MetricSample>* samples) {
  const auto append = [&](Metric metric, std::uint64_t count) {
    samples->push_back({metric, {program.value}, static_cast<double>(count)});
  };
  append(Metric::kNetSentBytes, traffic.bytes_sent);
  append(Metric::kNetReceivedBytes, traffic.bytes_received);
  append(Metric::kNetSentMessages, traffic.messages_sent);
  append(Metric::kNetReceivedMessages, traffic.messages_received);
  append(Metric::kNetRefusedMessages, traffic.messages_refused);
}

}  // namespace swarm::net
