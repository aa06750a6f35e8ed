#include "tests/simulation/simulation.h"

#include <algorithm>

#include "tests/simulation/faults.h"
#include "tests/simulation/trainer_process.h"
#include "tests/simulation/worker_process.h"

namespace swarm::simulation {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

/// The limit from the end of all faults to the end of the job: many of the longest deadlines,
/// because some of them double.
constexpr Duration kPatience = seconds(600);
constexpr std::uint64_t kEventsMax = 400'000;
constexpr double kSlowness = 40;

}  // namespace

Simulation::Simulation(Scenario scenario, Mutations mutations, bool verbose)
    : scenario_(std::move(scenario)),
      mutations_(mutations),
      world_(MixName(scenario_.seed, "world"), verbose),
      network_(&world_, scenario_.network),
      reference_(scenario_.job),
      audit_(&world_, &scenario_.job, &reference_) {}

Simulation::~Simulation() = default;

const Bytes& Simulation::Tokens(protocol::TaskKind kind, protocol::Step step,
                                protocol::Microbatch m) {
  const auto [it, fresh] = tokens_.try_emplace({kind, step, m});
  if (fresh) it->second = MakeTokens(kind, step.value, m.value);
  return it->second;
}

bool Simulation::FailsToWrite() {
  constexpr std::uint64_t kFailuresMax = 2;
  return write_failures_ < kFailuresMax && world_.Chance(scenario_.checkpoint_error_probability) &&
         ++write_failures_ > 0;
}

std::optional<Duration> Simulation::DiskTime(const WorkerId& worker) {
  const auto it = disks_.find(worker);
  switch (it == disks_.end() ? DiskTrouble::kNone : it->second) {
    case DiskTrouble::kHung:
      return std::nullopt;
    case DiskTrouble::kSlow:
      return world_.Draw(seconds(20), seconds(240));
    case DiskTrouble::kNone:
      break;
  }
  return world_.Draw(milliseconds(1), milliseconds(20));
}

std::optional<Pid> Simulation::trainer() const {
  if (trainers_.empty() || !world_.IsAlive(trainers_.back())) return std::nullopt;
  return trainers_.back();
}

std::vector<Pid> Simulation::Workers() const {
  std::vector<Pid> alive;
  for (const Pid pid : workers_) {
    if (world_.IsAlive(pid)) alive.push_back(pid);
  }
  return alive;
}

WorkerProcess& Simulation::worker(Pid pid) {
  return *static_cast<WorkerProcess*>(world_.process(pid));
}

Pid Simulation::StartWorker(const WorkerId& id, Duration delay, std::optional<KeptState> kept) {
  const double slowness = world_.Chance(scenario_.slow_probability) ? kSlowness : 1;
  auto process = std::make_unique<WorkerProcess>(this, id, protocol::Incarnation(++incarnations_),
                                                 slowness, std::move(kept));
  WorkerProcess* worker = process.get();
  // The process starts after its delay, and replaces an older process of that name.
  world_.After(delay, [this, worker, id,
                       process = std::make_shared<std::unique_ptr<Process>>(std::move(process))] {
    if (const Pid* old = world_.Find(id)) EndProcess(*old, milliseconds(100));
    const Pid pid = world_.Add(id.value, std::move(*process));
    workers_.push_back(pid);
    world_.Log(id.value, [] { return std::string("starts"); });
    worker->Start(pid);
  });
  return 0;
}

void Simulation::EndProcess(Pid pid, Duration notice) {
  if (!world_.IsAlive(pid)) return;
  world_.Log(world_.name(pid).value, [] { return std::string("ends"); });
  world_.Kill(pid);
  network_.BreakAll(pid, notice);
}

void Simulation::RestartWorker(Pid pid, Duration delay, std::optional<KeptState> kept) {
  const WorkerId id = world_.name(pid);
  EndProcess(pid, milliseconds(100));
  StartWorker(id, delay, std::move(kept));
}

