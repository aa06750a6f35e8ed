#include "tests/virtual/virtual_swarm.h"

#include <utility>

namespace swarm::tests {

using protocol::WorkerId;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

/// How often the world looks for processes that have ended.
constexpr Duration kTend = milliseconds(50);

std::string InSeconds(Duration duration) { return std::to_string(ToSeconds(duration)) + " s"; }

bool IsReady(const auto& future) {
  return future.wait_for(seconds(0)) == std::future_status::ready;
}

}  // namespace

VirtualSwarm::VirtualSwarm(const VirtualOptions& options)
    : time_(options.seed), options_(options), rng_(Mix(options.seed)) {
  time_.SetProcess(0);
  world_ = std::make_unique<Loop>("world");
  std::uint64_t count = 0;
  for (const std::uint64_t n : options_.replicas) count += n;
  for (std::uint64_t i = 0; i < count; ++i) {
    names_.emplace_back("w" + std::to_string(i));
    processes_[names_.back()].latency = Draw(Duration::zero(), milliseconds(20));
  }
}

VirtualSwarm::~VirtualSwarm() {
  world_.reset();
  processes_.clear();
  trainer_.reset();
}

void VirtualSwarm::After(Duration delay, std::function<void()> event) {
  world_->PostAt(time_.now() + delay, std::move(event));
}

void VirtualSwarm::Tell(const std::string& what) {
  story_.push_back(InSeconds(time_.now() - begin_) + ": " + what);
}

trainer::Outcome VirtualSwarm::Run(Duration limit) {
  StartTrainer();
  for (const WorkerId& name : names_) StartWorker(name);
  After(kTend, [this] { Tend(); });
  if (time_.RunFor(limit, [this] { return outcome_.has_value(); })) return *outcome_;
  return {.reason = "the job is not over"};
}

void VirtualSwarm::StartTrainer() {
  time_.SetProcess(trainer_number_ = numbers_++);
  ++term_;
  Tell("trainer " + std::to_string(term_) + " starts");
  auto started = trainer::Trainer::Start(
      {.job = options_.job,
       .replicas = options_.replicas,
       .out_dir = options_.out_dir,
       .term = protocol::Term(term_),
       .balance = options_.balance},
      [&](net::EndpointHandler* handler) {
        return network_.CreateEndpoint(trainer::kTrainerId, handler, {.latency = milliseconds(1)});
      });
  SWARM_CHECK(started.ok(), started.status().ToString());
  trainer_ = *std::move(started);
}

void VirtualSwarm::StartWorker(const WorkerId& name) {
  Process& process = processes_.at(name);
  time_.SetProcess(process.number = numbers_++);
  ++process.starts;
  Tell(name.value + " starts");
  stage::WorkerOptions options{.id = name,
                               .incarnation = protocol::Incarnation(process.starts),
                               .trainer = trainer::kTrainerId,
                               .memory_budget = 64u << 20};
  const Duration mean = Draw(milliseconds(20), milliseconds(60));
  options.create_stage = [this, mean](const model::StageOptions& stage)
      -> Result<std::unique_ptr<model::Stage>> {
    return std::unique_ptr<model::Stage>(std::make_unique<ToyStage>(
        stage, options_.size, [this, mean] { return Draw(mean / 2, mean * 3 / 2); }));
  };
  auto started = stage::Worker::Start(std::move(options), [&](net::EndpointHandler* handler) {
    return network_.CreateEndpoint(name, handler,
                                   {.data_window_bytes = options_.data_window_bytes,
                                    .latency = process.latency});
  });
  SWARM_CHECK(started.ok(), started.status().ToString());
  process.worker = *std::move(started);
}

void VirtualSwarm::EndWorker(const WorkerId& name, Duration pause) {
  Process& process = processes_.at(name);
  if (process.worker == nullptr) return;
  if (time_.IsRunning(process.number)) {
    return After(milliseconds(1), [this, name, pause] { EndWorker(name, pause); });
  }
  process.worker.reset();
  After(pause, [this, name] {
    if (processes_.at(name).worker == nullptr) StartWorker(name);
  });
}

void VirtualSwarm::EndTrainer(Duration pause) {
  if (trainer_ == nullptr) return;
  if (time_.IsRunning(trainer_number_)) {
    return After(milliseconds(1), [this, pause] { EndTrainer(pause); });
  }
  trainer_.reset();
  After(pause, [this] {
    if (trainer_ == nullptr) StartTrainer();
  });
}

void VirtualSwarm::Tend() {
  for (auto& [name, process] : processes_) {
    if (process.worker == nullptr || !IsReady(process.worker->ended())) continue;
    const Status why = process.worker->ended().get();
    Tell(name.value + " ends: " + (why.ok() ? "dismissed" : why.message()));
    EndWorker(name, seconds(1));
  }
  if (trainer_ != nullptr && IsReady(trainer_->ended())) {
    const trainer::Outcome outcome = trainer_->ended().get();
    Tell("trainer " + std::to_string(term_) + " ends: " + outcome.reason);
    if (!outcome.superseded) {
      outcome_ = outcome;
      return;
    }
    EndTrainer(seconds(1));
  }
  After(kTend, [this] { Tend(); });
}

void VirtualSwarm::Kill(const WorkerId& worker, Duration pause) {
  Tell("kill " + worker.value);
  EndWorker(worker, pause);
}

void VirtualSwarm::KillTrainer(Duration pause) {
  Tell("kill the trainer");
  EndTrainer(pause);
}

void VirtualSwarm::Freeze(const WorkerId& name, Duration length) {
  Tell("stop " + name.value + " for " + InSeconds(length));
  const bool trainer = name == trainer::kTrainerId;
  time_.Freeze(trainer ? trainer_number_ : processes_.at(name).number, time_.now() + length);
}

void VirtualSwarm::Part(const WorkerId& a, const WorkerId& b, Duration length) {
  if (a == b) return;
  Tell("cut " + a.value + " from " + b.value + " for " + InSeconds(length));
  network_.Break(a, b, /*keep_apart=*/true);
  After(length, [this, a, b] {
    Tell("join " + a.value + " and " + b.value);
    network_.Rejoin(a, b);
  });
}

void VirtualSwarm::Leave(const WorkerId& worker, Duration grace) {
  Tell(worker.value + " leaves within " + InSeconds(grace));
  if (const auto& process = processes_.at(worker); process.worker != nullptr) {
    process.worker->Leave(grace);
  }
}

}  // namespace swarm::tests
