#include "tests/simulation/trainer_process.h"

#include <algorithm>

#include "tests/simulation/describe.h"
#include "tests/simulation/worker_process.h"

namespace swarm::simulation {

using protocol::EvictionCause;
using std::chrono::milliseconds;
namespace order = protocol::order;

namespace {

std::vector<std::vector<std::uint64_t>> PartSizes(const Job& job) {
  if (!job.divided) return {};
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t e = 0; e < kElements; ++e) sizes.push_back(e + 2);
  return std::vector<std::vector<std::uint64_t>>(job.stages(), sizes);
}

constexpr Duration kTickMin = milliseconds(80);
/// A trainer decides at each tick after a change.
constexpr int kSettledTicks = 3;
constexpr Duration kTickMax = milliseconds(120);

}  // namespace

TrainerProcess::TrainerProcess(Simulation* simulation, bool take_over)
    : simulation_(*simulation),
      world_(simulation->world()),
      network_(simulation->network()),
      term_(simulation->store().ClaimTerm()),
      silence_max_(world_.Draw(milliseconds(1000), milliseconds(3000))) {
  const Job& job = simulation_.job();
  const Beginning& beginning = simulation_.store().newest();
  generation_ = beginning.generation;
  coordinator_ = std::make_unique<protocol::Coordinator>(
      protocol::CoordinatorOptions{
          .term = term_,
          .take_over = take_over,
          .generation = beginning.generation,
          .replicas = job.replicas,
          .microbatches = job.microbatches,
          .max_steps = job.steps,
          .delayed = job.delayed,
          .tied_head = job.tied_head,
          .exact = !job.order_sensitive,
          .part_sizes = PartSizes(job),
          .max_grad_norm = job.max_grad_norm,
          .seed = simulation_.scenario().seed,
          .audit_fraction = simulation_.scenario().audit_fraction,
          .audit_seed = MixName(simulation_.scenario().seed, "audits"),
          .learning_rate = LearningRate,
          .job_json = "{}",
          .first_version = beginning.version,
          .resume_uri = beginning.uri,
          .checkpoint_interval_steps = job.checkpoint_interval,
          .checkpoint_uri = job.checkpoints ? "store" : "",
          .validation_interval_steps = job.validation_interval,
          .validation_microbatches = job.validation_microbatches,
          .balance = simulation_.scenario().balance,
          .balance_period = std::chrono::milliseconds(200),
          .regions = {.survive_loss = simulation_.scenario().survive_region_loss},
          .flat_reduce_max = simulation_.scenario().flat_reduce_max,
          .join_lag_max = simulation_.scenario().join_lag_max,
          .mesh = simulation_.scenario().mesh,
          .patience = simulation_.scenario().patience,
          .rules = simulation_.mutations().coordinator},
      world_.now());
}

void TrainerProcess::Start(Pid pid) {
  pid_ = pid;
  world_.After(pid_, kTickMin, [this] { Tick(); });
}

void TrainerProcess::Tick() {
  if (gone_) return;
  CheckSilence();
  if (!gone_) Carry(coordinator_->OnTick(world_.now()));
  if (!gone_ && simulation_.scenario().survive_region_loss) CheckRegions();
  if (!gone_) world_.After(pid_, world_.Draw(kTickMin, kTickMax), [this] { Tick(); });
}

/// What the rule of regions promises: as long as nobody comes, goes or moves, as many stages are in
/// two regions as can be.
void TrainerProcess::CheckRegions() {
  const protocol::JobStatus status = coordinator_->Status();
  bool settled = status.state == protocol::JobState::kTraining && !stopping_ &&
                 status.spares.empty() && status.balance.moving.empty();
  std::vector<std::pair<WorkerId, protocol::StageIndex>> members;
  for (const protocol::StageStatus& stage : status.stages) {
    for (const auto& worker : stage.workers) {
      settled = settled && worker.state == protocol::WorkerState::kReady;
      members.emplace_back(worker.id, stage.stage);
    }
  }
  if (!settled || members != settled_) settled_ticks_ = 0;
  settled_ = std::move(members);
  if (!settled || ++settled_ticks_ < kSettledTicks) return;
  simulation_.audit().OnSettled(Loads(status));
}

