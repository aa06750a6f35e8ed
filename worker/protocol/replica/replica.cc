#include "worker/protocol/replica/replica.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {
namespace {

constexpr std::size_t kFetchesMax = 4;
/// Steps between two writes of the trainer's account, ten seconds apart, at fifty a second.
constexpr std::size_t kPastStepsMax = 512;
/// Repairs that wait for one output; beyond them the row's deadline asks again.
constexpr std::size_t kWaysMax = 16;

Actions Refused(std::string_view reason, const TaskKey& key) {
  return {action::Refuse{reason, key}};
}

Actions Report(const TaskReport& report) { return {action::Tell{Progress{{report}}}}; }

/// The way from a task on is another one; what the task itself does stays.
Forward MakeOnward(const Forward& task, const Forward& way) {
  Forward onward = task;
  onward.hops = way.hops;
  onward.end = way.end;
  onward.first = way.first;
  onward.upstream = way.upstream;
  return onward;
}

void Append(Actions& to, Actions from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace

Replica::Replica(ReplicaOptions options)
    : options_(std::move(options)),
      promised_(options_.term),
      floor_(options_.floor),
      version_(options_.version) {}

bool Replica::Promise(Term term) {
  if (options_.rules.keep_term_promise && term < promised_) return false;
  promised_ = std::max(promised_, term);
  return true;
}

std::string_view Replica::WhyRefuseControl(Term term, Generation generation) {
  if (!Promise(term)) return "term";
  if (options_.rules.compare_generation && generation != options_.generation) return "generation";
  return {};
}

// ---- membership ----

Actions Replica::OnRoster(const Roster& roster) {
  if (const auto reason = WhyRefuseControl(roster.term, roster.generation); !reason.empty()) {
    return Refused(reason, {});
  }
  if (roster.epoch < roster_.epoch) return {};
  const auto is_self = [&](const Member& m) { return m.id == options_.self.id; };
  const auto contains_self = [&](const Roster& r) {
    return std::any_of(r.members.begin(), r.members.end(), is_self);
  };
  if (contains_self(roster_) && !contains_self(roster)) {
    return {action::Rejoin{"this worker is not in the roster any more"}};
  }
  for (const Member& member : roster_.members) evicted_.insert(member.id);
  for (const Member& member : roster.members) evicted_.erase(member.id);
  roster_ = roster;
  Actions actions;
  for (const Adoption& adoption : roster.adoptions) {
    const auto step = steps_.find(adoption.step);
    if (adoption.heir != options_.self.id || step == steps_.end()) continue;
    const auto parcel = step->second.parcels.extract(adoption.donor);
    if (parcel.empty()) continue;
    const auto is_here = [&](const Contribution& c) {
      return step->second.folded.contains(c.microbatch);
    };
    if (std::any_of(parcel.mapped().begin(), parcel.mapped().end(), is_here)) {
      // The sums would overlap. The claims will differ, and the step is mended by that.
      actions.push_back(action::DropParcel{adoption.donor, adoption.step});
      continue;
    }
    for (const Contribution& c : parcel.mapped()) {
      step->second.folded[c.microbatch] = c;
      // What the donor has put out for it is gone: who asks is told so.
      known_.insert(
          {options_.generation, adoption.step, c.microbatch, options_.self.stage, c.attempt});
    }
    actions.push_back(action::AdoptParcel{adoption.donor, adoption.step});
  }
  return actions;
}

// ---- execution ----

bool Replica::Folds(const Forward& frame) const {
  if (frame.kind != TaskKind::kTrain || frame.key.stage < frame.first) return false;
  return frame.hops[frame.key.stage.value].fold || !options_.rules.propagate_does_not_fold;
}

bool Replica::Frozen(Step step) const {
  const auto it = steps_.find(step);
  return it != steps_.end() &&
         std::any_of(it->second.groups.begin(), it->second.groups.end(),
                     [](const auto& group) { return group.second.reduce.has_value(); });
}

std::string_view Replica::WhyRefuse(const WorkerId& from, const Forward& frame) const {
  const TaskKey& key = frame.key;
  if (options_.rules.compare_generation && key.generation != options_.generation) {
    return "generation";
  }
  if (key.stage != options_.self.stage || frame.hops.size() != options_.stages) return "addressee";
  const Hop& hop = frame.hops[key.stage.value];
  if (hop.worker != options_.self.id || hop.attempt != key.attempt) return "addressee";
  if (evicted_.contains(from)) return "evicted sender";
  if (tasks_.contains(key) || known_.contains(key)) return "duplicate";
  if (frame.kind == TaskKind::kTrain) {
    if (IsCommitted(key.step)) return "committed step";
    if (options_.rules.refuse_unlisted_attempts && key.attempt < floor_) return "closed attempt";
    const auto step = steps_.find(key.step);
    if (step != steps_.end() && Folds(frame)) {
      const StepState& state = step->second;
      if (key.attempt < state.floor || state.handed_over) return "closed attempt";
      if (state.folded.contains(key.microbatch)) return "folded already";
      const auto latest = state.latest.find(key.microbatch);
      if (latest != state.latest.end() && key.attempt <= latest->second) return "closed attempt";
    }
  }
  const std::uint64_t oldest =
      options_.keeps_previous_version && version_.value > 0 ? version_.value - 1 : version_.value;
  if (frame.version.value < oldest) return "version gone";
  if (parked_ >= options_.parked_max) return "too many parked";
  return {};
}

Actions Replica::OnForward(const WorkerId& from, const Forward& frame) {
  if (const auto reason = WhyRefuse(from, frame); !reason.empty()) {
    return Refused(reason, frame.key);
  }
  Actions actions;
  if (Folds(frame)) {
    // Whatever this worker still does for an earlier attempt is of no use to anyone.
    for (auto it = tasks_.begin(); it != tasks_.end();) {
      const auto task = it++;
      if (task->first.step == frame.key.step && task->first.microbatch == frame.key.microbatch &&
          Folds(task->second.frame)) {
        Close(task, actions);
      }
    }
    steps_[frame.key.step].latest[frame.key.microbatch] = frame.key.attempt;
  }
  Task& task = tasks_[frame.key];
  task.frame = frame;
  Accept(task);
  ++parked_;
  StartIfReady(task, actions);
  return actions;
}

void Replica::Accept(Task& task) {
  Forward& frame = task.frame;
  const TaskKey& key = frame.key;
  if (frame.kind != TaskKind::kTrain) return;
  known_.insert(key);
  if (const auto resend = early_resends_.extract(key)) {
    for (const Forward& way : resend.mapped()) task.onward.push_back(MakeOnward(frame, way));
  }
  if (const auto redirect = early_redirects_.extract(key)) {
    task.back = redirect.mapped();
  } else if (key.stage == frame.first) {
    if (!frame.upstream.worker.value.empty() && key.stage.value > 0) {
      TaskKey target = key;
      target.stage = StageIndex(key.stage.value - 1);
      target.attempt = frame.upstream.attempt;
      task.back = Target{frame.upstream.worker, target};
    }
  } else if (key.stage > frame.first) {
    TaskKey target = key;
    target.stage = StageIndex(key.stage.value - 1);
    target.attempt = frame.hops[target.stage.value].attempt;
    task.back = Target{frame.hops[target.stage.value].worker, target};
  }
}

void Replica::StartIfReady(Task& task, Actions& actions) {
  if (task.state != TaskState::kParked || task.frame.version > version_) return;
  // A step that is frozen may be thawed: the frame of a repair can come before the word of it.
  if (Folds(task.frame) && Frozen(task.frame.key.step)) return;
  --parked_;
  ++queued_;
  task.state = TaskState::kForwarding;
  const bool keep_graph =
      task.frame.kind == TaskKind::kTrain && task.frame.key.stage >= task.frame.first;
  actions.push_back(action::RunForward{task.frame.key, task.frame.version, keep_graph});
}

void Replica::StartParked(Actions& actions) {
  for (auto& [key, task] : tasks_) StartIfReady(task, actions);
}

void Replica::Close(std::map<TaskKey, Task>::iterator task, Actions& actions) {
  const TaskKey key = task->first;
  switch (task->second.state) {
    case TaskState::kParked:
      --parked_;
      break;
    case TaskState::kForwarding:
    case TaskState::kBackwarding:
      --queued_;
      break;
    case TaskState::kForwarded:
      break;
  }
  tasks_.erase(task);
  early_backwards_.erase(key);
  actions.push_back(action::DropTask{key});
}

void Replica::CloseFolding(Step step, Actions& actions) {
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    const auto task = it++;
    if (task->first.step == step && Folds(task->second.frame)) Close(task, actions);
  }
}

void Replica::SendOutput(const TaskKey& source, const Forward& frame, Actions& actions) const {
  Forward next = frame;
  next.key.stage = source.stage.Next();
  if (next.key.stage.value >= options_.stages) return;
  const Hop& hop = next.hops[next.key.stage.value];
  next.key.attempt = hop.attempt;
  actions.push_back(action::SendForward{hop.worker, std::move(next), source});
}

void Replica::SendGradient(const TaskKey& source, Version version, const Target& target,
                           Actions& actions) const {
  actions.push_back(action::SendBackward{target.first, Backward{target.second, version}, source});
}

Actions Replica::OnForwardGone(const TaskKey& key) {
  Actions actions;
  if (const auto it = tasks_.find(key); it != tasks_.end()) Close(it, actions);
  return actions;
}

Actions Replica::OnForwardDone(const TaskKey& key, double loss, const Cost& cost) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return {action::DropTask{key}, action::ReleaseRetained{key, false}};
  Task& task = it->second;
  --queued_;
  Actions actions;
  if (task.onward.empty()) task.onward.push_back(task.frame);
  bool sends = false;
  for (const Forward& onward : task.onward) {
    if (IsLastStage() || key.stage.Next() >= onward.end) continue;
    SendOutput(key, onward, actions);
    sends = true;
  }
  if (task.frame.kind != TaskKind::kTrain) {
    if (IsLastStage()) {
      Append(actions, Report({key, TaskReport::Event::kEvaluated, loss, cost.seconds, 0}));
    }
    actions.push_back(action::ReleaseRetained{key, false});
    actions.push_back(action::DropTask{key});
    tasks_.erase(it);
    return actions;
  }
  Append(actions, Report({key, TaskReport::Event::kForwarded, 0, cost.seconds,
                          sends ? cost.boundary_bytes : 0}));
  if (!IsLastStage()) Retain(key, task.frame, false, cost.boundary_bytes, actions);
  if (key.stage < task.frame.first) {  // recomputed for those behind it
    actions.push_back(action::DropTask{key});
    tasks_.erase(it);
    return actions;
  }
  task.state = TaskState::kForwarded;
  task.loss = loss;
  if (IsLastStage() || early_backwards_.erase(key) > 0) RunBackward(task, actions);
  return actions;
}

