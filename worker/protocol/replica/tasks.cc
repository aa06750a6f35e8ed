#include "worker/protocol/replica/tasks.h"

#include <algorithm>

#include "base/rng.h"

namespace swarm::protocol {
namespace {

/// Repairs that may wait for one output. Beyond them, the row's deadline makes the trainer ask
/// again.
constexpr std::size_t kWaysMax = 16;

Actions Report(const TaskReport& report) { return {action::Tell{Progress{{report}}}}; }

/// Takes the hops behind a task from `way`; the task's own part stays.
Forward MakeOnward(const Forward& task, const Forward& way) {
  Forward onward = task;
  onward.hops = way.hops;
  onward.end = way.end;
  onward.first = way.first;
  onward.upstream = way.upstream;
  return onward;
}

}  // namespace

// ---- frames ----

bool Tasks::Folds(const Forward& frame) const {
  if (frame.kind != TaskKind::kTrain || frame.key.stage < frame.first) return false;
  return frame.hops[frame.key.stage.value].fold || !standing_.options.rules.propagate_does_not_fold;
}

bool Tasks::MustWait(const Forward& frame) const {
  if (frame.version > standing_.version) return true;
  // A frozen step may be thawed: the frame of a repair can overtake the Thaw.
  return Folds(frame) && folds_.IsFrozen(frame.key.step);
}

bool Tasks::HasRoom(std::uint64_t frames, std::uint64_t bytes) const {
  if (frames >= standing_.options.parked_max) return false;
  return parked() == 0 || parked_bytes_ + bytes <= standing_.options.parked_bytes_max;
}

std::string_view Tasks::WhyRefuse(const WorkerId& from, const Forward& frame,
                                  std::uint64_t bytes) const {
  const TaskKey& key = frame.key;
  const ReplicaOptions& options = standing_.options;
  if (!standing_.IsOfGeneration(key.generation)) return "generation";
  if (key.stage != standing_.stage() || frame.hops.size() != options.stages) return "addressee";
  const Hop& hop = frame.hops[key.stage.value];
  if (hop.worker != options.self.id || hop.attempt != key.attempt) return "addressee";
  if (standing_.evicted.contains(from)) return "evicted sender";
  if (tasks_.contains(key) || known_.contains(key)) return "duplicate";
  if (frame.kind == TaskKind::kTrain) {
    if (standing_.IsCommitted(key.step)) return "committed step";
    if (standing_.IsClosed(key.attempt)) return "closed attempt";
    if (Folds(frame)) {
      if (const auto reason = folds_.WhyRefuse(key); !reason.empty()) return reason;
    }
  }
  if (frame.version < standing_.OldestVersion()) return "version gone";
  if (MustWait(frame) && !HasRoom(parked_, bytes)) return "too many parked";
  return {};
}

Actions Tasks::OnForward(const WorkerId& from, const Forward& frame, std::uint64_t bytes) {
  if (const auto reason = WhyRefuse(from, frame, bytes); !reason.empty()) {
    return Refused(reason, frame.key);
  }
  Actions actions;
  if (Folds(frame)) {
    // Work of this worker for an earlier attempt is of no more use.
    CloseIf(
        [&](const Task& task) {
          const TaskKey& key = task.frame.key;
          return key.step == frame.key.step && key.microbatch == frame.key.microbatch &&
                 Folds(task.frame);
        },
        actions);
    folds_.At(frame.key.step).latest[frame.key.microbatch] = frame.key.attempt;
  }
  Task& task = tasks_[frame.key];
  task.frame = frame;
  task.bytes = bytes;
  if (frame.kind == TaskKind::kTrain) Route(task);
  ++parked_;
  parked_bytes_ += bytes;
  StartIfReady(task, actions);
  return actions;
}

void Tasks::Route(Task& task) {
  Forward& frame = task.frame;
  const TaskKey& key = frame.key;
  known_.insert(key);
  if (const auto resend = early_resends_.extract(key)) {
    for (const Forward& way : resend.mapped()) task.onward.push_back(MakeOnward(frame, way));
  }
  if (const auto redirect = early_redirects_.extract(key)) {
    task.back = redirect.mapped();
    return;
  }
  if (key.stage < frame.first || key.stage.value == 0) return;
  const StageIndex before(key.stage.value - 1);
  const Hop& hop = key.stage == frame.first ? frame.upstream : frame.hops[before.value];
  if (hop.worker.empty()) return;
  task.back = Target{hop.worker, {key.generation, key.step, key.microbatch, before, hop.attempt}};
}

void Tasks::StartIfReady(Task& task, Actions& actions) {
  if (task.state != State::kParked || MustWait(task.frame)) return;
  --parked_;
  parked_bytes_ -= task.bytes;
  ++queued_;
  task.state = State::kForwarding;
  const bool keep_graph =
      task.frame.kind == TaskKind::kTrain && task.frame.key.stage >= task.frame.first;
  actions.push_back(action::RunForward{task.frame.key, task.frame.version, keep_graph});
}

void Tasks::StartParked(Actions& actions) {
  for (auto& [key, task] : tasks_) StartIfReady(task, actions);
}

Actions Tasks::OnBackward(const WorkerId& from, const Backward& frame, std::uint64_t bytes) {
  const TaskKey& key = frame.key;
  if (!standing_.IsOfGeneration(key.generation)) return Refused("generation", key);
  if (standing_.evicted.contains(from)) return Refused("evicted sender", key);
  if (standing_.IsCommitted(key.step)) return Refused("committed step", key);
  const auto it = tasks_.find(key);
  if (it == tasks_.end() && known_.contains(key)) return Refused("no such task", key);
  if (it == tasks_.end() && (standing_.IsClosed(key.attempt) || folds_.IsClosed(key))) {
    return Refused("closed attempt", key);
  }
  if (it != tasks_.end() && it->second.state == State::kBackwarding) {
    return Refused("duplicate", key);
  }
  if (it != tasks_.end() && it->second.state == State::kForwarded) {
    Actions actions;
    RunBackward(it->second, actions);
    return actions;
  }
  // A redirected gradient can come before the task that needs it.
  if (early_backwards_.contains(key)) return Refused("duplicate", key);
  Actions actions;
  while (!HasRoom(early_backwards_.size(), bytes)) {
    // One that is older and whose task has not come either is likelier to wait in vain.
    const auto oldest = std::ranges::find_if(
        early_order_, [&](const auto& entry) { return !tasks_.contains(entry.second); });
    if (oldest == early_order_.end() || oldest->first >= key.attempt) {
      return Refused("too many parked", key);
    }
    const TaskKey dropped = oldest->second;
    ForgetEarlyBackward(dropped);
    actions.push_back(action::DropTask{dropped});
  }
  early_backwards_[key] = bytes;
  early_order_.emplace(key.attempt, key);
  parked_bytes_ += bytes;
  return actions;
}

bool Tasks::ForgetEarlyBackward(const TaskKey& key) {
  const auto early = early_backwards_.extract(key);
  if (!early) return false;
  early_order_.erase({key.attempt, key});
  parked_bytes_ -= early.mapped();
  return true;
}

// ---- results of the shell ----

Actions Tasks::OnForwardGone(const TaskKey& key) {
  Actions actions;
  if (const auto it = tasks_.find(key); it != tasks_.end()) Close(it, actions);
  return actions;
}

Actions Tasks::OnForwardDone(const TaskKey& key, double loss, const Cost& cost,
                             const TaskDigests& digests) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return {action::DropTask{key}, action::ReleaseRetained{key, false}};
  Task& task = it->second;
  --queued_;
  Actions actions;
  const bool sends = SendOutputs(key, task, actions);
  if (task.frame.kind != TaskKind::kTrain) {
    if (standing_.IsLastStage()) {
      Append(actions, Report({key, TaskReport::Event::kEvaluated, loss, cost.seconds, 0}));
    }
    actions.push_back(action::ReleaseRetained{key, false});
    actions.push_back(action::DropTask{key});
    tasks_.erase(it);
    return actions;
  }
  Append(actions, Report({key, TaskReport::Event::kForwarded, 0, cost.seconds,
                          sends ? cost.boundary_bytes : 0, digests}));
  task.input = digests.input;
  if (!standing_.IsLastStage()) {
    retention_.Keep(key, task.frame, false, cost.boundary_bytes, actions);
  }
  if (key.stage < task.frame.first) {  // recomputed for the stages behind it
    actions.push_back(action::DropTask{key});
    tasks_.erase(it);
    return actions;
  }
  task.state = State::kForwarded;
  task.loss = loss;
  if (standing_.IsLastStage() || ForgetEarlyBackward(key)) RunBackward(task, actions);
  return actions;
}