std::vector<protocol::StageLoad> TrainerProcess::Loads(const protocol::JobStatus& status) const {
  std::vector<protocol::StageLoad> stages;
  for (const protocol::StageStatus& stage : status.stages) {
    stages.emplace_back();
    for (const auto& worker : stage.workers) {
      stages.back().replicas.push_back({.worker = worker.id,
                                        .ready = worker.state == protocol::WorkerState::kReady,
                                        .region = worker.region});
    }
  }
  return stages;
}

bool TrainerProcess::IsInTwoRegions() const {
  const protocol::JobStatus status = coordinator_->Status();
  const auto stages = Loads(status);
  return status.state == protocol::JobState::kTraining &&
         std::ranges::all_of(
             stages,
             [](const auto& stage) { return protocol::balancing::ReadyCount(stage) > 0; }) &&
         protocol::DescribeOneRegion(stages).empty();
}

/// The simulation sends no single heartbeats: a member counts as heard if a heartbeat sent now
/// would arrive.
void TrainerProcess::CheckSilence() {
  for (const WorkerId& id : coordinator_->Members()) {
    Timepoint& heard = heard_.try_emplace(id, world_.now()).first->second;
    if (network_.CanHear(pid_, id)) {
      heard = world_.now();
      const Pid* worker = world_.Find(id);
      if (worker == nullptr) continue;
      Carry(coordinator_->OnBeat(id, simulation_.worker(*worker).Beat(), world_.now()));
      if (gone_) return;
    }
    if (world_.now() - heard < silence_max_) continue;
    heard_.erase(id);
    Carry(
        coordinator_->OnWorkersLost({{id, "silent", true, EvictionCause::kSilent}}, world_.now()));
    if (gone_) return;
  }
}

void TrainerProcess::OnContinued() { heard_.clear(); }

void TrainerProcess::RaiseFalseAlarm() {
  const auto members = coordinator_->Members();
  if (gone_ || members.empty()) return;
  RaiseFalseAlarm(members[world_.rng().Below(members.size())]);
}

void TrainerProcess::RaiseFalseAlarm(const WorkerId& id) {
  if (gone_) return;
  Carry(coordinator_->OnWorkersLost({{id, "silent (a false alarm)", true, EvictionCause::kSilent}},
                                    world_.now()));
}

void TrainerProcess::RequestStop() {
  stopping_ = true;
  if (!gone_) Carry(coordinator_->OnStopRequested(world_.now()));
}

void TrainerProcess::OnMessage(const WorkerId& from, const Envelope& envelope) {
  if (gone_) return;
  world_.Log(world_.name(pid_).value,
             [&] { return "from " + from.value + ": " + simulation::Describe(envelope.message); });
  Carry(coordinator_->OnMessage(from, envelope.message, world_.now()));
}

void TrainerProcess::OnPeerUp(const WorkerId&) {}

void TrainerProcess::OnPeerDown(const WorkerId& peer) {
  if (gone_) return;
  network_.DropOutbox(pid_, peer);
  heard_.erase(peer);
  Carry(coordinator_->OnWorkersLost({{peer, "the connection broke"}}, world_.now()));
}

void TrainerProcess::Carry(protocol::Orders orders) {
  std::size_t last = orders.size();
  if (crash_soon_ && last > 1) last = world_.rng().Below(last);
  for (std::size_t i = 0; i < last && !gone_; ++i) {
    world_.Log(world_.name(pid_).value,
               [&] { return "  does " + simulation::Describe(orders[i]); });
    simulation_.fingerprint().Add(orders[i]);
    std::visit([this](const auto& o) { Do(o); }, orders[i]);
  }
  if (last < orders.size() && !gone_) {
    world_.Log(world_.name(pid_).value, [] { return std::string("crashes"); });
    gone_ = true;
    simulation_.EndProcess(pid_, milliseconds(300));
    simulation_.StartTrainer(world_.Draw(milliseconds(50), milliseconds(1500)));
  }
}

/// The store refuses every change of a superseded trainer, and that trainer ends.
bool TrainerProcess::IsSuperseded() {
  if (!simulation_.store().IsSuperseded(term_)) return false;
  world_.Log(world_.name(pid_).value, [] { return std::string("is superseded, and ends"); });
  gone_ = true;
  simulation_.EndProcess(pid_, milliseconds(50));
  return true;
}