void Replica::RunBackward(Task& task, Actions& actions) {
  task.state = TaskState::kBackwarding;
  ++queued_;
  actions.push_back(action::RunBackward{task.frame.key});
}

Actions Replica::OnBackward(const WorkerId& from, const Backward& frame) {
  const TaskKey& key = frame.key;
  if (options_.rules.compare_generation && key.generation != options_.generation) {
    return Refused("generation", key);
  }
  if (evicted_.contains(from)) return Refused("evicted sender", key);
  if (IsCommitted(key.step)) return Refused("committed step", key);
  const auto it = tasks_.find(key);
  if (it == tasks_.end() && known_.contains(key)) return Refused("no such task", key);
  if (it != tasks_.end() && it->second.state == TaskState::kBackwarding) {
    return Refused("duplicate", key);
  }
  if (it != tasks_.end() && it->second.state == TaskState::kForwarded) {
    Actions actions;
    RunBackward(it->second, actions);
    return actions;
  }
  // A gradient that was redirected here can come before what it belongs to.
  if (early_backwards_.size() >= options_.parked_max) return Refused("too many parked", key);
  if (!early_backwards_.insert(key).second) return Refused("duplicate", key);
  return {};
}

bool Replica::MayFold(const Task& task) const {
  const TaskKey& key = task.frame.key;
  if (!Folds(task.frame) || IsCommitted(key.step)) return false;
  const auto it = steps_.find(key.step);
  if (it == steps_.end() || Frozen(key.step) || it->second.handed_over) return false;
  const StepState& step = it->second;
  return !step.folded.contains(key.microbatch) && step.latest.at(key.microbatch) == key.attempt;
}

