#include "ctl/simulate/fleet/fleet_trainer.h"

#include <utility>

namespace swarm::ctl {

namespace order = protocol::order;
using protocol::WorkerId;

namespace {

/// As worker/trainer/trainer.cc looks after deadlines.
constexpr Duration kTick = std::chrono::milliseconds(100);
/// To write or read a small object of the storage.
constexpr Duration kStorageAnswer = std::chrono::milliseconds(100);

protocol::CoordinatorOptions OptionsOf(const Fleet& fleet, std::uint64_t seed) {
  protocol::CoordinatorOptions options;
  options.replicas = ReplicasAtStart(fleet);
  options.microbatches = fleet.job.microbatches;
  options.max_steps = ~std::uint64_t{0};
  options.delayed = fleet.job.delayed;
  options.in_flight.most = fleet.job.in_flight_max;
  options.seed = seed;
  options.learning_rate = [](protocol::Step) { return 1e-3; };
  options.checkpoint_interval_steps = fleet.job.checkpoint_steps;
  options.checkpoint_uri = fleet.job.checkpoint_steps > 0 ? "storage" : "";
  options.balance = fleet.job.balance;
  options.balance_period = FromSeconds(fleet.job.balance_period_seconds);
  return options;
}

}  // namespace

FleetTrainer::FleetTrainer(const Fleet& fleet, std::uint64_t seed, EventQueue* queue,
                           TrainerHost* host, Stopwatch stopwatch)
    : queue_(*queue),
      host_(*host),
      stopwatch_(std::move(stopwatch)),
      coordinator_(OptionsOf(fleet, seed), queue->now()) {}

template <typename Call>
void FleetTrainer::Ask(double* measured, const Call& call) {
  const double begin = stopwatch_ ? stopwatch_() : 0;
  protocol::Orders orders = call();
  if (stopwatch_) *measured += stopwatch_() - begin;
  for (protocol::Order& each : orders) {
    std::visit([this](auto& o) { Do(o); }, each);
  }
}

void FleetTrainer::Start() {
  queue_.After(kTick, [this] { Tick(); });
}

void FleetTrainer::Tick() {
  if (!failure_.empty()) return;
  Ask(&load_.measured_other_seconds, [this] { return coordinator_.OnTick(queue_.now()); });
  queue_.After(kTick, [this] { Tick(); });
}

void FleetTrainer::OnMessage(const WorkerId& from, const protocol::Message& message) {
  ++load_.received;
  Ask(&load_.measured_message_seconds,
      [&] { return coordinator_.OnMessage(from, message, queue_.now()); });
}

void FleetTrainer::OnBeat(const WorkerId& from, const protocol::Heartbeat& beat) {
  ++load_.heartbeats;
  Ask(&load_.measured_other_seconds, [&] { return coordinator_.OnBeat(from, beat, queue_.now()); });
}

void FleetTrainer::OnWorkerLost(const WorkerId& worker, const std::string& why, bool connected) {
  const auto cause =
      connected ? protocol::EvictionCause::kSilent : protocol::EvictionCause::kDisconnected;
  Ask(&load_.measured_other_seconds,
      [&] { return coordinator_.OnWorkersLost({{worker, why, connected, cause}}, queue_.now()); });
}

void FleetTrainer::Do(order::Tell& o) {
  ++load_.sent;
  host_.SendFromTrainer(o.to, std::move(o.message));
}

void FleetTrainer::Do(order::Issue& o) {
  ++load_.sent;
  const WorkerId to = o.frame.hops[o.frame.key.stage.value].worker;
  host_.SendTokens(to, std::move(o.frame));
}

void FleetTrainer::Do(order::StepDone& o) { host_.OnStep(o.record); }

void FleetTrainer::Do(order::PublishCheckpoint& o) {
  queue_.After(kStorageAnswer, [this, version = o.version] {
    checkpoint_ = version;
    Ask(&load_.measured_other_seconds,
        [&] { return coordinator_.OnCheckpointPublished(version, "", queue_.now()); });
  });
}

void FleetTrainer::Do(order::BeginGeneration& o) {
  queue_.After(kStorageAnswer, [this, generation = o.generation] {
    const std::string uri = checkpoint_.value > 0 ? "storage" : "";
    host_.OnRolledBack(checkpoint_);
    Ask(&load_.measured_other_seconds, [&] {
      return coordinator_.OnGenerationBegun(generation, checkpoint_, uri, Digest{}, queue_.now());
    });
  });
}

void FleetTrainer::Do(order::Finish& o) {
  failure_ = o.reason.empty() ? "the job is over" : o.reason;
}

}  // namespace swarm::ctl