void TrainerProcess::Do(const order::Tell& o) {
  // The decision is made when the first worker is told. The decision of a superseded trainer counts
  // only if a worker applies it.
  const auto* commit = std::get_if<protocol::Commit>(&o.message);
  if (commit != nullptr && !simulation_.store().IsSuperseded(term_)) {
    simulation_.audit().OnDecided(commit->record, coordinator_->Members());
  }
  if (const auto* roster = std::get_if<protocol::Roster>(&o.message)) {
    simulation_.audit().OnRoster(*roster);
  }
  if (const auto* change = std::get_if<protocol::RosterChange>(&o.message)) {
    simulation_.audit().OnRosterChange(*change);
  }
  network_.Send(pid_, o.to, Lane::kControl, {o.message, {}});
}

void TrainerProcess::Do(const order::Issue& o) {
  protocol::Forward frame = o.frame;
  const auto& key = frame.key;
  const bool trains = frame.kind == protocol::TaskKind::kTrain;
  frame.tokens =
      simulation_.Tokens(frame.kind, trains ? key.step : protocol::Step(), key.microbatch);
  frame.sequences = frame.tokens_per_sequence = 1;
  const WorkerId to = frame.hops[key.stage.value].worker;
  if (world_.Chance(simulation_.scenario().resend_probability)) {
    world_.After(pid_, world_.Draw(milliseconds(0), milliseconds(100)),
                 [=, this] { network_.Send(pid_, to, Lane::kData, {frame, {}}); });
  }
  network_.Send(pid_, to, Lane::kData, {std::move(frame), {}});
}

void TrainerProcess::Do(const order::StepDone& o) {
  if (IsSuperseded()) return;
  const std::string error = simulation_.store().Append(o.record);
  if (!error.empty()) simulation_.audit().Fail("NothingLost", error);
}

void TrainerProcess::Do(const order::Validated& o) {
  simulation_.audit().OnValidated(o.version, o.loss);
}

void TrainerProcess::Do(const order::PublishCheckpoint& o) {
  world_.After(
      pid_, world_.Draw(milliseconds(1), milliseconds(30)), [this, o, generation = generation_] {
        if (gone_ || IsSuperseded()) return;
        const std::string error =
            simulation_.store().Publish(generation, o.version, o.files, simulation_.job().stages());
        if (!error.empty())
          simulation_.audit().Fail("NothingLost", "a checkpoint is none: " + error);
        Carry(coordinator_->OnCheckpointPublished(o.version, error, world_.now()));
      });
}

void TrainerProcess::Do(const order::Event&) {}

void TrainerProcess::Do(const order::BeginGeneration& o) {
  world_.After(pid_, world_.Draw(milliseconds(1), milliseconds(30)), [this, o] {
    if (gone_ || IsSuperseded()) return;
    const Beginning beginning = simulation_.store().Begin(o.generation);
    generation_ = o.generation;
    Carry(coordinator_->OnGenerationBegun(o.generation, beginning.version, beginning.uri, Digest{},
                                          world_.now()));
  });
}

void TrainerProcess::Do(const order::Forget& o) {
  simulation_.OnDeparture();
  network_.Forget(pid_, o.worker);
}

void TrainerProcess::Do(const order::Finish& o) {
  gone_ = true;
  if (o.superseded) {
    const bool was_current = simulation_.trainer() == pid_;
    simulation_.EndProcess(pid_, milliseconds(50));
    if (o.was_stopped && was_current) simulation_.StartTrainer(milliseconds(200));
  } else {
    simulation_.OnFinished(term_, o.succeeded, o.stopped_early, o.reason);
  }
}

std::string TrainerProcess::Describe() const {
  const protocol::JobStatus status = coordinator_->Status();
  std::string text = world_.name(pid_).value + " term " + std::to_string(term_.value) + " " +
                     std::string(swarm::NameOf(status.state)) + " version " +
                     std::to_string(status.step.value) + " members";
  for (const WorkerId& id : coordinator_->Members()) text += " " + id.value;
  for (const protocol::StageStatus& stage : status.stages) {
    text += "; stage " + std::to_string(stage.stage.value) + ":";
    for (const auto& worker : stage.workers) {
      text += " " + worker.id.value + "(" + std::to_string(worker.in_flight) + " in flight)";
    }
  }
  return text;
}

}  // namespace swarm::simulation