void Tasks::RunBackward(Task& task, Actions& actions) {
  task.state = State::kBackwarding;
  ++queued_;
  actions.push_back(action::RunBackward{task.frame.key});
}

Actions Tasks::OnBackwardDone(const TaskKey& key, const Cost& cost, bool fits,
                              const TaskDigests& digests) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return {action::DropTask{key}, action::ReleaseRetained{key, true}};
  const Task task = std::move(it->second);
  tasks_.erase(it);
  --queued_;
  Actions actions;
  if (task.back) SendGradient(key, task.frame.version, *task.back, actions);
  if (key.stage.value > 0) {
    retention_.Keep(key, task.frame, true, cost.boundary_bytes, actions);
  }
  // The fold is decided here, at once: the attempt is open and the contribution is not in yet.
  auto event = TaskReport::Event::kPropagated;
  const bool may_fold = Folds(task.frame) && folds_.MayFold(key);
  if (may_fold && fits) {
    event = TaskReport::Event::kFolded;
    folds_.At(key.step).folded[key.microbatch] = {key.microbatch, key.attempt, task.loss};
    actions.push_back(action::FoldGradients{key});
  } else {
    if (may_fold) event = TaskReport::Event::kOverflow;
    actions.push_back(action::DropTask{key});
  }
  // A backward depends on what its forward took, too.
  const bool audited = task.input != 0;
  const TaskDigests both{audited ? MixAll(task.input, digests.input) : 0, digests.output};
  Append(actions,
         Report({key, event, task.loss, cost.seconds, task.back ? cost.boundary_bytes : 0, both}));
  return actions;
}

