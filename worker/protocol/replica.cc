#include "worker/protocol/replica.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {
namespace {

void Append(Actions& to, Actions from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

Actions Refused(std::string_view reason, const TaskKey& key) {
  return {action::Refuse{reason, key}};
}

}  // namespace

Replica::Replica(ReplicaOptions options)
    : options_(std::move(options)), version_(options_.version) {}

Actions Replica::OnRoster(const Roster& roster) {
  if (roster.term < promised_ || roster.epoch < epoch_) return {};
  promised_ = roster.term;
  epoch_ = roster.epoch;
  members_.clear();
  for (const Member& member : roster.members) members_.insert(member.id);
  return {};
}

std::string_view Replica::WhyRefuse(const Forward& frame) const {
  const TaskKey& key = frame.key;
  if (key.generation != options_.generation) return "generation";
  if (key.stage != options_.stage || frame.hops.size() != options_.stages) return "addressee";
  const Hop& hop = frame.hops[key.stage.value];
  if (hop.worker != options_.self || hop.attempt != key.attempt) return "addressee";
  if (tasks_.contains(key)) return "duplicate";
  if (frame.kind == TaskKind::kTrain) {
    if (IsCommitted(key.step)) return "committed step";
    const auto step = steps_.find(key.step);
    if (step != steps_.end()) {
      if (step->second.folded.contains(key.microbatch) && hop.fold) return "folded already";
      if (Frozen(step->second) && hop.fold) return "frozen step";
    }
  }
  const std::uint64_t oldest =
      options_.keeps_previous_version && version_.value > 0 ? version_.value - 1 : version_.value;
  if (frame.version.value < oldest) return "version gone";
  if (frame.version > version_ && parked_ >= options_.parked_max) return "too many parked";
  return {};
}

Actions Replica::OnForward(const Forward& frame) {
  if (const auto reason = WhyRefuse(frame); !reason.empty()) return Refused(reason, frame.key);
  Task& task = tasks_[frame.key];
  task.frame = frame;
  if (frame.version > version_) {
    ++parked_;
    return {};
  }
  return StartForward(task);
}

Actions Replica::StartForward(Task& task) {
  task.state = TaskState::kForwarding;
  ++queued_;
  return {
      action::RunForward{task.frame.key, task.frame.version, task.frame.kind == TaskKind::kTrain}};
}

Actions Replica::OnForwardDone(const TaskKey& key, double loss, const Cost& cost) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return {action::DropTask{key}};
  Task& task = it->second;
  --queued_;
  const bool train = task.frame.kind == TaskKind::kTrain;
  Actions actions;
  if (!IsLastStage()) {
    Forward next = task.frame;
    next.key.stage = key.stage.Next();
    const Hop& hop = next.hops[next.key.stage.value];
    next.key.attempt = hop.attempt;
    actions.push_back(action::SendForward{hop.worker, std::move(next)});
  }
  if (!train) {
    if (IsLastStage()) {
      actions.push_back(action::Tell{
          Progress{{TaskReport{key, TaskReport::Event::kEvaluated, loss, cost.seconds, 0}}}});
    }
    actions.push_back(action::DropTask{key});
    tasks_.erase(it);
    return actions;
  }
  actions.push_back(action::Tell{Progress{
      {TaskReport{key, TaskReport::Event::kForwarded, 0, cost.seconds, cost.boundary_bytes}}}});
  task.state = TaskState::kForwarded;
  task.loss = loss;
  if (IsLastStage()) {
    task.state = TaskState::kBackwarding;
    ++queued_;
    actions.push_back(action::RunBackward{key});
  }
  return actions;
}

Actions Replica::OnBackward(const WorkerId& from, const Backward& frame) {
  const auto it = tasks_.find(frame.key);
  if (it == tasks_.end()) return Refused("no such task", frame.key);
  Task& task = it->second;
  if (task.state != TaskState::kForwarded) return Refused("duplicate", frame.key);
  if (task.frame.hops[frame.key.stage.value + 1].worker != from) {
    return Refused("sender", frame.key);
  }
  task.state = TaskState::kBackwarding;
  ++queued_;
  return {action::RunBackward{frame.key}};
}

Actions Replica::OnBackwardDone(const TaskKey& key, const Cost& cost) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return {action::DropTask{key}};
  Task task = std::move(it->second);
  tasks_.erase(it);
  --queued_;
  Actions actions;
  if (key.stage.value > 0) {
    const Hop& hop = task.frame.hops[key.stage.value - 1];
    Backward previous{key, task.frame.version};
    previous.key.stage = StageIndex(key.stage.value - 1);
    previous.key.attempt = hop.attempt;
    actions.push_back(action::SendBackward{hop.worker, previous, key});
  }
  // The fold is decided here, at once: the step is open and the contribution is not in yet.
  const bool folds = task.frame.hops[key.stage.value].fold && !IsCommitted(key.step);
  StepState* step = folds ? &steps_[key.step] : nullptr;
  if (step == nullptr || Frozen(*step) || step->folded.contains(key.microbatch)) {
    actions.push_back(action::DropTask{key});
    return actions;
  }
  step->folded[key.microbatch] = key.attempt;
  actions.push_back(action::FoldGradients{key});
  actions.push_back(action::Tell{Progress{{TaskReport{key, TaskReport::Event::kFolded, task.loss,
                                                      cost.seconds, cost.boundary_bytes}}}});
  return actions;
}

