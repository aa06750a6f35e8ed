#include "operator/plan/testing/fake_cluster.h"

#include <algorithm>

#include "api/format/enum_names.h"
#include "operator/plan/admission.h"
#include "operator/plan/places.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;

ObservedNode NewNode(const std::string& uid, WallTime now) {
  return {.uid = uid,
          .created = now,
          .taints = {},
          .conditions = {{.type = "Ready", .status = "True", .reason = "", .message = ""}}};
}

bool Runs(const ObservedPod& pod) { return pod.phase == PodPhase::kRunning && !pod.end; }

}  // namespace

FakeCluster::FakeCluster(std::uint64_t replicas, std::uint64_t stages) {
  job.name = "job";
  job.uid = "uid-of-job";
  job.generation = 1;
  api::SwarmJob manifest;
  manifest.name = "job";
  manifest.spec.pipeline.stages = stages;
  manifest.spec.training.maxSteps = 1000;
  manifest.spec.workers.replicas = replicas;
  manifest.spec.workers.minReplicas = stages;
  manifest.spec.workers.pools = {{.name = "spot"}};
  job.job = std::move(manifest);
  free_slots["spot"] = 1000;
}

const ObservedPod* FakeCluster::Trainer() const {
  for (const auto& [name, pod] : pods) {
    if (pod.role == PodRole::kTrainer && pod.number == job.status.trainer.term && Runs(pod) &&
        nodes.contains(pod.node)) {
      return &pod;
    }
  }
  return nullptr;
}

std::optional<TrainerView> FakeCluster::View() const {
  const ObservedPod* trainer = Trainer();
  if (!trainer_speaks || trainer == nullptr) return std::nullopt;
  TrainerView view{.status = {}, .heard = now};
  protocol::JobStatus& status = view.status;
  status.term = protocol::Term(trainer->number);
  status.state = protocol::JobState::kTraining;
  status.step = protocol::Step(training.step);
  status.loss = training.loss;
  status.tokens_per_second = training.tokens_per_second;
  status.seconds_left = training.seconds_left;
  status.traffic = training.traffic;
  status.retired = retired_term_ == trainer->number ? retired_.count() : 0;
  status.balance.state_load_seconds = 10;
  status.balance.one_region = training.one_region;
  for (std::uint64_t s = 0; s < job.job->spec.pipeline.stages; ++s) {
    status.stages.push_back({.stage = protocol::StageIndex(s), .workers = {}});
  }
  for (const std::string& id : joined) status.spares.emplace_back(id);
  for (const auto& [name, pod] : pods) {
    if (pod.role != PodRole::kWorker || handed_over.contains(name)) continue;
    for (const std::string& id : names::WorkersOf(pod.name, pod.workers)) {
      if (!stage_of_.contains(id)) continue;
      if (not_there.contains(name) || !nodes.contains(pod.node)) {
        if (pod.node.empty()) continue;
        status.evicted.push_back(
            {.number = status.evicted.size() + 1,
             .worker = protocol::WorkerId(id),
             .cause = protocol::EvictionCause::kSilent,
             .time = lost_at_.contains(name)
                         ? lost_at_.at(name)
                         : static_cast<double>(now.time_since_epoch().count())});
      } else if (Runs(pod)) {
        status.stages[stage_of_.at(id)].workers.push_back(
            {.id = protocol::WorkerId(id),
             .microbatches_per_second = 1,
             .state = drained_.contains(id) ? protocol::WorkerState::kLeaving
                                            : protocol::WorkerState::kReady});
      }
    }
  }
  return view;
}

Observed FakeCluster::Observe(Leader& by) const {
  Observed seen{.now = now, .job = job};
  for (const auto& [name, pod] : pods) {
    if (!never_seen.contains(pod.cluster)) seen.pods.push_back(pod);
  }
  seen.nodes = nodes;
  seen.children = children;
  seen.pod_sizes = pod_sizes;
  seen.clusters = clusters;
  for (const api::Pool& pool : job.job->spec.workers.pools) {
    const auto cluster = clusters.find(pool.cluster);
    if (cluster != clusters.end() && !cluster->second.reachable) {
      seen.unreachable_pools.insert(pool.name);
    }
  }
  seen.image = image;
  seen.trainer = View();
  seen.queue = queue;
  seen.refusal = by.refusal;
  seen.status_written = by.status_written;
  seen.leader_term = by.term;
  return Reconsider(std::move(seen), by);
}

Observed FakeCluster::Reconsider(Observed seen, Leader& by) const {
  seen.now = now;
  seen.creations = by.creations;
  seen.unseen = by.reservations.Look(seen.job.status, seen.pods, seen.creations, now);
  seen.tenures = by.tenures.Look(seen);
  AddUnseenPods(&seen);
  return seen;
}