bool Tasks::SendOutputs(const TaskKey& key, Task& task, Actions& actions) const {
  if (task.onward.empty()) task.onward.push_back(task.frame);
  bool sends = false;
  for (const Forward& onward : task.onward) {
    if (standing_.IsLastStage() || key.stage.Next() >= onward.end) continue;
    SendOutput(key, onward, actions);
    sends = true;
  }
  return sends;
}

void Tasks::SendOutput(const TaskKey& source, const Forward& frame, Actions& actions) const {
  Forward next = frame;
  next.key.stage = source.stage.Next();
  if (next.key.stage.value >= standing_.options.stages) return;
  const Hop& hop = next.hops[next.key.stage.value];
  next.key.attempt = hop.attempt;
  actions.push_back(action::SendForward{hop.worker, std::move(next), source});
}

void Tasks::SendGradient(const TaskKey& source, Version version, const Target& target,
                         Actions& actions) const {
  actions.push_back(action::SendBackward{target.first, Backward{target.second, version}, source});
}

// ---- repairs ----

Actions Tasks::OnResend(const Resend& resend) {
  const TaskKey& key = resend.source;
  const auto refused = standing_.WhyRefuseControl(resend.term, key.generation);
  if (!refused.empty()) return Refused(refused, key);
  if (standing_.IsCommitted(key.step)) return Refused("committed step", key);
  if (const Forward* kept = retention_.FindOutput(key)) {
    Actions actions;
    SendOutput(key, MakeOnward(*kept, resend.frame), actions);
    return actions;
  }
  if (const auto task = tasks_.find(key);
      task != tasks_.end() && task->second.state <= State::kForwarding) {
    if (task->second.onward.size() < kWaysMax) {
      task->second.onward.push_back(MakeOnward(task->second.frame, resend.frame));
    }
    return {};
  }
  if (known_.contains(key)) return {action::Tell{Missing{key, false}}};
  if (early_resends_.size() < standing_.options.parked_max) {
    std::vector<Forward>& ways = early_resends_[key];
    if (ways.size() < kWaysMax) ways.push_back(resend.frame);
  }
  return {};
}