Actions Replica::OnBackwardDone(const TaskKey& key, const Cost& cost, bool fits) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return {action::DropTask{key}, action::ReleaseRetained{key, true}};
  const Task task = std::move(it->second);
  tasks_.erase(it);
  --queued_;
  Actions actions;
  if (task.back) SendGradient(key, task.frame.version, *task.back, actions);
  if (key.stage.value > 0) Retain(key, task.frame, true, cost.boundary_bytes, actions);
  // The fold is decided here, at once: the attempt is open and the contribution is not in yet.
  auto event = TaskReport::Event::kPropagated;
  if (MayFold(task) && fits) {
    event = TaskReport::Event::kFolded;
    steps_[key.step].folded[key.microbatch] = {key.microbatch, key.attempt, task.loss};
    actions.push_back(action::FoldGradients{key});
  } else {
    if (MayFold(task)) event = TaskReport::Event::kOverflow;
    actions.push_back(action::DropTask{key});
  }
  Append(actions,
         Report({key, event, task.loss, cost.seconds, task.back ? cost.boundary_bytes : 0}));
  return actions;
}

// ---- retention ----

void Replica::Retain(const TaskKey& key, const Forward& frame, bool gradient, std::uint64_t bytes,
                     Actions& actions) {
  Retained& kept = retained_[key];
  kept.frame = frame;
  (gradient ? kept.gradient_bytes : kept.output_bytes) = bytes;
  retained_order_.emplace_back(key, gradient);
  retained_bytes_ += bytes;
  while (retained_bytes_ > options_.retained_bytes_max) {
    const auto [oldest, is_gradient] = retained_order_.front();
    retained_order_.pop_front();
    const auto it = retained_.find(oldest);
    auto& size = is_gradient ? it->second.gradient_bytes : it->second.output_bytes;
    retained_bytes_ -= *size;
    size.reset();
    if (!it->second.gradient_bytes && !it->second.output_bytes) retained_.erase(it);
    actions.push_back(action::ReleaseRetained{oldest, is_gradient});
  }
}

