#include "worker/protocol/coordinator/membership/joins.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/protocol/roster.h"

namespace swarm::protocol {
namespace {

/// A worker that comes later than so many steps after another waits for a newer copy, as to replay
/// the steps costs more bytes than the copy.
constexpr std::uint64_t kShareLagMax = 64;

/// It has a state of its stage, of the version that it has reported.
bool HoldsState(const Worker& worker) {
  const bool comes_back = worker.role() == Role::kJoining && worker.offer;
  return worker.InRoster() || worker.loaded || comes_back;
}

}  // namespace

void Joins::Start(Turn& turn) {
  if (job_.phase != Phase::kTraining) return;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {  // donors departed, or replicas reported
    const auto join = joins_.find(StageIndex(s));
    if (join != joins_.end()) WelcomeIfKnown(StageIndex(s), join->second, turn);
  }
  for (auto& [id, worker] : members_.all()) {
    if (worker.role() != Role::kWaiting || worker.leave() || turn.now < worker.held_off) continue;
    if (worker.offer && AwaitsReports(*worker.offer)) continue;
    if (worker.offer && !IsTrue(*worker.offer)) worker.offer.reset();
    const StageIndex stage = rebalancing_.ChooseStage(
        id, worker.offer ? std::optional(worker.offer->stage) : std::nullopt);
    if (worker.offer && worker.offer->stage == stage && TakeBack(id, worker, turn)) continue;
    worker.offer.reset();
    away_.erase(id);
    const auto known = joins_.find(stage);
    // One version of a stage's state is pinned at a time; workers that come soon enough share it.
    if (known != joins_.end() &&
        job_.version.value >
            known->second.version.value + std::min(known->second.lag_max / 4, kShareLagMax)) {
      continue;
    }
    Join& join = joins_[stage];
    if (known == joins_.end()) {
      join.version = job_.version;
      join.since = turn.now;
      // Replicas take turns: a copy of its state costs a donor time.
      const std::vector<WorkerId> ready = DonorsOf(stage);
      const std::uint64_t count = std::min<std::uint64_t>(ready.size(), job_.options.donors_max);
      for (std::uint64_t i = 0; i < count; ++i) {
        const WorkerId& donor = ready[(job_.version.value + i) % ready.size()];
        join.asked.insert(donor);
        turn.Tell(donor, PinState{job_.options.term, job_.generation, job_.version});
      }
    }
    join.joiners.insert(id);
    members_.Become(worker, Role::kJoining, stage);
    worker.since = turn.now;
    if (join.welcomed) Welcome(stage, join, turn);
  }
}

void Joins::OnStatePinned(const WorkerId& from, const StatePinned& pinned, Turn& turn) {
  if (pinned.generation != job_.generation) return;
  const UnpinState unpin{job_.options.term, job_.generation, pinned.version};
  const StageIndex stage = members_.At(from).member.stage;
  const auto it = joins_.find(stage);
  if (it == joins_.end() || pinned.version != it->second.version ||
      !it->second.asked.contains(from)) {
    turn.Tell(from, unpin);  // too late, or there are no joiners any more
    return;
  }
  Join& join = it->second;
  if (pinned.error.empty()) {
    join.donors[from] = pinned.state;
    const std::uint64_t most = job_.options.join_lag_max;
    const std::uint64_t kept = pinned.kept_steps == 0 ? most : std::min(most, pinned.kept_steps);
    join.lag_max = std::max(join.lag_max, kept);
  } else {
    join.asked.erase(from);
    turn.Tell(from, unpin);
  }
  WelcomeIfKnown(stage, join, turn);
}

void Joins::WelcomeIfKnown(StageIndex stage, Join& join, Turn& turn) {
  if (join.welcomed || join.donors.size() < join.asked.size()) return;
  if (!members_.HaveReported(join.version, stage)) return;
  DropDoubtful(join, turn);
  Welcome(stage, join, turn);
}

void Joins::DropDoubtful(Join& join, Turn& turn) const {
  std::map<Digest, std::size_t> camps;
  for (const auto& [donor, state] : join.donors) ++camps[state];
  if (camps.empty()) return;
  const auto largest = std::ranges::max_element(
      camps, [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool most = largest->second * 2 > join.donors.size();
  join.state = largest->first;
  std::erase_if(join.donors, [&](const auto& entry) {
    if (most && entry.second == join.state) return false;
    join.asked.erase(entry.first);
    turn.Tell(entry.first, UnpinState{job_.options.term, job_.generation, join.version});
    return true;
  });
}

void Joins::Welcome(StageIndex stage, Join& join, Turn& turn) {
  if (join.donors.empty()) {  // no replica holds that version: begin again, with another
    const std::set<WorkerId> joiners = std::exchange(join.joiners, {});
    joins_.erase(stage);
    for (const WorkerId& id : joiners) {
      Worker& worker = members_.At(id);
      members_.Become(worker, Role::kWaiting);
      worker.welcomed = false;
    }
    return;
  }
  join.welcomed = true;
  for (const WorkerId& id : join.joiners) {
    Worker& worker = members_.At(id);
    if (!std::exchange(worker.welcomed, true)) WelcomeWorker(id, worker, join, turn);
  }
}

void Joins::WelcomeWorker(const WorkerId& id, Worker& worker, const Join& join, Turn& turn) {
  const StageIndex stage = worker.member.stage;
  worker.since = turn.now;
  worker.lag_max = join.lag_max;
  protocol::Welcome welcome = job_.WelcomeTo(stage);
  welcome.version = join.version;
  welcome.state = join.state;
  for (const auto& [donor, state] : join.donors) {
    welcome.donors.push_back(members_.At(donor).member);
  }
  turn.Report(EventKind::kWorkerJoining,
              id.value + " copies stage " + std::to_string(stage.value) + " from " +
                  std::to_string(join.donors.size()) + " replicas",
              {.worker = id, .stage = stage});
  Begin(id, std::move(welcome), turn);
}

void Joins::Begin(const WorkerId& id, protocol::Welcome welcome, Turn& turn) {
  const StageIndex stage = welcome.stage;
  const Version version = welcome.version;
  welcome.checkpoint_uri.clear();
  welcome.manifest = {};
  if (members_.holders().IsDivided(stage)) {
    for (const WorkerId& peer : members_.Replicas(stage)) {
      welcome.peers.push_back(members_.At(peer).member);
    }
  }
  Introduce(id, welcome, turn);
  turn.Tell(id, std::move(welcome));
  for (const CommitRecord& record : job_.records) {
    if (record.step.value < version.value) continue;
    turn.Tell(id, Commit{job_.options.term, record, KeepFrom(stage)});
  }
}

bool Joins::AwaitsReports(const HeldState& offer) const {
  return offer.version <= job_.version && offer.stage.value < job_.stages() &&
         !members_.HaveReported(offer.version, offer.stage);
}

bool Joins::IsTrue(const HeldState& offer) const {
  return offer.stage.value < job_.stages() &&
         (!job_.options.rules.compare_offers ||
          states_.Find(offer.version, offer.stage) == offer.state);
}

bool Joins::TakeBack(const WorkerId& id, Worker& worker, Turn& turn) {
  const HeldState& offer = *worker.offer;
  const std::uint64_t behind = job_.version.value - offer.version.value;
  const bool recorded = behind == 0 || (!job_.records.empty() &&
                                        job_.records.front().step.value <= offer.version.value);
  protocol::Welcome welcome = job_.WelcomeTo(offer.stage);
  welcome.version = offer.version;
  welcome.state = offer.state;
  welcome.donors = DonorsSince(offer.version, offer.stage);
  welcome.goes_on = true;
  if (!recorded || welcome.donors.empty() || !AreGradientsKept(offer.version, offer.stage) ||
      !AreWeightsKept(offer.version, offer.stage)) {
    return false;
  }
  members_.Become(worker, Role::kJoining, offer.stage);
  members_.SetVersion(worker, offer.version);
  worker.since = turn.now;
  worker.welcomed = true;
  worker.lag_max = job_.options.join_lag_max;
  replaying_.insert(id);
  away_.erase(id);
  turn.Report(EventKind::kWorkerJoining,
              id.value + " comes back to stage " + std::to_string(offer.stage.value) +
                  " with version " + std::to_string(offer.version.value) + ": it replays " +
                  std::to_string(behind) + " steps and copies no state",
              {.worker = id, .stage = offer.stage});
  Begin(id, std::move(welcome), turn);
  return true;
}

bool Joins::AreGradientsKept(Version version, StageIndex stage) const {
  if (version == job_.version || members_.holders().IsDivided(stage)) return true;
  return std::ranges::any_of(members_.ReadyReplicas(stage), [&](const WorkerId& id) {
    const Worker& replica = members_.At(id);
    return replica.kept_from && replica.kept_from->value <= version.value &&
           std::max(replica.version(), replica.summed_until) >= job_.version;
  });
}

bool Joins::AreWeightsKept(Version version, StageIndex stage) const {
  const auto keeps = [&](const WorkerId& id, Step step) {
    const Worker* holder = members_.Find(id);
    return holder != nullptr && holder->role() == Role::kReady && holder->member.stage == stage &&
           holder->kept_from && *holder->kept_from <= step;
  };
  return std::ranges::all_of(job_.records, [&](const CommitRecord& record) {
    if (record.step.value < version.value) return true;
    return std::ranges::all_of(record.groups, [&](const GroupResult& result) {
      if (!job_.groups.at(result.group.value).Has(stage)) return true;
      return std::ranges::all_of(result.holders, [&](const PartHolders& holders) {
        return keeps(holders.first, record.step) || keeps(holders.second, record.step);
      });
    });
  });
}

std::vector<WorkerId> Joins::DonorsOf(StageIndex stage) const {
  std::vector<WorkerId> ready = members_.ReadyReplicas(stage);
  const auto only_dials = std::ranges::stable_partition(
      ready, [&](const WorkerId& id) { return CanBeDialled(members_.At(id).member); });
  if (only_dials.begin() != ready.begin()) ready.erase(only_dials.begin(), ready.end());
  return ready;
}

void Joins::Introduce(const WorkerId& id, const protocol::Welcome& welcome, Turn& turn) const {
  const Member& joiner = members_.At(id).member;
  if (!CanBeDialled(joiner)) return;
  for (const std::vector<Member>* givers : {&welcome.donors, &welcome.peers}) {
    for (const Member& giver : *givers) {
      if (!CanBeDialled(giver)) turn.Tell(giver.id, Meet{job_.options.term, joiner});
    }
  }
}

std::vector<Member> Joins::DonorsSince(Version version, StageIndex stage) const {
  std::vector<Member> donors;
  for (const WorkerId& id : members_.ReadyReplicas(stage)) {
    const Worker& replica = members_.At(id);
    const bool has =
        version == job_.version || (replica.kept_from && replica.kept_from->value <= version.value);
    if (has) donors.push_back(replica.member);
    if (donors.size() == job_.options.donors_max) break;
  }
  return donors;
}

void Joins::OnBeat(const WorkerId& from, const Heartbeat& beat, Timepoint now) {
  Worker* worker = members_.Find(from);
  if (worker == nullptr || beat.copied_bytes <= worker->copied) return;
  worker->copied = beat.copied_bytes;
  worker->progressed = now;
}

void Joins::OnReady(const WorkerId& from, const Ready& ready, Turn& turn) {
  Worker& worker = members_.At(from);
  const auto join = joins_.find(worker.member.stage);
  std::optional<HeldState> announced = worker.offer;
  if (!announced && join != joins_.end()) {
    announced = HeldState{ready.stage, join->second.version, join->second.state};
  }
  if (announced != HeldState{ready.stage, ready.version, ready.state}) {
    turn.Evict(from, "it has loaded something else than the state of its stage",
               EvictionCause::kWrongState);
    return;
  }
  worker.loaded = true;
  worker.since = turn.now;
  Leave(from, turn);
  replaying_.insert(from);
  CatchUp(from, turn);
}

void Joins::Leave(const WorkerId& worker, Turn& turn) {
  replaying_.erase(worker);
  for (auto it = joins_.begin(); it != joins_.end(); ++it) {
    Join& join = it->second;
    if (join.joiners.erase(worker) == 0) continue;
    if (!join.joiners.empty()) return;
    for (const WorkerId& donor : join.asked) {
      turn.Tell(donor, UnpinState{job_.options.term, job_.generation, join.version});
    }
    joins_.erase(it);
    return;
  }
}

void Joins::LoseDonor(const WorkerId& worker) {
  for (auto& [stage, join] : joins_) {
    join.asked.erase(worker);
    join.donors.erase(worker);
  }
}

void Joins::CatchUp(const WorkerId& id, Turn& turn) {
  Worker& worker = members_.At(id);
  worker.progressed = turn.now;
  const StageIndex stage = worker.member.stage;
  const std::uint64_t behind =
      job_.version > worker.version() ? job_.version.value - worker.version().value : 0;
  if (worker.role() == Role::kJoining && worker.loaded && behind <= 2) {
    members_.Become(worker, Role::kCatchingUp);
    worker.loaded = worker.welcomed = false;
    worker.offer.reset();
    replaying_.erase(id);
    worker.since = turn.now;
    members_.PublishRoster({}, turn);
    for (auto& [step, state] : steps_.all()) {
      if (state.levels[stage.value] > 0) steps_.VoidWorker(id, step, state, turn);
    }
  }
  if (worker.role() == Role::kCatchingUp && behind <= 1) {
    rebalancing_.MeasureJoin(ToSeconds(turn.now - worker.came));
    members_.Become(worker, Role::kReady);
    worker.since = turn.now;
    ++job_.counts.joins;
    rebalancing_.CountChange();
    router_.SetReplicas(members_.RoutableReplicas());
    turn.Report(EventKind::kWorkerJoined, id.value + " serves stage " + std::to_string(stage.value),
                {.worker = id, .stage = stage, .seconds = ToSeconds(turn.now - worker.came)});
    turn.advance = true;
  }
}

void Joins::NoteAway(const Worker& worker, Timepoint now) {
  if (!HoldsState(worker) || !job_.IsTraining()) return;
  away_[worker.member.id] = {worker.member.stage, worker.version(),
                             now + job_.options.patience.away};
}

void Joins::OnCome(const Worker& worker, Timepoint now) {
  away_.erase(worker.member.id);
  if (!worker.offer) return;
  away_[worker.member.id] = {worker.offer->stage, worker.offer->version,
                             now + job_.options.patience.away};
}

void Joins::CheckAway(Timepoint now) {
  std::erase_if(away_, [&](const auto& entry) {
    const Away& away = entry.second;
    return away.until <= now || job_.version.value > away.version.value + job_.options.join_lag_max;
  });
}

void Joins::CheckPins(Turn& turn) {
  std::vector<StageIndex> unanswered;
  for (const auto& [stage, join] : joins_) {
    if (!join.welcomed && turn.now - join.since >= job_.options.patience.pin) {
      unanswered.push_back(stage);
    }
  }
  for (const StageIndex stage : unanswered) {
    Join& join = joins_.at(stage);
    std::erase_if(join.asked, [&](const WorkerId& id) { return !join.donors.contains(id); });
    WelcomeIfKnown(stage, join, turn);
  }
}

void Joins::Check(const WorkerId& id, const Worker& worker, Turn& turn) const {
  if (worker.role() != Role::kJoining && worker.role() != Role::kCatchingUp) return;
  const Timepoint progressed = std::max(worker.since, worker.progressed);
  if (turn.now - progressed >= job_.options.patience.join) {
    turn.Evict(id, "makes no progress with joining", EvictionCause::kLate);
    return;
  }
  const std::uint64_t begin = BeginOf(worker).value;
  if (!worker.welcomed && !worker.loaded) return;
  if (job_.version.value <= begin + worker.lag_max) return;
  job_.hold_off.Extend(id, turn.now);  // a copy is work for the donors, and may be in vain again
  turn.Evict(id,
             "is " + std::to_string(job_.version.value - begin) +
                 " steps behind, and the replicas keep the gradients of " +
                 std::to_string(worker.lag_max),
             EvictionCause::kLate);
}

Version Joins::BeginOf(const Worker& worker) const {
  if (HoldsState(worker)) return worker.version();
  const auto join = joins_.find(worker.member.stage);
  return join == joins_.end() ? job_.version : join->second.version;
}

Step Joins::KeepFrom(StageIndex stage) const {
  std::uint64_t keep = job_.version.value;
  const auto count = [&](const WorkerId& id) {
    keep = std::min(keep, members_.At(id).version().value);
  };
  std::ranges::for_each(members_.Replicas(stage), count);
  for (const WorkerId& id : replaying_) {
    if (members_.At(id).member.stage == stage) count(id);
  }
  for (const auto& [id, away] : away_) {
    if (away.stage == stage) keep = std::min(keep, away.version.value);
  }
  const auto join = joins_.find(stage);
  if (join != joins_.end()) keep = std::min(keep, join->second.version.value);
  return Step(keep);
}

void Joins::Clear() {
  joins_.clear();
  away_.clear();
  replaying_.clear();
  for (auto& [id, worker] : members_.all()) {
    worker.offer.reset();
    const bool begun = std::exchange(worker.welcomed, false);
    if (worker.role() == Role::kJoining && !begun) members_.Become(worker, Role::kWaiting);
  }
}

}  // namespace swarm::protocol