bool Replica::Frozen(const StepState& step) const {
  return std::any_of(step.groups.begin(), step.groups.end(),
                     [](const auto& group) { return group.second.k.has_value(); });
}

ClaimSet Replica::FoldSet(Step step) const {
  ClaimSet set{options_.stage, {}};
  if (const auto it = steps_.find(step); it != steps_.end()) {
    for (const auto& [microbatch, attempt] : it->second.folded) {
      set.microbatches.push_back(microbatch);
    }
  }
  return set;
}

Actions Replica::OnReduce(const Reduce& reduce) {
  const TaskKey key{reduce.generation, reduce.step, {}, options_.stage, reduce.k};
  if (reduce.term < promised_) return Refused("term", key);
  if (reduce.generation != options_.generation) return Refused("generation", key);
  if (IsCommitted(reduce.step)) return Refused("committed step", key);
  promised_ = reduce.term;
  StepState& step = steps_[reduce.step];
  GroupState& group = step.groups[reduce.group];
  if (group.k && reduce.k <= *group.k) return Refused("reduce attempt", key);
  const ClaimSet folded = FoldSet(reduce.step);
  const auto mine = std::find_if(
      reduce.participants.begin(), reduce.participants.end(),
      [&](const auto& p) { return p.worker == options_.self && p.claims.stage == options_.stage; });
  if (mine == reduce.participants.end() || mine->claims != folded) {
    return {action::Tell{
        ReduceRefused{reduce.generation, reduce.step, reduce.group, reduce.k, folded}}};
  }
  group.k = reduce.k;
  group.digest.reset();
  return {action::StartReduce{reduce}};
}

Actions Replica::OnGroupReduced(Step step, GroupIndex index, Attempt k, const Digest& digest,
                                std::vector<TensorNorm> norms) {
  const auto it = steps_.find(step);
  if (it == steps_.end()) return {};
  GroupState& group = it->second.groups[index];
  if (group.k != k) return {};  // a higher attempt has begun meanwhile
  group.digest = digest;
  return {action::Tell{Reduced{options_.generation, step, index, k, digest, std::move(norms)}}};
}

Actions Replica::OnCommit(const Commit& commit) {
  const CommitRecord& record = commit.record;
  const TaskKey key{record.generation, record.step, {}, options_.stage, {}};
  if (commit.term < promised_) return Refused("term", key);
  if (record.generation != options_.generation) return Refused("generation", key);
  promised_ = commit.term;
  if (IsCommitted(record.step)) return {};  // idempotent
  const auto same = [&](const Commit& c) { return c.record.step == record.step; };
  if (std::any_of(commits_.begin(), commits_.end(), same)) return {};
  commits_.push_back(commit);
  return TryCommit();
}

Actions Replica::TryCommit() {
  if (applying_ || commits_.empty()) return {};
  const CommitRecord& record = commits_.front().record;
  if (record.step.value != version_.value) {
    return {action::Fail{"commit of step " + std::to_string(record.step.value) +
                         " while holding version " + std::to_string(version_.value)}};
  }
  StepState& step = steps_[record.step];
  for (const GroupIndex index : options_.groups) {
    const GroupState& group = step.groups[index];
    const bool held =
        std::any_of(record.groups.begin(), record.groups.end(), [&](const GroupResult& result) {
          return result.group == index && group.k == result.k && group.digest == result.digest;
        });
    if (!held) {
      return {action::Fail{"the commit of step " + std::to_string(record.step.value) +
                           " names a result of group " + std::to_string(index.value) +
                           " that this worker does not hold"}};
    }
  }
  applying_ = true;
  return {action::ApplyCommit{record}};
}

Actions Replica::OnApplied(Step step, const Digest& state) {
  applying_ = false;
  commits_.pop_front();
  version_ = Version(step.value + 1);
  steps_.erase(step);
  Actions actions{action::ReleaseStep{step},
                  action::Tell{Committed{options_.generation, step, state}}};
  // Checkpoints of this version come before anything that could change it.
  for (const WriteCheckpoint& request : std::exchange(checkpoints_, {})) {
    Append(actions, OnWriteCheckpoint(request));
  }
  for (auto& [key, task] : tasks_) {
    if (task.state == TaskState::kParked && task.frame.version <= version_) {
      --parked_;
      Append(actions, StartForward(task));
    }
  }
  Append(actions, TryCommit());
  return actions;
}

Actions Replica::OnWriteCheckpoint(const WriteCheckpoint& request) {
  if (request.term < promised_ || request.generation != options_.generation) return {};
  if (request.version == version_ && !applying_) return {action::TakeCheckpoint{request}};
  if (request.version > version_) {
    checkpoints_.push_back(request);
    return {};
  }
  return {action::Tell{CheckpointWritten{request.generation,
                                         request.version,
                                         options_.stage,
                                         "version " + std::to_string(request.version.value) +
                                             " is gone; this worker holds version " +
                                             std::to_string(version_.value),
                                         {}}}};
}

}  // namespace swarm::protocol