void FakeCluster::Create(ObservedPod pod, Leader& by) {
  const Creation creation{.role = pod.role, .number = pod.number, .pool = pod.pool};
  std::erase_if(by.creations, [&](const Creation& c) {
    return c.role == creation.role && c.number == creation.number;
  });
  if (pods.contains(pod.name)) return;
  if (refuses) {
    const std::uint64_t attempts = by.refusal ? by.refusal->attempts + 1 : 1;
    by.refusal = *refuses;
    by.refusal->time = now;
    by.refusal->attempts = attempts;
    by.creations.push_back(creation);
    by.creations.back().refused = true;
    return;
  }
  by.refusal.reset();
  if (!names_.insert(pod.name).second) violations.push_back(pod.name + " was created twice");
  if (pod.role == PodRole::kTrainer && !terms_.insert(pod.number).second) {
    violations.push_back("two trainers of term " + std::to_string(pod.number));
  }
  for (const api::NodeStatus& node : job.status.nodes) {
    if (node.avoided) avoids_[pod.name].insert(node.name);
  }
  pod.uid = "uid-" + std::to_string(next_uid_++);
  pod.created = pod.waiting_since = now;
  pods.emplace(pod.name, std::move(pod));
}

void FakeCluster::Do(const Action& action, Leader& by) {
  if (const auto* apply = std::get_if<ApplyChild>(&action)) {
    children.insert(apply->child);
    done.push_back("apply");
  } else if (const auto* trainer = std::get_if<CreateTrainer>(&action)) {
    ObservedPod pod{
        .role = PodRole::kTrainer, .number = trainer->term, .made_of = job.trainer_part};
    pod.name = names::PodName(job.name, pod.role, pod.number);
    done.push_back("create " + pod.name);
    Create(std::move(pod), by);
  } else if (const auto* worker = std::get_if<CreateWorker>(&action)) {
    ObservedPod pod{.number = worker->ordinal, .pool = worker->pool};
    if (pod_sizes.contains(pod.pool)) pod.workers = pod_sizes.at(pod.pool);
    for (const api::Pool& pool : job.job->spec.workers.pools) {
      if (pool.name == pod.pool) pod.cluster = pool.cluster;
    }
    pod.name = names::PodName(job.name, pod.role, pod.number);
    done.push_back("create " + pod.name + " in " + pod.pool);
    Create(std::move(pod), by);
  } else if (const auto* deletion = std::get_if<DeletePod>(&action)) {
    done.push_back("delete " + deletion->name);
    const auto it = pods.find(deletion->name);
    if (it == pods.end() || it->second.uid != deletion->uid) return;
    const bool at_once = it->second.node.empty() || it->second.end || deletion->grace_seconds == 0;
    if (at_once) {
      pods.erase(it);
    } else if (!it->second.deleted) {
      it->second.deleted =
          now + seconds(static_cast<std::int64_t>(deletion->grace_seconds.value_or(30)));
    }
  } else if (const auto* direct = std::get_if<DirectTrainer>(&action)) {
    for (const std::string& id : direct->drain) {
      done.push_back("drain " + id);
      drained_.insert(id);
    }
    for (const auto& move : direct->moves) {
      done.push_back("move " + move.worker.value);
      stage_of_[move.worker.value] = move.to.value;
    }
    if (const ObservedPod* trainer = Trainer(); trainer != nullptr && direct->retired.below > 0) {
      if (retired_term_ != trainer->number) retired_ = {};
      retired_term_ = trainer->number;
      if (retired_.Learn(direct->retired))
        done.push_back("retire " + std::to_string(retired_.count()));
      for (const auto& [name, pod] : pods) {
        if (pod.role == PodRole::kWorker && Runs(pod) && retired_.Has(protocol::WorkerId(name))) {
          violations.push_back(name + " runs, and the trainer hears that it is gone");
        }
      }
    }
  } else if (const auto* write = std::get_if<WriteReplicas>(&action)) {
    done.push_back("write replicas " + std::to_string(write->replicas));
    job.replicas_open = false;
  } else if (std::holds_alternative<WriteWorkload>(action)) {
    done.push_back("write workload");
    if (!queue->refusal.empty()) return;
    if (!queue->workload) queue->workload.emplace();
    queue->workload->uid = "uid-" + std::to_string(next_uid_++);
    queue->workload->outdated = false;
    queue->workload->pods = AskedPods(job.job->spec, pod_sizes);
  } else if (const auto* removal = std::get_if<DeleteWorkload>(&action)) {
    done.push_back("delete workload");
    if (queue->workload && queue->workload->uid == removal->uid) queue->workload.reset();
  } else if (const auto* tell = std::get_if<TellQueue>(&action)) {
    Hear(*tell);
  } else {
    done.push_back("delete job");
    job.deleted = true;
  }
}