void Replica::ForgetRetained(Step step) {
  std::erase_if(retained_order_, [&](const auto& entry) { return entry.first.step <= step; });
  std::erase_if(retained_, [&](const auto& entry) {
    if (entry.first.step > step) return false;
    retained_bytes_ -= entry.second.output_bytes.value_or(0);
    retained_bytes_ -= entry.second.gradient_bytes.value_or(0);
    return true;
  });
}

Actions Replica::OnResend(const Resend& resend) {
  const TaskKey& key = resend.source;
  if (const auto reason = WhyRefuseControl(resend.term, key.generation); !reason.empty()) {
    return Refused(reason, key);
  }
  if (IsCommitted(key.step)) return Refused("committed step", key);
  Actions actions;
  if (const auto kept = retained_.find(key); kept != retained_.end() && kept->second.output_bytes) {
    SendOutput(key, MakeOnward(kept->second.frame, resend.frame), actions);
    return actions;
  }
  if (const auto task = tasks_.find(key);
      task != tasks_.end() && task->second.state <= TaskState::kForwarding) {
    if (task->second.onward.size() < kWaysMax) {
      task->second.onward.push_back(MakeOnward(task->second.frame, resend.frame));
    }
    return {};
  }
  if (known_.contains(key)) return {action::Tell{Missing{key, false}}};
  if (early_resends_.size() < options_.parked_max) {
    std::vector<Forward>& ways = early_resends_[key];
    if (ways.size() < kWaysMax) ways.push_back(resend.frame);
  }
  return {};
}

