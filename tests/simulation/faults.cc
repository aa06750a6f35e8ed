#include "tests/simulation/faults.h"

#include <algorithm>
#include <cmath>

#include "tests/simulation/trainer_process.h"
#include "tests/simulation/worker_process.h"

namespace swarm::simulation {

using std::chrono::milliseconds;

void Faults::Start(std::function<void()> over) {
  left_ = simulation_.scenario().faults;
  over_ = std::move(over);
  // Most jobs begin undisturbed: later, faults meet more.
  World& world = simulation_.world();
  const Duration peace =
      world.Chance(0.75) ? world.Draw(milliseconds(30), milliseconds(90)) : Duration();
  world.After(peace, [this] { ScheduleNext(); });
}

void Faults::ScheduleNext() {
  World& world = simulation_.world();
  if (left_ == 0) {
    std::uint64_t wanted = 0;
    for (const std::uint64_t r : simulation_.job().replicas) wanted += r;
    for (std::size_t i = wanted < 3 ? 0 : 1; i < cuts_.size(); ++i) {
      simulation_.network().Unblock(cuts_[i].first, cuts_[i].second);
    }
    for (const auto& [a, b] : isolations_) simulation_.network().Unblock(a, b);
    world.After(world.Draw(milliseconds(0), milliseconds(100)), over_);
    return;
  }
  --left_;
  // Exponential, but now and then as long as a deadline, so that recovery is disturbed too.
  const double mean = ToSeconds(simulation_.scenario().fault_gap);
  double seconds = -mean * std::log(1 - world.rng().Uniform());
  if (world.Chance(0.15)) seconds += 3 * world.rng().Uniform();
  world.After(FromSeconds(seconds), [this] {
    const auto& kinds = simulation_.scenario().kinds;
    Happen(kinds[simulation_.world().rng().Below(kinds.size())]);
    ScheduleNext();
  });
}

std::optional<Pid> Faults::PickWorker() {
  const auto workers = simulation_.Workers();
  if (workers.empty()) return std::nullopt;
  return workers[simulation_.world().rng().Below(workers.size())];
}

void Faults::Happen(FaultKind kind) {
  World& world = simulation_.world();
  world.Log("FAULT", [&] { return std::string(NameOf(kind)); });
  const auto trainer = simulation_.trainer();
  const auto worker = PickWorker();
  const auto running_trainer = [&]() -> TrainerProcess* {
    if (!trainer || !world.IsRunning(*trainer)) return nullptr;
    return static_cast<TrainerProcess*>(world.process(*trainer));
  };
  switch (kind) {
    case FaultKind::kKillWorker:
      if (worker) KillWorker(*worker);
      break;
    case FaultKind::kCrashWorker:
      if (worker) simulation_.worker(*worker).CrashSoon();
      break;
    case FaultKind::kLoseStage:
      LoseStage();
      break;
    case FaultKind::kPauseWorker:
      if (!worker) break;
      world.Pause(*worker);
      world.After(world.Draw(milliseconds(1), milliseconds(6000)),
                  [&world, pid = *worker] { world.Continue(pid); });
      break;
    case FaultKind::kBreakLink: {
      const auto other = world.Chance(0.5) ? PickWorker() : trainer;
      if (worker && other) simulation_.network().Break(*worker, *other, milliseconds(300));
      break;
    }
    case FaultKind::kCutOff:
      CutOff();
      break;
    case FaultKind::kCutPair:
      CutPair();
      break;
    case FaultKind::kFalseAlarm:
      if (auto* process = running_trainer()) process->RaiseFalseAlarm();
      break;
    case FaultKind::kJoin:
      simulation_.StartWorker(simulation_.NewWorkerName(), milliseconds(0));
      break;
    case FaultKind::kDrain:
      Drain();
      break;
    case FaultKind::kKillTrainer:
      KillTrainer();
      break;
    case FaultKind::kCrashTrainer:
      if (auto* process = running_trainer()) process->CrashSoon();
      break;
    case FaultKind::kReplaceTrainer:
      ReplaceTrainer();
      break;
    case FaultKind::kHangDevice:
      if (worker) simulation_.worker(*worker).HangDevice();
      break;
    case FaultKind::kIsolate:
      Isolate();
      break;
    case FaultKind::kAway:
      SendAway();
      break;
    case FaultKind::kSlowDisk:
      if (worker) simulation_.TroubleDisk(simulation_.worker(*worker).id(), DiskTrouble::kSlow);
      break;
    case FaultKind::kHangDisk:
      if (worker) simulation_.TroubleDisk(simulation_.worker(*worker).id(), DiskTrouble::kHung);
      break;
    case FaultKind::kFlipDigest:
      if (worker && simulation_.MayFlip()) simulation_.worker(*worker).FlipDigest();
      break;
    case FaultKind::kFlipSum:
      if (worker && simulation_.MayFlip()) simulation_.worker(*worker).FlipSum();
      break;
    case FaultKind::kFlipWeights:
      if (worker && simulation_.MayFlip()) simulation_.worker(*worker).FlipWeights();
      break;
    case FaultKind::kFlipGradient:
      if (worker && simulation_.scenario().audit_fraction == 1 && simulation_.MayFlip()) {
        simulation_.worker(*worker).FlipGradient();
      }
      break;
    case FaultKind::kCutRegion:
      CutRegion();
      break;
    case FaultKind::kLoseRegion:
      LoseRegion();
      break;
    case FaultKind::kStop:
      if (auto* process = running_trainer()) process->RequestStop();
      break;
  }
}

void Faults::KillWorker(Pid pid) {
  World& world = simulation_.world();
  // A machine that vanishes is noticed by its silence only.
  const Duration notice = world.Chance(0.15) ? milliseconds(5000) : milliseconds(200);
  const WorkerId id = simulation_.worker(pid).id();
  simulation_.EndProcess(pid, notice);
  const bool same_name = world.Chance(0.7);
  simulation_.StartWorker(same_name ? id : simulation_.NewWorkerName(),
                          world.Draw(milliseconds(5), milliseconds(1500)));
}

void Faults::LoseStage() {
  const protocol::StageIndex stage(simulation_.world().rng().Below(simulation_.job().stages()));
  for (const Pid pid : simulation_.Workers()) {
    const WorkerProcess& worker = simulation_.worker(pid);
    if (worker.serving() && worker.stage() == stage) KillWorker(pid);
  }
}

std::vector<Pid> Faults::PickRegion() {
  std::vector<Pid> workers = simulation_.Workers();
  const auto region_of = [&](Pid pid) {
    return simulation_.scenario().RegionOf(simulation_.worker(pid).id());
  };
  if (const auto picked = PickWorker()) {
    std::erase_if(workers,
                  [&, region = region_of(*picked)](Pid pid) { return region_of(pid) != region; });
  }
  return workers;
}

void Faults::LoseRegion() {
  const auto trainer = simulation_.trainer();
  simulation_.OnRegionLost(
      trainer &&
      static_cast<TrainerProcess*>(simulation_.world().process(*trainer))->IsInTwoRegions());
  for (const Pid pid : PickRegion()) KillWorker(pid);
}

void Faults::CutRegion() {
  World& world = simulation_.world();
  const std::vector<Pid> region = PickRegion();
  const bool for_long = world.Chance(0.3);
  const Duration span = for_long ? world.Draw(std::chrono::minutes(1), std::chrono::hours(4))
                                 : world.Draw(milliseconds(10), milliseconds(5000));
  std::vector<Pid> others = simulation_.Workers();
  std::erase_if(others, [&](Pid pid) { return std::ranges::find(region, pid) != region.end(); });
  const auto trainer = simulation_.trainer();
  if (trainer && world.Chance(0.5)) others.push_back(*trainer);
  for (const Pid a : region) {
    for (const Pid b : others) {
      Cut(a, b, 3, world.now() + span);
      if (for_long) isolations_.emplace_back(world.name(a), world.name(b));
    }
  }
}

void Faults::CutOff() {
  World& world = simulation_.world();
  const auto victim = PickWorker();
  if (!victim) return;
  const Duration span = world.Draw(milliseconds(10), milliseconds(5000));
  const std::uint64_t ways = 1 + world.rng().Below(3);
  const double others = world.Chance(0.3) ? 1.0 : 0.4;
  std::vector<Pid> peers = simulation_.Workers();
  if (const auto trainer = simulation_.trainer()) peers.push_back(*trainer);
  for (const Pid peer : peers) {
    if (peer == *victim || !world.Chance(others)) continue;
    Cut(*victim, peer, ways, world.now() + span);
    // A connection that is stuck for long is given up by its ends.
    if (span > milliseconds(2000) && world.Chance(0.7)) {
      world.After(world.Draw(milliseconds(1500), milliseconds(2000)),
                  [this, victim = *victim, peer] {
                    simulation_.network().Break(victim, peer, milliseconds(100));
                  });
    }
  }
}

void Faults::CutPair() {
  World& world = simulation_.world();
  const auto a = PickWorker(), b = PickWorker();
  if (!a || !b || *a == *b) return;
  const Timepoint until = world.now() + world.Draw(std::chrono::minutes(1), std::chrono::hours(4));
  Cut(*a, *b, 1 + world.rng().Below(3), until);
  cuts_.emplace_back(world.name(*a), world.name(*b));
}

void Faults::Isolate() {
  World& world = simulation_.world();
  const auto victim = PickWorker();
  if (!victim) return;
  const Timepoint until = world.now() + world.Draw(std::chrono::minutes(1), std::chrono::hours(4));
  const std::uint64_t ways = 1 + world.rng().Below(3);
  const double others = world.Chance(0.5) ? 1.0 : 0.5;
  std::vector<Pid> peers = simulation_.Workers();
  if (const auto trainer = simulation_.trainer()) peers.push_back(*trainer);
  for (const Pid peer : peers) {
    if (peer == *victim || !world.Chance(others)) continue;
    Cut(*victim, peer, ways, until);
    isolations_.emplace_back(world.name(*victim), world.name(peer));
  }
}

void Faults::SendAway() {
  World& world = simulation_.world();
  const auto victim = PickWorker(), trainer = simulation_.trainer();
  if (!victim || !trainer || !world.IsRunning(*trainer)) return;
  const Timepoint until = world.now() + world.Draw(milliseconds(1), milliseconds(200));
  std::vector<Pid> peers = simulation_.Workers();
  peers.push_back(*trainer);
  for (const Pid peer : peers) {
    if (peer != *victim) Cut(*victim, peer, 3, until);
  }
  const WorkerId id = world.name(*victim);
  static_cast<TrainerProcess*>(world.process(*trainer))->RaiseFalseAlarm(id);
}

void Faults::Cut(Pid a, Pid b, std::uint64_t ways, Timepoint until) {
  const World& world = simulation_.world();
  if (ways & 1) simulation_.network().Block(world.name(a), world.name(b), until);
  if (ways & 2) simulation_.network().Block(world.name(b), world.name(a), until);
}

void Faults::Drain() {
  World& world = simulation_.world();
  const auto pid = PickWorker();
  if (!pid || !world.IsRunning(*pid)) return;
  const Duration notice = world.Draw(milliseconds(20), milliseconds(3000));
  simulation_.worker(*pid).BeginLeaving(world.now() + notice);
  simulation_.StartWorker(simulation_.NewWorkerName(),
                          world.Draw(milliseconds(5), milliseconds(2000)));
  world.After(notice, [this, pid = *pid] {
    if (simulation_.world().IsAlive(pid)) simulation_.EndProcess(pid, milliseconds(200));
  });
}

void Faults::KillTrainer() {
  World& world = simulation_.world();
  const auto trainer = simulation_.trainer();
  if (!trainer) return;
  simulation_.EndProcess(*trainer, milliseconds(300));
  simulation_.StartTrainer(world.Draw(milliseconds(20), milliseconds(1500)));
}

void Faults::ReplaceTrainer() {
  World& world = simulation_.world();
  const auto trainer = simulation_.trainer();
  if (!trainer || !world.IsRunning(*trainer)) return;
  world.Pause(*trainer);
  const Duration span = world.Draw(milliseconds(10), milliseconds(4000));
  world.After(span, [&world, pid = *trainer] {
    if (!world.IsAlive(pid)) return;
    static_cast<TrainerProcess*>(world.process(pid))->OnContinued();
    world.Continue(pid);
  });
  simulation_.StartTrainer(world.Draw(milliseconds(0), span));
}

}  // namespace swarm::simulation
