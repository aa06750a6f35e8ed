#include "operator/controller/observe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "operator/names/names.h"
#include "operator/objects/read.h"
#include "operator/objects/workload.h"
#include "operator/plan/places.h"

namespace swarm::controller {
namespace {

plan::ObservedJob ObserveJob(const objects::JobView& view, const JobMemory& memory) {
  plan::ObservedJob observed;
  observed.name = view.name;
  observed.uid = view.uid;
  observed.generation = view.generation;
  observed.deleted = view.deleting;
  observed.status = view.status;
  observed.choice = view.choice;
  observed.trainer_part = view.trainer_part;
  observed.replicas_open = view.replicas_open;
  for (const api::FieldError& error : view.errors) observed.refused.push_back(ToString(error));
  if (observed.refused.empty() && memory.judged_generation == view.generation) {
    observed.refused = memory.judgement;
  }
  if (observed.refused.empty()) observed.job = view.job;
  return observed;
}

void Remember(const Snapshot& snapshot, api::WallTime now, plan::ObservedPod* pod,
              JobMemory* memory) {
  const auto [found, is_new] = memory->pods.try_emplace(pod->uid);
  PodMemory& known = found->second;
  if (is_new) known.waiting_since = pod->created;
  if (known.was_gated && !pod->gated) known.waiting_since = now;
  known.was_gated = pod->gated;
  if (known.node_uid.empty() && !pod->node.empty()) {
    const auto node = snapshot.nodes.find(pod->node);
    if (node != snapshot.nodes.end()) known.node_uid = node->second->uid;
  }
  pod->waiting_since = known.waiting_since;
  pod->node_uid = known.node_uid;
}

std::vector<plan::ObservedPod> ObservePods(const objects::JobView& view, const Snapshot& snapshot,
                                           api::WallTime now, JobMemory* memory) {
  std::vector<plan::ObservedPod> pods;
  std::set<std::string> uids;
  std::set<std::pair<plan::PodRole, std::uint64_t>> numbers;
  for (const auto& seen : snapshot.pods) {
    if (seen->controller != view.uid) continue;
    plan::ObservedPod& pod = pods.emplace_back(seen->pod);
    Remember(snapshot, now, &pod, memory);
    uids.insert(pod.uid);
    numbers.emplace(pod.role, pod.number);
    memory->creations.erase({pod.role, pod.number});
  }
  std::erase_if(memory->pods, [&](const auto& known) { return !uids.contains(known.first); });
  std::erase_if(memory->identities, [&](const auto& known) {
    return !numbers.contains(known.first) && !memory->creations.contains(known.first);
  });
  return pods;
}

plan::ObservedQueue ObserveQueue(const objects::JobView& view, const Snapshot& snapshot,
                                 const objects::PodOptions& pods, const JobMemory& memory) {
  plan::ObservedQueue queue{.name = objects::QueueOf(view),
                            .unreadable = snapshot.no_workloads,
                            .refusal = memory.workload_refusal,
                            .prebuilt = objects::IsPrebuilt(view)};
  const kube::Object& object = snapshot.workload;
  if (!object) return queue;
  const bool is_own = kube::IsOwnedBy(*object, view.uid, kube::Ownership::kController);
  if (!is_own && !(queue.prebuilt && !kube::IsOwned(*object))) return queue;
  const auto wanted = objects::BuildWorkload(view, pods, std::nullopt);
  if (!wanted.ok()) queue.refusal = wanted.status().message();
  queue.workload = objects::ReadWorkload(*object, wanted.ok() ? *wanted : *object);
  return queue;
}

}  // namespace

bool HasQueue(const objects::JobView& view) {
  return !objects::QueueOf(view).empty() ||
         api::FindCondition(view.status, api::ConditionType::kAdmitted) != nullptr;
}

plan::Observed Observe(const objects::JobView& view, const Snapshot& snapshot,
                       const Surroundings& surroundings, JobMemory* memory) {
  plan::Observed observed;
  observed.now = api::WholeSeconds(surroundings.now.wall);
  observed.job = ObserveJob(view, *memory);
  observed.pods = ObservePods(view, snapshot, observed.now, memory);
  for (const auto& [name, node] : snapshot.nodes) observed.nodes.emplace(name, *node);
  observed.nodes_known = snapshot.nodes_known;
  if (observed.job.job && HasQueue(view)) {
    observed.queue = ObserveQueue(view, snapshot, surroundings.pods, *memory);
  }
  const auto update = view.annotations.find(names::kUpdateImageAnnotation);
  observed.image = {.name = surroundings.pods.worker_image,
                    .platform = surroundings.pods.worker_platform,
                    .update = update == view.annotations.end() ? "" : update->second};
  for (const api::Pool& pool : view.job.spec.workers.pools) {
    const std::uint64_t workers = objects::WorkersOfPod(view.job.spec, pool);
    if (workers > 1) observed.pod_sizes[pool.name] = workers;
  }
  observed.unreachable_pools = surroundings.unreachable_pools;
  observed.clusters = surroundings.clusters;
  if (surroundings.trainer && surroundings.trainer->status) {
    const Duration ago = surroundings.now.steady - surroundings.trainer->heard;
    observed.trainer = plan::TrainerView{
        *surroundings.trainer->status,
        api::WholeSeconds(surroundings.now.wall -
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(ago))};
  }
  for (const auto& [key, creation] : memory->creations) observed.creations.push_back(creation);
  observed.unseen =
      memory->reservations.Look(view.status, observed.pods, observed.creations, observed.now);
  observed.tenures = memory->tenures.Look(observed);
  plan::AddUnseenPods(&observed);
  observed.refusal = memory->refusal;
  observed.moved = memory->moved;
  observed.status_written = memory->status_written;
  observed.leader_term = surroundings.leader_term;
  return observed;
}

std::string TrainerIp(const objects::JobView& view, const Snapshot& snapshot) {
  const std::string name =
      names::PodName(view.name, names::PodRole::kTrainer, view.status.trainer.term);
  for (const auto& seen : snapshot.pods) {
    if (seen->pod.name != name || seen->controller != view.uid) continue;
    return seen->pod.phase == plan::PodPhase::kRunning ? seen->ip : "";
  }
  return "";
}

}  // namespace swarm::controller