Actions Replica::OnRedirect(const Redirect& redirect) {
  const TaskKey& key = redirect.source;
  if (const auto reason = WhyRefuseControl(redirect.term, key.generation); !reason.empty()) {
    return Refused(reason, key);
  }
  if (IsCommitted(key.step)) return Refused("committed step", key);
  const Target target{redirect.to, redirect.target};
  if (const auto kept = retained_.find(key);
      kept != retained_.end() && kept->second.gradient_bytes) {
    Actions actions;
    SendGradient(key, kept->second.frame.version, target, actions);
    return actions;
  }
  if (const auto task = tasks_.find(key); task != tasks_.end()) {
    task->second.back = target;
    return {};
  }
  if (known_.contains(key)) return {action::Tell{Missing{key, true}}};
  if (early_redirects_.size() < options_.parked_max) {
    early_redirects_.insert_or_assign(key, target);
  }
  return {};
}

// ---- repair ----

Actions Replica::OnRevoke(const Revoke& revoke) {
  const TaskKey& key = revoke.key;
  if (const auto reason = WhyRefuseControl(revoke.term, key.generation); !reason.empty()) {
    return Refused(reason, key);
  }
  if (IsCommitted(key.step)) return {action::Tell{Revoked{key, true}}};
  StepState& step = steps_[key.step];
  const auto folded = step.folded.find(key.microbatch);
  if (folded != step.folded.end() && folded->second.attempt == key.attempt) {
    return {action::Tell{Revoked{key, true}}};
  }
  Actions actions;
  if (options_.rules.answer_revoke_by_closing) {
    known_.insert(key);
    Attempt& latest = step.latest[key.microbatch];
    latest = std::max(latest, key.attempt);
    if (const auto task = tasks_.find(key); task != tasks_.end()) Close(task, actions);
  }
  actions.push_back(action::Tell{Revoked{key, false}});
  return actions;
}

Actions Replica::OnVoid(const Void& message) {
  if (const auto reason = WhyRefuseControl(message.term, message.generation); !reason.empty()) {
    return Refused(reason, {});
  }
  Actions actions;
  if (!IsCommitted(message.step)) {
    CloseFolding(message.step, actions);
    StepState& step = steps_[message.step];
    step.folded.clear();
    step.groups.clear();
    step.handed_over = false;  // nothing is left of what was
    std::erase_if(early_reduces_, [&](auto& entry) { return entry.first.first == message.step; });
    step.floor = message.number;
    step.level = message.level;
    actions.push_back(action::StopReduces{message.step});
    actions.push_back(action::ClearStep{message.step, message.level});
  }
  actions.push_back(action::Tell{Voided{message.generation, message.step, message.number}});
  return actions;
}

Actions Replica::OnThaw(const Thaw& thaw) {
  if (const auto reason = WhyRefuseControl(thaw.term, thaw.generation); !reason.empty()) {
    return Refused(reason, {});
  }
  std::erase_if(early_reduces_, [&](auto& entry) { return entry.first.first == thaw.step; });
  const auto it = steps_.find(thaw.step);
  if (IsCommitted(thaw.step) || it == steps_.end()) return {};
  it->second.groups.clear();
  it->second.handed_over = false;
  Actions actions{action::StopReduces{thaw.step}};
  StartParked(actions);
  return actions;
}