void FakeCluster::Hear(const TellQueue& told) {
  ObservedWorkload& workload = *queue->workload;
  switch (told.news) {
    case JobNews::kReady:
      done.push_back("tell: ready");
      workload.pods_ready = true;
      break;
    case JobNews::kStopped:
      done.push_back("tell: stopped");
      workload.has_quota = workload.admitted = false;
      if (std::ranges::any_of(pods, [](const auto& each) { return Runs(each.second); })) {
        violations.push_back("quota was given back while pods ran");
      }
      break;
    case JobNews::kSucceeded:
    case JobNews::kFailed:
      done.push_back(told.news == JobNews::kFailed ? "tell: failed" : "tell: succeeded");
      workload.finished = true;
      break;
  }
}

Plan FakeCluster::Act(Leader& by, std::optional<Observed> seen,
                      std::optional<std::size_t> stop_after) {
  const std::uint64_t version = version_;
  const bool old = seen && !(seen->job.status == job.status);
  const Observed observed = seen ? *std::move(seen) : Observe(by);
  const Plan plan = Decide(observed);
  std::size_t steps = 0;
  const auto dies = [&] { return stop_after && steps++ >= *stop_after; };
  const auto write = [&] {
    if (old || version != version_) return false;
    if (plan.status.nextWorkerOrdinal < job.status.nextWorkerOrdinal ||
        plan.status.trainer.term < job.status.trainer.term) {
      violations.push_back("a number given out was taken back");
    }
    CheckAccount(job.status, plan.status);
    job.status = plan.status;
    by.status_written = now;
    by.tenures.Counted();
    ++version_;
    std::erase_if(by.creations, [&](const Creation& c) {
      return c.role == PodRole::kWorker &&
             !std::binary_search(job.status.openWorkers.begin(), job.status.openWorkers.end(),
                                 c.number);
    });
    events.insert(events.end(), plan.events.begin(), plan.events.end());
    return true;
  };
  if (plan.write == WriteStatus::kFirst && (dies() || !write())) return plan;
  for (const Action& action : plan.actions) {
    if (dies()) return plan;
    Do(action, by);
  }
  if (plan.write == WriteStatus::kLast && !dies()) write();
  return plan;
}

void FakeCluster::CheckAccount(const api::SwarmJobStatus& before,
                               const api::SwarmJobStatus& after) {
  const auto counted = [](const api::SwarmJobStatus& s) {
    return s.preemptions + s.failures + s.unexplained;
  };
  const std::uint64_t given = after.nextWorkerOrdinal - before.nextWorkerOrdinal;
  const std::uint64_t closed = before.openWorkers.size() + given - after.openWorkers.size();
  const std::uint64_t trainers =
      after.trainer.term > before.trainer.term || api::IsTrue(after, api::ConditionType::kFailed)
          ? 1
          : 0;
  if (counted(after) < counted(before)) violations.push_back("a counter went back");
  if (after.cost.dollars < before.cost.dollars ||
      after.cost.countedTime.value_or(WallTime::min()) <
          before.cost.countedTime.value_or(WallTime::min())) {
    violations.push_back("dollars were taken back");
  }
  if (counted(after) - counted(before) > closed + trainers) {
    violations.push_back("more ends were counted than numbers closed");
  }
  for (const std::uint64_t ordinal : after.openWorkers) {
    const bool was_open =
        std::binary_search(before.openWorkers.begin(), before.openWorkers.end(), ordinal);
    if (!was_open && ordinal < before.nextWorkerOrdinal) {
      violations.push_back("a closed number was opened again: " + std::to_string(ordinal));
    }
  }
}

