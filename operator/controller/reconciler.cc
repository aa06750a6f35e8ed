#include "operator/controller/reconciler.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/format/enum_names.h"
#include "api/status_json.h"
#include "base/log.h"
#include "operator/controller/informers.h"
#include "operator/names/names.h"
#include "operator/objects/choose.h"
#include "operator/objects/read.h"
#include "operator/objects/trim.h"
#include "operator/plan/decide.h"
#include "operator/plan/observed_workers.h"

namespace swarm::controller {
namespace {

using nlohmann::json;

/// Whether the plan must be made from the server's state instead of the caches'. A plan made from
/// caches may only do what is harmless if the caches are old: send orders, which the trainer checks
/// itself, and write a status report, which fails for an old version.
bool NeedsServer(const plan::Plan& plan) {
  if (plan.write == plan::WriteStatus::kFirst) return true;
  return std::any_of(plan.actions.begin(), plan.actions.end(), [](const plan::Action& action) {
    return !std::holds_alternative<plan::DirectTrainer>(action);
  });
}

/// Whether another controller manages the job, or the job is being deleted.
bool IsLeftAlone(const objects::JobView& view) {
  return view.deleting || !view.job.spec.managedBy.empty();
}

kube::WallTime ToWall(api::WallTime time) { return kube::WallTime(time); }

/// Whether the job should have workers now.
bool WantsWorkers(api::JobState state) {
  return state != api::JobState::kSuspending && state != api::JobState::kSuspended &&
         state != api::JobState::kSucceeded && state != api::JobState::kFailed;
}

/// The phase in the metrics; none: the pod is not counted there.
std::optional<PoolPodPhase> PhaseOf(const plan::ObservedPod& pod) {
  if (pod.deleted) return PoolPodPhase::kTerminating;
  if (pod.phase == plan::PodPhase::kPending) return PoolPodPhase::kPending;
  if (pod.phase == plan::PodPhase::kRunning) return PoolPodPhase::kRunning;
  return std::nullopt;
}

}  // namespace

Reconciled Reconciler::Reconcile(const kube::ObjectName& name) {
  const kube::Object job = parts_.caches.jobs.Get(name);
  if (!job) {
    Forget(name);
    return {};
  }
  const std::string uid = kube::UidOf(*job);
  const std::shared_ptr<JobMemory> memory = memories_.Of(name, uid);
  auto decision = Decide(ReadCaches(job), memory.get());
  if (decision.ok() && !IsLeftAlone(decision->view) &&
      (NeedsServer(decision->plan) || !plan::InDoubt(decision->observed).empty())) {
    decision = DecideAnew(name, uid, memory.get());
    if (decision.status().code() == StatusCode::kNotFound) return {};  // the cache follows
  }
  if (!decision.ok()) return {decision.status(), std::nullopt};
  if (IsLeftAlone(decision->view)) {
    parts_.links.Forget(name.ToString());
    return {};
  }
  Link(*decision, memory.get());
  Reconciled reconciled{CarryOut(*decision, memory.get()), std::nullopt};
  Show(*decision);
  kube::WallTime next = kube::WallTime::max();
  if (decision->plan.look_again) next = ToWall(*decision->plan.look_again);
  // A renewal that is overdue here is of no use: the plan of an active job has taken care of it.
  if (const auto renewal = memory->NextRenewal(decision->now.wall)) next = std::min(next, *renewal);
  if (next != kube::WallTime::max()) {
    reconciled.look_again =
        std::max(std::chrono::duration_cast<Duration>(next - decision->now.wall),
                 Duration(std::chrono::milliseconds(100)));
  }
  return reconciled;
}

void Reconciler::Forget(const kube::ObjectName& name) {
  parts_.links.Forget(name.ToString());
  parts_.metrics.ForgetJob(name);
  const std::string uid = memories_.Forget(name);
  if (!uid.empty()) parts_.secrets.Forget(uid);
}

Snapshot Reconciler::ReadCaches(kube::Object job) const {
  Snapshot snapshot;
  const kube::ObjectName name = kube::NameOf(*job);
  snapshot.job = std::move(job);
  snapshot.pods = parts_.caches.pods.ByIndex(kPodsByJob, name.ToString());
  (void)AddNodes(/*memory=*/nullptr, &snapshot);
  return snapshot;
}

Result<Reconciler::Decision> Reconciler::DecideAnew(const kube::ObjectName& name,
                                                    const std::string& uid, JobMemory* memory) {
  ASSIGN_OR_RETURN(kube::Object job, parts_.client.Get(kube::resources::SwarmJobs(), name));
  if (kube::UidOf(*job) != uid) {
    return Status(StatusCode::kAborted,
                  "SwarmJob " + name.ToString() + " was deleted and made anew");
  }
  Snapshot snapshot = ReadCaches(std::move(job));
  RETURN_IF_ERROR(AddNodes(memory, &snapshot));
  ASSIGN_OR_RETURN(Decision decision, Decide(std::move(snapshot), memory));
  if (plan::InDoubt(decision.observed).empty()) return decision;
  snapshot = std::move(decision.snapshot);
  RETURN_IF_ERROR(AddPods(decision.observed, memory, &snapshot));
  RETURN_IF_ERROR(AddNodes(memory, &snapshot));
  return Decide(std::move(snapshot), memory);
}

/// Asks the server for the pods that the cache lacks and that may exist.
Status Reconciler::AddPods(const plan::Observed& observed, JobMemory* memory,
                           Snapshot* snapshot) const {
  const kube::ObjectName job = kube::NameOf(*snapshot->job);
  for (const auto& [role, number] : plan::InDoubt(observed)) {
    auto pod = parts_.client.Get(kube::resources::Pods(),
                                 {job.ns, names::PodName(job.name, role, number)});
    if (pod.ok()) {
      LOG_WARN("{}: the cache of pods is behind: it lacks {}, which exists", job.ToString(),
               kube::NameOf(**pod).name);
      json trimmed = **pod;
      objects::TrimPod(trimmed);
      snapshot->pods.push_back(std::make_shared<const json>(std::move(trimmed)));
      continue;
    }
    if (pod.status().code() != StatusCode::kNotFound) return pod.status();
    const auto creation = memory->creations.find({role, number});
    if (creation != memory->creations.end() && creation->second.made) {
      memory->creations.erase(creation);  // it has come and gone
    }
  }
  return Status();
}

/// With `memory`, asks the server for nodes that the cache lacks, because a new node must not be
/// taken for one that is gone. A node that was in the cache when the operator first saw a pod on it
/// is not new, so it is not asked for.
Status Reconciler::AddNodes(const JobMemory* memory, Snapshot* snapshot) const {
  snapshot->nodes_known = parts_.caches.nodes != nullptr;
  if (!snapshot->nodes_known) return Status();
  std::set<std::string> seen;
  for (const kube::Object& pod : snapshot->pods) {
    const std::string name = kube::TextAt(*pod, "/spec/nodeName");
    if (name.empty() || !seen.insert(name).second) continue;
    kube::Object node = parts_.caches.nodes->Get({"", name});
    if (!node && memory && !memory->KnewNodeOf(kube::UidOf(*pod))) {
      auto read = parts_.client.Get(kube::resources::Nodes(), {"", name});
      if (!read.ok() && read.status().code() != StatusCode::kNotFound) return read.status();
      if (read.ok()) node = *std::move(read);
    }
    if (node) snapshot->nodes.emplace(name, std::move(node));
  }
  return Status();
}

Result<Reconciler::Decision> Reconciler::Decide(Snapshot snapshot, JobMemory* memory) {
  Decision decision;
  decision.now = clocks_();
  ASSIGN_OR_RETURN(decision.view, objects::ReadJob(*snapshot.job));
  Choose(*snapshot.job, &decision.view, memory);
  RETURN_IF_ERROR(Judge(decision.view, memory));
  decision.observed = Observe(
      decision.view, snapshot,
      {decision.now, leader_term_, parts_.links.View(kube::NameOf(*snapshot.job).ToString()),
       parts_.actor.pod_options()},
      memory);
  decision.snapshot = std::move(snapshot);
  if (decision.observed.job.job) {
    decision.observed.children = parts_.actor.GoodChildren(ActingFor(decision, memory));
  }
  decision.plan = plan::Decide(decision.observed);
  return decision;
}

Acting Reconciler::ActingFor(const Decision& decision, JobMemory* memory) const {
  return {decision.view, decision.observed.pods, leader_term_, decision.now.wall, memory};
}

/// Lets the planner choose what the job leaves open and its status does not have, once for each
/// generation.
void Reconciler::Choose(const json& job, objects::JobView* view, JobMemory* memory) {
  if (!view->open || IsLeftAlone(*view)) return;
  if (!memory->chosen || memory->chosen_generation != view->generation) {
    memory->chosen = objects::ChoosePlan(*view);
    memory->chosen_generation = view->generation;
  }
  if (!memory->chosen->ok()) {
    view->errors = memory->chosen->errors();
    return;
  }
  objects::TakeChoice(job, **memory->chosen, view);
}

Status Reconciler::Judge(const objects::JobView& view, JobMemory* memory) {
  if (!view.errors.empty() || IsLeftAlone(view) || memory->judged_generation == view.generation) {
    return Status();
  }
  const api::Condition* accepted = FindCondition(view.status, api::ConditionType::kAccepted);
  if (accepted && accepted->status == api::ConditionStatus::kTrue &&
      accepted->observedGeneration == view.generation) {
    return Status();  // an earlier operator has asked the server
  }
  ASSIGN_OR_RETURN(memory->judgement, parts_.actor.Judge(view));
  memory->judged_generation = view.generation;
  return Status();
}

void Reconciler::Link(const Decision& decision, JobMemory* memory) {
  const std::string key = kube::NameOf(*decision.snapshot.job).ToString();
  const std::string dial = TrainerDial(decision.view, decision.snapshot);
  if (dial.empty()) return parts_.links.Forget(key);
  const auto held = parts_.actor.HoldAuthority(ActingFor(decision, memory));
  const std::string trouble = held.ok() ? "" : held.status().ToString();
  if (trouble != std::exchange(memory->identity_trouble, trouble) && !trouble.empty()) {
    LOG_WARN("{}: no certificate for talking to its trainer: {}", key, trouble);
  }
  if (!held.ok()) return;
  parts_.links.Want(key, {decision.view.uid, dial, held->ca, held->self});
}

Status Reconciler::CarryOut(Decision& decision, JobMemory* memory) {
  const plan::Plan& plan = decision.plan;
  if (plan.write == plan::WriteStatus::kFirst) RETURN_IF_ERROR(Write(decision, memory));
  if (plan.write != plan::WriteStatus::kNo) decision.view.status = plan.status;
  Status done = parts_.actor.Do(ActingFor(decision, memory), plan.actions);
  if (plan.write == plan::WriteStatus::kLast) {
    Status written = Write(decision, memory);
    if (done.ok()) done = std::move(written);
  }
  return done;
}

Status Reconciler::Write(const Decision& decision, JobMemory* memory) {
  const plan::Plan& plan = decision.plan;
  json object = *decision.snapshot.job;
  json status = api::StatusToJson(plan.status);
  if (object.value("status", json()) == status) return Status();
  object["status"] = std::move(status);
  const auto written =
      parts_.client.Update(kube::resources::SwarmJobs(), object, {.subresource = "status"});
  RETURN_IF_ERROR(written.status());
  parts_.metrics.StatusWritten();
  memory->status_written = decision.observed.now;
  const std::vector<std::uint64_t>& open = plan.status.openWorkers;
  std::erase_if(memory->creations, [&](const auto& each) {
    const auto& [role, number] = each.first;
    return role == plan::PodRole::kTrainer ? number < plan.status.trainer.term
                                           : !std::binary_search(open.begin(), open.end(), number);
  });
  JobCounters ends;
  for (const plan::PodEnd& end : plan.ends) ++ends.pod_ends[{end.role, end.cause}];
  parts_.metrics.Count(kube::NameOf(*decision.snapshot.job), ends);
  const kube::ObjectReference job = kube::ReferenceTo(**written);
  for (const plan::Event& event : plan.events) {
    parts_.events.Record(job, event.warning ? kube::EventType::kWarning : kube::EventType::kNormal,
                         std::string(NameOf(event.reason)), "Reconcile", event.message);
  }
  return Status();
}

void Reconciler::Show(const Decision& decision) {
  const api::SwarmJobStatus& status = decision.plan.status;
  JobGauges gauges;
  gauges.state = status.state;
  gauges.workers_desired = WantsWorkers(status.state) ? status.plan.replicas : 0;
  gauges.workers_ready = status.readyReplicas;
  for (const plan::ObservedPod& pod : decision.observed.pods) {
    const std::optional<PoolPodPhase> phase = PhaseOf(pod);
    if (phase && pod.role == plan::PodRole::kWorker) ++gauges.pool_pods[{pod.pool, *phase}];
  }
  for (const api::Pool& pool : decision.view.job.spec.workers.pools) {
    gauges.pools.push_back(pool.name);
  }
  if (WantsWorkers(status.state)) {
    gauges.avoided_nodes = static_cast<std::uint64_t>(
        std::ranges::count(status.nodes, true, &api::NodeStatus::avoided));
  }
  for (const auto& [type, name] : EnumNames<api::ConditionType>::kNames) {
    gauges.conditions[type] = IsTrue(status, type);
  }
  const kube::ObjectName name = kube::NameOf(*decision.snapshot.job);
  if (const auto view = parts_.links.View(name.ToString())) {
    gauges.has_trainer = true;
    gauges.trainer_heard = view->status ? view->heard : view->wanted_since;
  }
  parts_.metrics.SetJob(name, std::move(gauges));
}

}  // namespace swarm::controller
