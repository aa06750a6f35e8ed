#include "operator/controller/reconciler.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/format/enum_names.h"
#include "api/status_json.h"
#include "base/host_port.h"
#include "base/log.h"
#include "operator/controller/informers.h"
#include "operator/names/names.h"
#include "operator/objects/choose.h"
#include "operator/objects/outpost.h"
#include "operator/objects/read.h"
#include "operator/objects/trim.h"
#include "operator/objects/workload.h"
#include "operator/plan/clusters.h"
#include "operator/plan/decide.h"
#include "operator/plan/observed_workers.h"
#include "operator/plan/places.h"

namespace swarm::controller {
namespace {

using nlohmann::json;

/// The return of a satellite alone wakes no job.
constexpr std::chrono::seconds kLookForSatellites{5};

/// Whether the plan must be made from the server's state instead of the caches'. A plan made from
/// caches may only do what is harmless if the caches are old: send orders, which the trainer checks
/// itself, and write a status report, which fails for an old version.
bool NeedsServer(const plan::Plan& plan) {
  if (plan.write == plan::WriteStatus::kFirst) return true;
  return std::any_of(plan.actions.begin(), plan.actions.end(), [](const plan::Action& action) {
    return !std::holds_alternative<plan::DirectTrainer>(action);
  });
}

/// Whether MultiKueue runs the job in another cluster. The operator keeps its Workload here.
bool RunsElsewhere(const objects::JobView& view) {
  return view.job.spec.managedBy == names::kMultiKueue;
}

/// Whether another controller manages the job, or the job is being deleted.
bool IsLeftAlone(const objects::JobView& view) {
  const bool of_another = !view.job.spec.managedBy.empty();
  const bool has_workload = RunsElsewhere(view) && HasQueue(view) && view.errors.empty();
  return view.deleting || (of_another && !has_workload);
}

/// The clusters in which this pod may be.
std::set<std::string> PlacesOf(const objects::JobView& view,
                               const std::pair<plan::PodRole, std::uint64_t>& number,
                               const JobMemory& memory) {
  if (number.first == plan::PodRole::kTrainer) return {""};
  if (const auto place = plan::PlaceOf(view.status, number.second)) return {*place};
  const auto creation = memory.creations.find(number);
  const bool tried = creation != memory.creations.end();
  std::set<std::string> places;
  for (const api::Pool& pool : view.job.spec.workers.pools) {
    if (!tried || pool.name == creation->second.pool) places.insert(pool.cluster);
  }
  // Where the pool is not known, it may be one that the manifest has no longer.
  if (!tried || places.empty()) places.insert("");
  return places;
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
  if (pod.phase == plan::PodPhase::kPending) {
    return pod.node.empty() ? PoolPodPhase::kPending : PoolPodPhase::kStarting;
  }
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
  auto decision = Decide(ReadCaches(job, memory.get()), memory.get());
  if (decision.ok() && !IsLeftAlone(decision->view) &&
      (NeedsServer(decision->plan) || !plan::InDoubt(decision->observed).empty())) {
    auto anew = DecideAnew(name, uid, memory.get());
    if (anew.status().code() == StatusCode::kNotFound) return {};  // the cache follows
    if (anew.status().code() == StatusCode::kUnavailable) TellOfWaiting(&*decision);
    decision = std::move(anew);
  }
  if (!decision.ok()) return {decision.status(), std::nullopt};
  if (IsLeftAlone(decision->view)) {
    parts_.links.Forget(name.ToString());
    return {};
  }
  const bool elsewhere = RunsElsewhere(decision->view);
  elsewhere ? parts_.links.Forget(name.ToString()) : Link(*decision, memory.get());
  Reconciled reconciled{CarryOut(*decision, memory.get()), std::nullopt};
  elsewhere ? TellOfQueue(*decision, memory.get()) : Show(*decision);
  kube::WallTime next = kube::WallTime::max();
  if (decision->plan.look_again) next = ToWall(*decision->plan.look_again);
  // A renewal that is overdue here is of no use: the plan of an active job has taken care of it.
  if (const auto renewal = memory->NextRenewal(decision->now.wall)) next = std::min(next, *renewal);
  if (!decision->observed.unreachable_pools.empty()) {
    next = std::min(next, decision->now.wall + kLookForSatellites);
  }
  if (next != kube::WallTime::max()) {
    reconciled.look_again =
        std::max(std::chrono::duration_cast<Duration>(next - decision->now.wall),
                 Duration(std::chrono::milliseconds(100)));
  }
  return reconciled;
}

void Reconciler::TellOfQueue(const Decision& decision, JobMemory* memory) {
  const auto& queue = decision.observed.queue;
  std::string trouble = queue ? queue->unreadable : "";
  if (trouble.empty()) trouble = memory->workload_refusal;
  if (trouble == std::exchange(memory->queue_trouble, trouble) || trouble.empty()) return;
  parts_.events.Record(kube::ReferenceTo(*decision.snapshot.job), kube::EventType::kWarning,
                       std::string(NameOf(api::Reason::kQueueUnavailable)), "Reconcile",
                       "queue " + queue->name + ": " + trouble);
}

void Reconciler::Forget(const kube::ObjectName& name) {
  parts_.links.Forget(name.ToString());
  parts_.metrics.ForgetJob(name);
  const std::string uid = memories_.Forget(name);
  if (!uid.empty()) parts_.secrets.Forget(uid);
}

Snapshot Reconciler::ReadCaches(kube::Object job, JobMemory* memory) const {
  Snapshot snapshot;
  const kube::ObjectName name = kube::NameOf(*job);
  snapshot.job = std::move(job);
  std::vector<kube::PackedObject> pods =
      parts_.caches.pods.PackedByIndex(kPodsByJob, name.ToString());
  for (const Cluster* cluster : parts_.caches.clusters.All()) {
    std::ranges::move(cluster->informers().pods().PackedByIndex(kPodsByJob, name.ToString()),
                      std::back_inserter(pods));
  }
  snapshot.pods = memory->seen.Read(pods);
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
  Snapshot snapshot = ReadCaches(std::move(job), memory);
  snapshot.fresh = true;
  RETURN_IF_ERROR(AddNodes(memory, &snapshot));
  ASSIGN_OR_RETURN(Decision decision, Decide(std::move(snapshot), memory));
  if (plan::InDoubt(decision.observed).empty()) return decision;
  snapshot = decision.snapshot;
  RETURN_IF_ERROR(AddPods(decision, memory, &snapshot));
  RETURN_IF_ERROR(AddNodes(memory, &snapshot));
  return Decide(std::move(snapshot), memory);
}

std::set<std::string> Reconciler::UnreachablePools(const objects::JobView& view) const {
  std::set<std::string> pools;
  for (const api::Pool& pool : view.job.spec.workers.pools) {
    if (!IsReachable(pool.cluster)) pools.insert(pool.name);
  }
  return pools;
}

bool Reconciler::IsReachable(const std::string& cluster) const {
  if (cluster.empty()) return true;
  const Cluster* const other = parts_.caches.clusters.Find(cluster);
  return other != nullptr && other->reachable();
}

std::map<std::string, plan::ObservedCluster> Reconciler::LookAtClusters(
    const objects::JobView& view, const Snapshot& snapshot, const Now& now) const {
  std::set<std::string> names = objects::ClustersOf(view.job.spec);
  for (const auto& seen : snapshot.pods) names.insert(seen->pod.cluster);
  names.erase("");
  std::map<std::string, plan::ObservedCluster> clusters;
  for (const std::string& name : names) {
    const ClusterLook look = parts_.caches.clusters.Look(name, now.steady);
    const auto ago =
        std::chrono::duration_cast<std::chrono::system_clock::duration>(now.steady - look.since);
    clusters[name] = {look.reachable, api::WholeSeconds(now.wall - ago)};
  }
  return clusters;
}

Result<std::shared_ptr<const SeenPod>> Reconciler::FindPod(
    const kube::ObjectName& name, const std::set<std::string>& clusters) const {
  for (const std::string& cluster : clusters) {
    Cluster* const other = cluster.empty() ? nullptr : parts_.caches.clusters.Find(cluster);
    if (!cluster.empty() && other == nullptr) {
      return Unavailable("not known whether pod " + name.ToString() +
                         " exists: the satellite of cluster " + cluster + " has not come");
    }
    kube::Client& client = other == nullptr ? parts_.client : other->client();
    const auto pod = client.Get(kube::resources::Pods(), name);
    if (pod.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(pod.status());
    json trimmed = **pod;
    objects::TrimPod(trimmed);
    if (other != nullptr) objects::LocalizePod(cluster, &trimmed);
    return SeePod(trimmed);
  }
  return std::shared_ptr<const SeenPod>();
}

std::shared_ptr<const plan::ObservedNode> Reconciler::FindNode(const std::string& name) const {
  const std::string cluster = objects::ParseNode(name).cluster;
  if (cluster.empty()) return parts_.caches.nodes->Find(name);
  Cluster* const other = parts_.caches.clusters.Find(cluster);
  const SeenNodes* const nodes = other == nullptr ? nullptr : other->informers().nodes();
  return nodes == nullptr ? nullptr : nodes->Find(name);
}

/// Asks the servers for the pods that the caches lack and that may exist. Those of a cluster that
/// cannot be reached now stay in doubt.
Status Reconciler::AddPods(const Decision& decision, JobMemory* memory, Snapshot* snapshot) const {
  const kube::ObjectName job = kube::NameOf(*snapshot->job);
  for (const auto& [role, number] : plan::InDoubt(decision.observed)) {
    const auto creation = memory->creations.find({role, number});
    const bool tried = creation != memory->creations.end();
    const std::set<std::string> clusters = PlacesOf(decision.view, {role, number}, *memory);
    if (clusters.size() == 1 && !IsReachable(*clusters.begin())) continue;
    ASSIGN_OR_RETURN(std::shared_ptr<const SeenPod> pod,
                     FindPod({job.ns, names::PodName(job.name, role, number)}, clusters));
    if (pod) {
      LOG_WARN("{}: the cache of pods is behind: it lacks {}, which exists", job.ToString(),
               pod->pod.name);
      snapshot->pods.push_back(std::move(pod));
    } else if (tried && creation->second.made) {
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
  for (const auto& pod : snapshot->pods) {
    const std::string& name = pod->pod.node;
    if (name.empty() || !seen.insert(name).second) continue;
    auto node = FindNode(name);
    if (!node && memory && !memory->KnewNodeOf(pod->pod.uid)) {
      const objects::NodeAt at = objects::ParseNode(name);
      Cluster* const other = parts_.caches.clusters.Find(at.cluster);
      kube::Client& client = other == nullptr ? parts_.client : other->client();
      auto read = client.Get(kube::resources::Nodes(), {"", at.name});
      if (!read.ok() && read.status().code() != StatusCode::kNotFound) return read.status();
      if (read.ok()) {
        node = std::make_shared<const plan::ObservedNode>(objects::ReadNode(**read));
      }
    }
    if (node) snapshot->nodes.emplace(name, std::move(node));
  }
  return Status();
}

/// Reads the Workload of a job with a queue, from where the job was read.
Status Reconciler::AddWorkload(const objects::JobView& view, Snapshot* snapshot) const {
  if (!HasQueue(view) || IsLeftAlone(view)) return Status();
  const auto all = parts_.workloads.Open();
  if (Workloads::IsMissing(all.status())) {
    snapshot->no_workloads = all.status().message();
    return Status();
  }
  RETURN_IF_ERROR(all.status());
  const kube::ObjectName name{view.ns, objects::WorkloadNameOf(view)};
  if (!snapshot->fresh) {
    snapshot->workload = (*all)->Get(name);
    return Status();
  }
  auto workload = parts_.client.Get(kube::resources::Workloads(), name);
  if (Workloads::IsMissing(workload.status())) {
    // This one is, or all are.
    const Status seen = parts_.workloads.CanRead();
    if (Workloads::IsMissing(seen)) {
      snapshot->no_workloads = seen.message();
      return Status();
    }
    RETURN_IF_ERROR(seen);
    if (workload.status().code() == StatusCode::kNotFound) return Status();
  }
  RETURN_IF_ERROR(workload.status());
  snapshot->workload = *std::move(workload);
  return Status();
}

/// Asks where the queue puts the pods that the plan creates.
Status Reconciler::Place(Decision* decision) const {
  const bool creates = std::ranges::any_of(decision->plan.actions, [](const plan::Action& action) {
    return std::holds_alternative<plan::CreateTrainer>(action) ||
           std::holds_alternative<plan::CreateWorker>(action);
  });
  if (!creates || !decision->snapshot.workload) return Status();
  std::map<std::string, kube::Object> read;
  for (const auto& [pod_set, flavors] : objects::FlavorsOf(*decision->snapshot.workload)) {
    for (const std::string& flavor : flavors) {
      kube::Object& object = read[flavor];
      if (!object) {
        ASSIGN_OR_RETURN(object,
                         parts_.client.Get(kube::resources::ResourceFlavors(), {"", flavor}));
      }
      objects::AddFlavor(*object, &decision->view.placements[pod_set]);
    }
  }
  return Status();
}

Result<Reconciler::Decision> Reconciler::Decide(Snapshot snapshot, JobMemory* memory) {
  Decision decision;
  decision.now = clocks_();
  ASSIGN_OR_RETURN(decision.view, objects::ReadJob(*snapshot.job));
  Choose(*snapshot.job, &decision.view, memory);
  RETURN_IF_ERROR(Judge(decision.view, memory));
  RETURN_IF_ERROR(AddWorkload(decision.view, &snapshot));
  decision.observed = Observe(
      decision.view, snapshot,
      {decision.now, leader_term_, parts_.links.View(kube::NameOf(*snapshot.job).ToString()),
       parts_.actor.pod_options(), UnreachablePools(decision.view),
       LookAtClusters(decision.view, snapshot, decision.now)},
      memory);
  decision.snapshot = std::move(snapshot);
  if (decision.observed.job.job) {
    decision.observed.children = parts_.actor.GoodChildren(ActingFor(decision, memory));
  }
  decision.plan = plan::Decide(decision.observed);
  return decision;
}

Acting Reconciler::ActingFor(const Decision& decision, JobMemory* memory) const {
  return {decision.view, decision.observed.pods,
          leader_term_,  decision.now.wall,
          memory,        TrainerIp(decision.view, decision.snapshot)};
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
  const std::string ip = TrainerIp(decision.view, decision.snapshot);
  if (ip.empty()) return parts_.links.Forget(key);
  const auto held = parts_.actor.HoldAuthority(ActingFor(decision, memory));
  const std::string trouble = held.ok() ? "" : held.status().ToString();
  if (trouble != std::exchange(memory->identity_trouble, trouble) && !trouble.empty()) {
    LOG_WARN("{}: no certificate for talking to its trainer: {}", key, trouble);
  }
  if (!held.ok()) return;
  parts_.links.Want(
      key, {decision.view.uid, ToString(HostPort{ip, names::kWirePort}), held->ca, held->self});
}

Status Reconciler::CarryOut(Decision& decision, JobMemory* memory) {
  const plan::Plan& plan = decision.plan;
  RETURN_IF_ERROR(Place(&decision));
  if (plan.write == plan::WriteStatus::kFirst) RETURN_IF_ERROR(Write(decision, memory));
  if (plan.write != plan::WriteStatus::kNo) decision.view.status = plan.status;
  Status done = parts_.actor.Do(ActingFor(decision, memory), plan.actions);
  if (plan.write == plan::WriteStatus::kLast) {
    Status written = Write(decision, memory);
    if (done.ok()) done = std::move(written);
  }
  return done;
}

Result<bool> Reconciler::WriteStatus(const Decision& decision) {
  const plan::Plan& plan = decision.plan;
  json object = *decision.snapshot.job;
  json status = api::StatusToJson(plan.status);
  if (object.value("status", json()) == status) return false;
  object["status"] = std::move(status);
  const auto written =
      parts_.client.Update(kube::resources::SwarmJobs(), object, {.subresource = "status"});
  RETURN_IF_ERROR(written.status());
  parts_.metrics.StatusWritten();
  const kube::ObjectReference job = kube::ReferenceTo(**written);
  for (const plan::Event& event : plan.events) {
    parts_.events.Record(job, event.warning ? kube::EventType::kWarning : kube::EventType::kNormal,
                         std::string(NameOf(event.reason)), "Reconcile", event.message);
  }
  return true;
}

Status Reconciler::Write(const Decision& decision, JobMemory* memory) {
  const plan::Plan& plan = decision.plan;
  ASSIGN_OR_RETURN(const bool written, WriteStatus(decision));
  if (!written) return Status();
  memory->status_written = decision.observed.now;
  memory->tenures.Counted();
  const std::vector<std::uint64_t>& open = plan.status.openWorkers;
  const auto is_over = [&](const auto& each) {
    const auto& [role, number] = each.first;
    return role == plan::PodRole::kTrainer ? number < plan.status.trainer.term
                                           : !std::binary_search(open.begin(), open.end(), number);
  };
  std::erase_if(memory->creations, is_over);
  JobCounters ends;
  for (const plan::PodEnd& end : plan.ends) ++ends.pod_ends[{end.role, end.cause}];
  parts_.metrics.Count(kube::NameOf(*decision.snapshot.job), ends);
  return Status();
}

void Reconciler::TellOfWaiting(Decision* decision) {
  const bool knows_all = std::ranges::all_of(
      decision->observed.clusters, [](const auto& each) { return each.second.reachable; });
  if (knows_all || !decision->observed.job.job) return;
  decision->plan = plan::WaitForClusters(decision->observed);
  if (decision->plan.write != plan::WriteStatus::kNo) {
    const auto written = WriteStatus(*decision);
    // The caller's error lets it be tried again.
    if (!written.ok()) LOG_DEBUG("{}", written.status().ToString());
  }
  Show(*decision);
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
  gauges.dollars = status.cost.dollars;
  gauges.dollars_per_hour = status.cost.dollarsPerHour;
  gauges.traffic_dollars_per_hour = status.cost.trafficDollarsPerHour;
  if (const auto& budget = decision.view.job.spec.budget) gauges.budget = budget->dollars;
  for (const auto& [type, name] : EnumNames<api::ConditionType>::kNames) {
    const bool of_all =
        type != api::ConditionType::kAdmitted && type != api::ConditionType::kClustersConnected;
    if (of_all || FindCondition(status, type) != nullptr) {
      gauges.conditions[type] = IsTrue(status, type);
    }
  }
  const kube::ObjectName name = kube::NameOf(*decision.snapshot.job);
  if (const auto view = parts_.links.View(name.ToString())) {
    gauges.has_trainer = true;
    gauges.trainer_heard = view->status ? view->heard : view->wanted_since;
  }
  parts_.metrics.SetJob(name, std::move(gauges));
}

}  // namespace swarm::controller