void FakeCluster::RunPods() {
  std::vector<std::string> gone;
  for (auto& [name, pod] : pods) {
    if (pod.node.empty() && !pod.gated) {
      const bool trainer = pod.role == PodRole::kTrainer;
      const bool full = !trainer && free_slots[pod.pool] == 0;
      const std::string words = full      ? "0/8 nodes are available: 8 Insufficient cpu."
                                : trainer ? trainer_fits_nowhere
                                          : "";
      pod.unscheduled_reason = words.empty() ? "" : "Unschedulable";
      pod.unscheduled_message = words;
      if (!words.empty()) continue;
      if (!trainer) --free_slots[pod.pool];
      const bool falls = !trainer && !black_hole.empty() && !avoids_[name].contains(black_hole);
      pod.node = falls ? black_hole : "node-of-" + name;
      pod.scheduled = now;
      if (!nodes.contains(pod.node)) {
        nodes[pod.node] = NewNode("uid-of-node-" + std::to_string(next_uid_++), now);
      }
    }
    if (!nodes.contains(pod.node)) continue;
    if (pod.phase == PodPhase::kPending && !pod.node.empty()) {
      pod.waiting_message = registry_answers;
      pod.waiting_reason = registry_answers.empty() ? "" : "ImagePullBackOff";
      if (!registry_answers.empty()) continue;
      pod.phase = PodPhase::kRunning;
      pod.ready = pod.node != black_hole;
      if (!pod.ready) {
        End(name, black_hole_ends.exit_code, black_hole_ends.reason, black_hole_ends.message);
      }
    }
    if (pod.deleted && !pod.node.empty()) gone.push_back(name);
    const bool drained =
        std::ranges::all_of(names::WorkersOf(pod.name, pod.workers),
                            [this](const std::string& id) { return drained_.contains(id); });
    if (drained && Runs(pod)) End(name, 0, "Completed");
  }
  for (const std::string& name : gone) {
    ++free_slots[pods[name].pool];
    if (pods[name].node != black_hole) nodes.erase(pods[name].node);
    pods.erase(name);
  }
  // Newcomers serve the stage that has fewest.
  std::vector<std::uint64_t> counts(job.job->spec.pipeline.stages);
  std::vector<std::string> newcomers;
  for (const auto& [name, pod] : pods) {
    if (pod.role != PodRole::kWorker || !Runs(pod)) continue;
    for (const std::string& id : names::WorkersOf(pod.name, pod.workers)) {
      const auto stage = stage_of_.find(id);
      if (stage == stage_of_.end()) {
        newcomers.push_back(id);
      } else {
        ++counts[stage->second];
      }
    }
  }
  for (const std::string& id : newcomers) {
    const auto fewest = std::ranges::min_element(counts);
    stage_of_[id] = static_cast<std::uint64_t>(fewest - counts.begin());
    ++*fewest;
  }
}

void FakeCluster::LoseNodeOf(const std::string& pod) {
  lost_at_[pod] = static_cast<double>(now.time_since_epoch().count());
  nodes.erase(pods.at(pod).node);
}

void FakeCluster::End(const std::string& pod, int exit_code, const std::string& reason,
                      const std::string& message) {
  ObservedPod& ended = pods.at(pod);
  ended.phase = exit_code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
  ended.ready = false;
  ended.end =
      ContainerEnd{.exit_code = exit_code, .reason = reason, .message = message, .time = now};
}

void FakeCluster::Taint(const std::string& pod, const std::string& key) {
  nodes.at(pods.at(pod).node).taints.push_back({.key = key, .value = "", .effect = "NoSchedule"});
}

void FakeCluster::DeletePodByAnotherClient(const std::string& pod) {
  pods.at(pod).deleted = now + seconds(30);
}

bool FakeCluster::Settle() {
  for (int round = 0; round < 50; ++round) {
    const Plan plan = Act(leader);
    const auto before = pods;
    RunPods();
    if (plan.write == WriteStatus::kNo && plan.actions.empty() && before == pods) return true;
  }
  return false;
}

void FakeCluster::Live(std::int64_t duration) {
  for (std::int64_t passed = 0; passed < duration; passed += 5) {
    Act(leader);
    RunPods();
    Advance(5);
  }
}

std::vector<std::string> FakeCluster::Workers() const {
  std::vector<std::string> names;
  for (const auto& [name, pod] : pods) {
    if (pod.role == PodRole::kWorker && !pod.end && !pod.deleted) names.push_back(name);
  }
  return names;
}

std::uint64_t FakeCluster::WorkersIn(const std::vector<std::string>& names) const {
  std::uint64_t workers = 0;
  for (const std::string& name : names) workers += pods.at(name).workers;
  return workers;
}

std::vector<std::string> FakeCluster::In(const std::string& pool) const {
  std::vector<std::string> names;
  for (const std::string& name : Workers()) {
    if (pods.at(name).pool == pool) names.push_back(name);
  }
  return names;
}

api::Condition FakeCluster::ConditionOf(api::ConditionType type) const {
  const api::Condition* condition = api::FindCondition(job.status, type);
  return condition == nullptr ? api::Condition() : *condition;
}

bool FakeCluster::Happened(const std::string& reason) const {
  return std::any_of(events.begin(), events.end(),
                     [&](const Event& event) { return NameOf(event.reason) == reason; });
}

bool FakeCluster::Did(const std::string& what) const {
  return std::find(done.begin(), done.end(), what) != done.end();
}

}  // namespace swarm::plan