Actions Replica::OnRollback(const Rollback& rollback) {
  if (!Promise(rollback.term)) return Refused("term", {});
  if (rollback.generation <= options_.generation) return Refused("generation", {});
  return {action::BeginAnew{rollback}};
}

HeldStep Replica::Describe(Step step, const StepState& state) const {
  HeldStep held{step, state.level, {}, {}};
  for (const auto& [microbatch, contribution] : state.folded) held.folded.push_back(contribution);
  for (const auto& [index, group] : state.groups) {
    if (!group.reduce) continue;
    HeldReduce reduce{index, group.reduce->k, {}};
    for (const Participant& p : group.reduce->participants) reduce.participants.push_back(p.worker);
    held.reduces.push_back(std::move(reduce));
  }
  return held;
}

Actions Replica::OnTakeover(const Takeover& takeover) {
  if (!Promise(takeover.term)) return Refused("term", {});
  floor_ = std::max(floor_, Attempt{takeover.term, 0});
  Actions actions;
  if (options_.rules.refuse_unlisted_attempts) {
    while (!tasks_.empty()) Close(tasks_.begin(), actions);
    early_backwards_.clear();
    early_resends_.clear();
    early_redirects_.clear();
  }
  checkpoints_.clear();
  pins_.clear();
  Holding holding{takeover.term, options_.generation, options_.self, version_, roster_, {}, {}};
  holding.past.assign(past_.begin(), past_.end());
  if (last_applied_) holding.records.push_back(*last_applied_);
  holding.records.insert(holding.records.end(), commits_.begin(), commits_.end());
  for (auto& [step, state] : steps_) {
    for (const auto& [donor, parcel] : state.parcels) {
      actions.push_back(action::DropParcel{donor, step});
    }
    state.parcels.clear();
    state.handed_over = false;  // whoever asked for it is gone
    holding.steps.push_back(Describe(step, state));
  }
  actions.push_back(action::Tell{std::move(holding)});
  return actions;
}

// ---- leaving ----

Actions Replica::OnHandOver(const HandOver& message) {
  if (const auto reason = WhyRefuseControl(message.term, message.generation); !reason.empty()) {
    return Refused(reason, {});
  }
  if (IsCommitted(message.step) || Frozen(message.step)) return {};
  Actions actions;
  CloseFolding(message.step, actions);
  StepState& step = steps_[message.step];
  step.handed_over = true;
  action::SendParcel parcel{message.heir, message.step, step.level, {}};
  for (const auto& [microbatch, c] : step.folded) parcel.contributions.push_back(c);
  actions.push_back(std::move(parcel));
  return actions;
}

Actions Replica::OnParcel(const WorkerId& donor, Step step, Generation generation,
                          std::uint64_t level, std::vector<Contribution> contributions) {
  if (generation != options_.generation || IsCommitted(step) || evicted_.contains(donor) ||
      level != steps_[step].level) {
    return {action::DropParcel{donor, step}};
  }
  Actions actions;
  if (!options_.rules.adopt_only_by_roster) {
    for (const Contribution& c : contributions) steps_[step].folded[c.microbatch] = c;
    actions.push_back(action::AdoptParcel{donor, step});
  } else {
    steps_[step].parcels[donor] = contributions;
  }
  actions.push_back(action::Tell{ParcelHeld{generation, step, donor, std::move(contributions)}});
  return actions;
}

// ---- reduce and commit ----

ClaimSet Replica::FoldSet(Step step) const {
  ClaimSet set{options_.self.stage, {}};
  if (const auto it = steps_.find(step); it != steps_.end()) {
    for (const auto& [microbatch, c] : it->second.folded) set.microbatches.push_back(microbatch);
  }
  return set;
}