void Simulation::StartTrainer(Duration delay) {
  trainer_coming_ = true;
  world_.After(delay, [this] {
    if (finished_) return;
    trainer_coming_ = false;
    auto process = std::make_unique<TrainerProcess>(this, !trainers_.empty());
    TrainerProcess* trainer = process.get();
    trainer_name_ = WorkerId("t" + std::to_string(trainers_.size() + 1));
    const Pid pid = world_.Add(trainer_name_.value, std::move(process));
    trainers_.push_back(pid);
    world_.Log(trainer_name_.value, [] { return std::string("starts"); });
    trainer->Start(pid);
    for (const Pid worker_pid : Workers()) {
      world_.After(worker_pid, world_.Draw(milliseconds(1), milliseconds(1500)),
                   [this, worker_pid] { worker(worker_pid).FollowTrainer(trainer_name_); });
    }
  });
}

void Simulation::OnFinished(protocol::Term term, bool succeeded, bool stopped,
                            const std::string& reason) {
  // A superseded trainer may still finish the job, but its failures do not count.
  if (store_.IsSuperseded(term) && !succeeded) return;
  finished_ = true;
  stopped_ = stopped;
  if (!succeeded) audit_.Fail("Progress", "the job failed: " + reason);
}

void Simulation::MendEverything() {
  mended_ = world_.now();
  disks_.clear();
  std::uint64_t wanted = 0;
  for (const std::uint64_t r : job().replicas) wanted += r;
  for (std::uint64_t there = Workers().size(); there < wanted; ++there) {
    StartWorker(NewWorkerName(), world_.Draw(milliseconds(0), milliseconds(1000)));
  }
  if (!trainer() && !trainer_coming_) StartTrainer(milliseconds(100));
}

Outcome Simulation::Run() {
  StartTrainer(milliseconds(0));
  std::uint64_t count = scenario_.spares;
  for (const std::uint64_t r : job().replicas) count += r;
  for (std::uint64_t i = 0; i < count; ++i) {
    StartWorker(NewWorkerName(), world_.Draw(milliseconds(0), milliseconds(20)));
  }
  const Timepoint begin = world_.now();
  Faults faults(this);
  faults.Start([this] { MendEverything(); });
  while (!finished_ && !audit_.violation()) {
    const bool stuck = mended_ && world_.now() - *mended_ > kPatience;
    if (stuck || world_.events() > kEventsMax || !world_.Step()) {
      audit_.Fail("Progress", std::string(stuck ? "stuck" : "no end in sight") + " after " +
                                  std::to_string(world_.events()) + " events\n" + DescribeState());
    }
  }
  if (!audit_.violation()) CheckEnd();
  return {.violation = audit_.violation(),
          .events = world_.events(),
          .decisions = audit_.decisions(),
          .seconds = ToSeconds(world_.now() - begin),
          .generations = store_.newest().generation.value + 1,
          .trainers = trainers_.size(),
          .incarnations = incarnations_,
          .held_apart = held_apart_,
          .departures = departures_,
          .returns = returns_,
          .declined = declined_,
          .stopped = stopped_,
          .fingerprint = fingerprint_.value()};
}

void Simulation::CheckEnd() {
  const auto& log = store_.log();
  if (!stopped_ && log.size() != job().steps) {
    audit_.Fail("NothingLost", "steps.jsonl has " + std::to_string(log.size()) + " lines of " +
                                   std::to_string(job().steps));
  }
  for (std::size_t t = 0; t < log.size(); ++t) {
    const protocol::CommitRecord& record = log[t].record;
    if (record.step.value != t) audit_.Fail("NothingLost", "a line of steps.jsonl is missing");
    const auto& expected = reference_.step(record.step).record;
    if (!job().order_sensitive && record.loss != expected.loss) {
      audit_.Fail("SameTrajectory", "the loss of step " + std::to_string(t) + " in steps.jsonl");
    }
  }
}

std::string Simulation::DescribeState() {
  std::string text;
  for (const Pid pid : trainers_) {
    if (world_.IsAlive(pid)) {
      text += static_cast<TrainerProcess*>(world_.process(pid))->Describe() + "\n";
    }
  }
  for (const Pid pid : Workers()) text += worker(pid).Describe() + "\n";
  return text;
}

Outcome RunSeed(std::uint64_t seed, const Wishes& wishes, const Mutations& mutations,
                bool verbose) {
  return Simulation(DrawScenario(seed, wishes), mutations, verbose).Run();
}

}  // namespace swarm::simulation
