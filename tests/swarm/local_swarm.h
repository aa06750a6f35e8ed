// A trainer and its workers in one process, over the loopback network: real stages, real protocol,
// no sockets and no processes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "tests/swarm/tiny_job.h"
#include "worker/net/loopback/loopback.h"
#include "worker/stage/worker.h"
#include "worker/trainer/reference.h"
#include "worker/trainer/trainer.h"

namespace swarm::tests {

inline Result<std::unique_ptr<trainer::Trainer>> StartTrainer(net::LoopbackNetwork& network,
                                                              trainer::TrainerOptions options) {
  return trainer::Trainer::Start(std::move(options), [&](net::EndpointHandler* handler) {
    return network.CreateEndpoint(trainer::kTrainerId, handler);
  });
}

/// A worker of that trainer.
inline Result<std::unique_ptr<stage::Worker>> StartWorker(net::LoopbackNetwork& network,
                                                          stage::WorkerOptions options) {
  options.trainer = trainer::kTrainerId;
  const protocol::WorkerId id = options.id;
  return stage::Worker::Start(std::move(options), [&](net::EndpointHandler* handler) {
    return network.CreateEndpoint(id, handler);
  });
}

/// Trains `job` with that many replicas a stage, of which each `pod_size` that begin one after the
/// other share a pod; steps.jsonl is in `out_dir`.
inline trainer::Outcome RunSwarm(const api::SwarmJob& job,
                                 const std::vector<std::uint64_t>& replicas,
                                 const std::string& out_dir, bool resume = false,
                                 std::uint64_t pod_size = 1,
                                 const stage::CreateStage& create = model::Stage::Create) {
  net::LoopbackNetwork network;
  auto trainer = StartTrainer(
      network, {.job = job, .replicas = replicas, .out_dir = out_dir, .resume = resume});
  if (!trainer.ok()) return {.reason = trainer.status().ToString()};
  std::vector<std::unique_ptr<stage::Worker>> workers;
  std::uint64_t count = 0;
  for (const std::uint64_t n : replicas) count += n;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto worker =
        StartWorker(network, {.id = protocol::WorkerId("w" + std::to_string(i)),
                              .pod = pod_size == 1 ? "" : "pod" + std::to_string(i / pod_size),
                              .create_stage = create});
    EXPECT_TRUE(worker.ok()) << worker.status().ToString();
    workers.push_back(std::move(*worker));
  }
  for (auto& worker : workers) {
    const Status status = worker->Wait();
    EXPECT_TRUE(status.ok()) << status.ToString();
    worker.reset();
  }
  return (*trainer)->Wait();
}

}  // namespace swarm::tests