Actions Replica::OnReduce(const Reduce& reduce) {
  const TaskKey key{reduce.generation, reduce.step, {}, options_.self.stage, reduce.k};
  if (const auto reason = WhyRefuseControl(reduce.term, reduce.generation); !reason.empty()) {
    return Refused(reason, key);
  }
  if (IsCommitted(reduce.step)) return Refused("committed step", key);
  if (!CanRead(reduce.step)) {  // still replaying what was decided before
    early_reduces_[{reduce.step, reduce.group}] = reduce;
    return {};
  }
  StepState& step = steps_[reduce.step];
  GroupState& group = step.groups[reduce.group];
  if (group.reduce && reduce.k <= group.reduce->k) return Refused("reduce attempt", key);
  const ClaimSet folded = FoldSet(reduce.step);
  const auto mine =
      std::find_if(reduce.participants.begin(), reduce.participants.end(), [&](const auto& p) {
        return p.worker == options_.self.id && p.claims.stage == options_.self.stage;
      });
  const bool same = mine != reduce.participants.end() && reduce.level == step.level &&
                    (mine->claims == folded || !options_.rules.compare_claims);
  if (!same) {
    return {action::Tell{
        ReduceRefused{reduce.generation, reduce.step, reduce.group, reduce.k, folded}}};
  }
  group.reduce = reduce;
  group.digest.reset();
  return {action::StartReduce{reduce}};
}

Actions Replica::OnGroupReduced(Step step, GroupIndex index, Attempt k, const Digest& digest,
                                std::vector<TensorNorm> norms) {
  const auto it = steps_.find(step);
  if (it == steps_.end()) return {};
  GroupState& group = it->second.groups[index];
  if (!group.reduce || group.reduce->k != k) return {};  // thawed, or a higher attempt has begun
  group.digest = digest;
  return {action::Tell{Reduced{options_.generation, step, index, k, digest, std::move(norms)}}};
}

Actions Replica::OnCommit(const Commit& commit) {
  const CommitRecord& record = commit.record;
  const TaskKey key{record.generation, record.step, {}, options_.self.stage, {}};
  if (const auto reason = WhyRefuseControl(commit.term, record.generation); !reason.empty()) {
    return Refused(reason, key);
  }
  Actions actions{action::ReleaseSums{commit.keep_from}};
  const auto same = [&](const CommitRecord& c) { return c.step == record.step; };
  const bool known =
      IsCommitted(record.step) || std::any_of(commits_.begin(), commits_.end(), same);
  if (known) return actions;  // idempotent
  commits_.push_back(record);
  FetchWhatIsNotHeld(actions);
  TryCommit(actions);
  return actions;
}

bool Replica::Holds(const CommitRecord& record) {
  StepState& step = steps_[record.step];
  return std::all_of(options_.groups.begin(), options_.groups.end(), [&](GroupIndex index) {
    const GroupState& group = step.groups[index];
    return std::any_of(record.groups.begin(), record.groups.end(), [&](const GroupResult& result) {
      if (result.group != index || !group.reduce || !group.digest) return false;
      return !options_.rules.compare_k ||
             (group.reduce->k == result.k && *group.digest == result.digest);
    });
  });
}

/// Several at a time, so that who has to catch up is not kept by round trips.
void Replica::FetchWhatIsNotHeld(Actions& actions) {
  for (std::size_t i = 0; i < std::min(commits_.size(), kFetchesMax); ++i) {
    const CommitRecord& record = commits_[i];
    if (record.skip || Holds(record) || !fetches_.try_emplace(record.step, false).second) continue;
    actions.push_back(action::FetchGradients{record});
  }
}