Actions Tasks::OnRedirect(const Redirect& redirect) {
  const TaskKey& key = redirect.source;
  const auto refused = standing_.WhyRefuseControl(redirect.term, key.generation);
  if (!refused.empty()) return Refused(refused, key);
  if (standing_.IsCommitted(key.step)) return Refused("committed step", key);
  const Target target{redirect.to, redirect.target};
  if (const Forward* kept = retention_.FindGradient(key)) {
    Actions actions;
    SendGradient(key, kept->version, target, actions);
    return actions;
  }
  if (const auto task = tasks_.find(key); task != tasks_.end()) {
    task->second.back = target;
    return {};
  }
  if (known_.contains(key)) return {action::Tell{Missing{key, true}}};
  if (early_redirects_.size() < standing_.options.parked_max) {
    early_redirects_.insert_or_assign(key, target);
  }
  return {};
}

Actions Tasks::OnRevoke(const Revoke& revoke) {
  const TaskKey& key = revoke.key;
  const auto refused = standing_.WhyRefuseControl(revoke.term, key.generation);
  if (!refused.empty()) return Refused(refused, key);
  if (standing_.IsCommitted(key.step) || folds_.HasFolded(key)) {
    return {action::Tell{Revoked{key, true}}};
  }
  Actions actions;
  if (standing_.options.rules.answer_revoke_by_closing) {
    known_.insert(key);
    folds_.Close(key);
    if (const auto task = tasks_.find(key); task != tasks_.end()) {
      Close(task, actions);
    } else if (ForgetEarlyBackward(key)) {
      actions.push_back(action::DropTask{key});
    }
  }
  actions.push_back(action::Tell{Revoked{key, false}});
  return actions;
}

// ---- ends ----

void Tasks::Close(Map::iterator task, Actions& actions) {
  const TaskKey key = task->first;
  switch (task->second.state) {
    case State::kParked:
      --parked_;
      parked_bytes_ -= task->second.bytes;
      break;
    case State::kForwarding:
    case State::kBackwarding:
      --queued_;
      break;
    case State::kForwarded:
      break;
  }
  tasks_.erase(task);
  ForgetEarlyBackward(key);
  actions.push_back(action::DropTask{key});
}

template <typename Predicate>
void Tasks::CloseIf(Predicate is_over, Actions& actions) {
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    const auto task = it++;
    if (is_over(task->second)) Close(task, actions);
  }
}

void Tasks::CloseFolding(Step step, Actions& actions) {
  CloseIf([&](const Task& task) { return task.frame.key.step == step && Folds(task.frame); },
          actions);
}

void Tasks::ForgetClosed(Actions& actions) {
  for (auto it = early_backwards_.begin(); it != early_backwards_.end();) {
    const TaskKey key = it++->first;
    // A task that is here does not fold, or it would be closed: its gradient is waited for.
    if (tasks_.contains(key) || !folds_.IsClosed(key)) continue;
    ForgetEarlyBackward(key);
    actions.push_back(action::DropTask{key});
  }
}

void Tasks::CloseAll(Actions& actions) {
  CloseIf([](const Task&) { return true; }, actions);
  while (!early_backwards_.empty()) {
    const TaskKey key = early_backwards_.begin()->first;
    ForgetEarlyBackward(key);
    actions.push_back(action::DropTask{key});
  }
  early_resends_.clear();
  early_redirects_.clear();
}

void Tasks::Close(Step step, Actions& actions) {
  CloseIf(
      [&](const Task& task) {
        return task.frame.kind == TaskKind::kTrain && task.frame.key.step <= step;
      },
      actions);
}

void Tasks::Forget(Step step) {
  retention_.Forget(step);
  const auto over = [&](const TaskKey& key) { return key.step <= step; };
  std::erase_if(known_, over);
  std::erase_if(early_backwards_, [&](const auto& entry) {
    if (!over(entry.first)) return false;
    early_order_.erase({entry.first.attempt, entry.first});
    parked_bytes_ -= entry.second;
    return true;
  });
  std::erase_if(early_resends_, [&](const auto& entry) { return over(entry.first); });
  std::erase_if(early_redirects_, [&](const auto& entry) { return over(entry.first); });
}

}  // namespace swarm::protocol