void Replica::TryCommit(Actions& actions) {
  if (applying_ || commits_.empty()) return;
  const CommitRecord& record = commits_.front();
  if (record.step.value != version_.value) {
    actions.push_back(action::Rejoin{"the record of step " + std::to_string(record.step.value) +
                                     " came to a worker that holds version " +
                                     std::to_string(version_.value)});
    return;
  }
  const auto fetch = fetches_.find(record.step);
  if (record.skip || (fetch == fetches_.end() ? Holds(record) : fetch->second)) {
    applying_ = true;
    actions.push_back(action::ApplyCommit{record});
  }
}

Actions Replica::OnGradientsFetched(Step step) {
  const auto fetch = fetches_.find(step);
  if (fetch == fetches_.end()) return {};
  fetch->second = true;
  Actions actions;
  TryCommit(actions);
  return actions;
}

Actions Replica::OnApplied(Step step, const Digest& state) {
  applying_ = false;
  if (last_applied_) past_.push_back(std::move(*last_applied_));
  if (past_.size() > kPastStepsMax) past_.pop_front();
  last_applied_ = std::move(commits_.front());
  commits_.pop_front();
  version_ = Version(step.value + 1);
  Actions actions;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    const auto task = it++;
    if (task->second.frame.kind == TaskKind::kTrain && task->first.step <= step) {
      Close(task, actions);
    }
  }
  for (const auto& [donor, parcel] : steps_[step].parcels) {
    actions.push_back(action::DropParcel{donor, step});
  }
  steps_.erase(step);
  fetches_.erase(step);
  std::erase_if(early_reduces_, [&](const auto& entry) { return entry.first.first <= step; });
  ForgetRetained(step);
  const auto over = [&](const TaskKey& key) { return key.step <= step; };
  std::erase_if(known_, over);
  std::erase_if(early_backwards_, over);
  std::erase_if(early_resends_, [&](const auto& entry) { return over(entry.first); });
  std::erase_if(early_redirects_, [&](const auto& entry) { return over(entry.first); });
  actions.push_back(action::ReleaseStep{step});
  actions.push_back(action::Tell{Committed{options_.generation, step, state}});
  // Copies of this version come before anything that could change it.
  for (const WriteCheckpoint& request : std::exchange(checkpoints_, {})) {
    Append(actions, OnWriteCheckpoint(request));
  }
  for (const PinState& request : std::exchange(pins_, {})) Append(actions, OnPinState(request));
  StartParked(actions);
  for (const auto& [name, reduce] : std::exchange(early_reduces_, {})) {
    Append(actions, OnReduce(reduce));
  }
  FetchWhatIsNotHeld(actions);
  TryCommit(actions);
  return actions;
}

// ---- copies of the state ----

Actions Replica::OnWriteCheckpoint(const WriteCheckpoint& request) {
  if (!WhyRefuseControl(request.term, request.generation).empty()) return {};
  if (request.version == version_ && !applying_) return {action::TakeCheckpoint{request}};
  if (request.version > version_) {
    checkpoints_.push_back(request);
    return {};
  }
  return {action::Tell{CheckpointWritten{request.generation,
                                         request.version,
                                         options_.self.stage,
                                         "version " + std::to_string(request.version.value) +
                                             " is gone; this worker holds version " +
                                             std::to_string(version_.value),
                                         {}}}};
}

Actions Replica::OnPinState(const PinState& request) {
  if (!WhyRefuseControl(request.term, request.generation).empty()) return {};
  if (request.version == version_ && !applying_) return {action::PinCopy{request}};
  if (request.version > version_) {
    pins_.push_back(request);
    return {};
  }
  return {action::Tell{
      StatePinned{request.generation,
                  request.version,
                  {},
                  "this worker holds version " + std::to_string(version_.value) + " already"}}};
}

Actions Replica::OnUnpinState(const UnpinState& request) {
  if (!WhyRefuseControl(request.term, request.generation).empty()) return {};
  std::erase_if(pins_, [&](const PinState& pin) { return pin.version == request.version; });
  return {action::UnpinCopy{request.version}};
}

}  // namespace swarm::protocol
