#include "operator/controller/actor.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "operator/names/names.h"
#include "operator/objects/outpost.h"
#include "operator/objects/workload.h"

namespace swarm::controller {
namespace {

using nlohmann::json;

/// After this time a child is read again, because another client may have changed or deleted it.
constexpr std::chrono::hours kChildTrusted{1};

/// How many pods of a job are created, or deleted, at the same time.
constexpr std::size_t kBatchMax = 16;

/// Whether the server refused a creation, rather than failed to answer.
bool IsRefusal(StatusCode code) {
  return code == StatusCode::kResourceExhausted || code == StatusCode::kInvalidArgument ||
         code == StatusCode::kPermissionDenied || code == StatusCode::kFailedPrecondition;
}

/// The child as an object; null for the Secrets, which JobSecrets keeps, and for outposts.
json BuildChild(const objects::JobView& view, plan::Child child) {
  switch (child) {
    case plan::Child::kConfig:
      return objects::BuildConfigMap(view);
    case plan::Child::kTrainerService:
      return objects::BuildTrainerService(view, view.status.trainer.term);
    case plan::Child::kWorkersService:
      return objects::BuildWorkersService(view);
    case plan::Child::kBudget:
      return objects::BuildDisruptionBudget(view);
    case plan::Child::kNetworkPolicy:
      return objects::BuildNetworkPolicy(view);
    case plan::Child::kAuthority:
    case plan::Child::kIdentities:
    case plan::Child::kOutposts:
      break;
  }
  return json();
}

kube::Resource ResourceOf(const json& object) {
  for (const auto& [kind, resource] :
       {std::pair("ConfigMap", kube::resources::ConfigMaps()),
        std::pair("Service", kube::resources::Services()),
        std::pair("PodDisruptionBudget", kube::resources::PodDisruptionBudgets()),
        std::pair("NetworkPolicy", kube::resources::NetworkPolicies()),
        std::pair("EndpointSlice", kube::resources::EndpointSlices())}) {
    if (object["kind"] == kind) return resource;
  }
  SWARM_CHECK(false, "the operator applies no " + object.dump());
}

bool IsSecret(plan::Child child) {
  return child == plan::Child::kAuthority || child == plan::Child::kIdentities;
}

/// Whether the pod needs a certificate, and may have none that is good.
bool LacksIdentity(const Acting& acting, const plan::ObservedPod& pod) {
  const auto known = acting.memory->identities.find({pod.role, pod.number});
  return NeedsIdentity(pod) &&
         (known == acting.memory->identities.end() || acting.now >= known->second);
}

SecretOfPairs OwnSecret(const Acting& acting, const plan::ObservedPod& pod) {
  return {objects::BuildIdentitySecret(acting.view, pod.name, pod.uid),
          {{kOwnPair, IdentityOf(acting.view.uid, pod)}}};
}

/// Remembers that the server refuses the creation of pods.
void Refuse(const Acting& acting, const Status& status) {
  std::optional<plan::Refusal>& refusal = acting.memory->refusal;
  const std::uint64_t attempts = refusal ? refusal->attempts + 1 : 1;
  refusal = {api::WholeSeconds(acting.now), attempts, status.code(), status.message()};
}

/// Adds a hash of the object. So the object differs from the one in the cluster also if the
/// operator no longer wants some field of it.
json Marked(json object) {
  const std::string mark = std::to_string(std::hash<json>()(object));
  object["metadata"]["annotations"][names::kAppliedAnnotation] = mark;
  return object;
}

/// Whether the object in the cluster has everything that is wanted. The server adds fields of its
/// own, but no items to lists.
bool Has(const json& actual, const json& wanted) {
  if (wanted.is_object() && actual.is_object()) {
    for (const auto& [key, value] : wanted.items()) {
      const auto found = actual.find(key);
      if (found == actual.end() || !Has(*found, value)) return false;
    }
    return true;
  }
  if (wanted.is_array() && actual.is_array()) {
    return std::equal(actual.begin(), actual.end(), wanted.begin(), wanted.end(), Has);
  }
  return actual == wanted;
}

/// Whether the object belongs to the job, as objects of the cluster say it.
bool BelongsTo(const json& object, const Acting& acting, const std::string& cluster) {
  return cluster.empty() ? kube::IsOwnedBy(object, acting.view.uid)
                         : kube::LabelOf(object, names::kJobUidLabel) == acting.view.uid;
}

Status Foreign(const std::string& what, const kube::ObjectName& name, const std::string& cluster) {
  return FailedPrecondition(what + " " + name.ToString() +
                            (cluster.empty() ? "" : " of cluster " + cluster) +
                            " exists and does not belong to this SwarmJob; delete or rename it");
}

/// The cluster of a pool; empty: the job's own.
std::string ClusterOf(const Acting& acting, const std::string& pool) {
  for (const api::Pool& each : acting.view.job.spec.workers.pools) {
    if (each.name == pool) return each.cluster;
  }
  return "";
}

/// Makes sure that the object is in the cluster as it is wanted, and returns it.
Result<kube::Object> ApplyObject(kube::Client& client, const Acting& acting,
                                 const std::string& cluster, const json& object) {
  const kube::Resource resource = ResourceOf(object);
  const kube::ObjectName name = kube::NameOf(object);
  auto there = client.Get(resource, name);
  if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  if (there.ok() && !BelongsTo(**there, acting, cluster)) {
    return Foreign(resource.plural, name, cluster);
  }
  const json marked = Marked(object);
  if (there.ok() && Has(**there, marked)) return there;
  return client.Apply(resource, marked);
}

/// The pod that the action creates, if it creates one.
std::optional<plan::Creation> CreationOf(const plan::Action& action) {
  if (const auto* trainer = std::get_if<plan::CreateTrainer>(&action)) {
    return plan::Creation{.role = plan::PodRole::kTrainer, .number = trainer->term};
  }
  if (const auto* worker = std::get_if<plan::CreateWorker>(&action)) {
    return plan::Creation{.number = worker->ordinal, .pool = worker->pool};
  }
  return std::nullopt;
}

/// Remembers that none of these pods exists: the operator did not try to create them.
void RememberUntried(const std::vector<plan::Action>& actions, JobMemory* memory) {
  for (const plan::Action& action : actions) {
    auto creation = CreationOf(action);
    if (!creation) continue;
    creation->refused = true;
    memory->creations.try_emplace({creation->role, creation->number}, *creation);
  }
}

void Keep(Status status, Status* first) {
  if (first->ok()) *first = std::move(status);
}

/// Calls `act` with the numbers below `count`, all at the same time, in threads of this name and in
/// the caller's. Returns what they return; an exception is an error, too.
std::vector<Status> AtOnce(const char* thread, std::size_t count,
                           const std::function<Status(std::size_t)>& act) {
  std::vector<Status> done(count);
  const auto call = [&](std::size_t i) {
    try {
      done[i] = act(i);
    } catch (const std::exception& error) {
      done[i] = Internal(std::string("exception: ") + error.what());
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < count; ++i) {
    others.emplace_back([&, i] {
      pthread_setname_np(pthread_self(), thread);
      call(i);
    });
  }
  if (count > 0) call(0);
  others.clear();  // waits for them
  return done;
}

}  // namespace

Status Actor::Do(const Acting& acting, const std::vector<plan::Action>& actions) {
  Status first;
  bool may_create = true;
  std::vector<const plan::Action*> creations;
  std::vector<const plan::DeletePod*> deletions;  // one after the other in the list
  if (std::any_of(actions.begin(), actions.end(), CreationOf)) {
    // A pod without its certificate would hang in ContainerCreating.
    const auto held = HoldAuthority(acting);
    may_create = held.ok();
    if (!may_create) {
      RememberUntried(actions, acting.memory);
      IsRefusal(held.status().code()) ? Refuse(acting, held.status()) : Keep(held.status(), &first);
    }
  }
  for (const plan::Action& action : actions) {
    if (const auto* gone = std::get_if<plan::DeletePod>(&action)) {
      deletions.push_back(gone);
      continue;
    }
    Keep(DeleteAll(acting, std::exchange(deletions, {})), &first);
    if (const auto* apply = std::get_if<plan::ApplyChild>(&action)) {
      Keep(Apply(acting, apply->child), &first);
    } else if (CreationOf(action)) {
      if (may_create) creations.push_back(&action);
    } else if (const auto* direct = std::get_if<plan::DirectTrainer>(&action)) {
      Direct(acting, *direct);
    } else if (const auto* write = std::get_if<plan::WriteReplicas>(&action)) {
      Keep(WriteReplicas(acting, write->replicas), &first);
    } else if (std::holds_alternative<plan::WriteWorkload>(action)) {
      Keep(WriteWorkload(acting), &first);
    } else if (const auto* old = std::get_if<plan::DeleteWorkload>(&action)) {
      Keep(DeleteWorkload(acting, *old), &first);
    } else if (const auto* news = std::get_if<plan::TellQueue>(&action)) {
      Keep(TellQueue(acting, *news), &first);
    } else {
      Keep(client_.Delete(kube::resources::SwarmJobs(), acting.name(), {.uid = acting.view.uid}),
           &first);
    }
  }
  Keep(DeleteAll(acting, deletions), &first);
  Keep(CreateAll(acting, creations), &first);
  return first;
}

// Through the subresource: the right to write it is none to change the rest of a manifest.
Status Actor::WriteReplicas(const Acting& acting, std::uint64_t replicas) {
  return client_
      .Patch(kube::resources::SwarmJobs(), acting.name(), kube::PatchType::kMerge,
             {{"metadata", {{"resourceVersion", acting.view.resource_version}}},
              {"spec", {{"replicas", replicas}}}},
             {.subresource = "scale"})
      .status();
}

Status Actor::WriteWorkload(const Acting& acting) {
  const Status status = TryWriteWorkload(acting);
  const bool refused = IsRefusal(status.code()) || status.code() == StatusCode::kNotFound;
  acting.memory->workload_refusal = refused ? status.message() : "";
  return refused ? Status() : status;
}

Status Actor::TryWriteWorkload(const Acting& acting) {
  std::optional<std::int64_t> priority;
  if (const std::string name = objects::QueuePriorityOf(acting.view); !name.empty()) {
    const auto read = client_.Get(kube::resources::WorkloadPriorityClasses(), {"", name});
    if (!read.ok()) return read.status().WithContext("WorkloadPriorityClass " + name);
    const json& value = **read;
    if (value.contains("value") && value["value"].is_number_integer())
      priority = value["value"].get<std::int64_t>();
  }
  ASSIGN_OR_RETURN(const json wanted, objects::BuildWorkload(acting.view, pod_options_, priority));
  const kube::ObjectName name = kube::NameOf(wanted);
  const auto there = client_.Get(kube::resources::Workloads(), name);
  if (there.status().code() == StatusCode::kNotFound) {
    const Status made = client_.Create(kube::resources::Workloads(), wanted).status();
    // An earlier try has made it; the next decision sees it.
    return made.code() == StatusCode::kAlreadyExists ? Status() : made;
  }
  RETURN_IF_ERROR(there.status());
  if (!kube::IsOwnedBy(**there, acting.view.uid)) {
    return FailedPrecondition("Workload " + name.ToString() +
                              " exists and does not belong to this SwarmJob; delete it");
  }
  json changed = **there;
  objects::UpdateWorkload(wanted, &changed);
  return client_.Update(kube::resources::Workloads(), changed).status();
}

Status Actor::DeleteWorkload(const Acting& acting, const plan::DeleteWorkload& action) {
  const Status status =
      client_.Delete(kube::resources::Workloads(),
                     {acting.view.ns, objects::WorkloadNameOf(acting.view)}, {.uid = action.uid});
  // Another one has the name now: the one to delete is gone.
  return status.code() == StatusCode::kAborted ? Status() : status;
}

Status Actor::TellQueue(const Acting& acting, const plan::TellQueue& action) {
  const auto read = client_.Get(kube::resources::Workloads(),
                                {acting.view.ns, objects::WorkloadNameOf(acting.view)});
  if (read.status().code() == StatusCode::kNotFound) return Status();
  RETURN_IF_ERROR(read.status());
  if (kube::ResourceVersionOf(**read) != action.version) {
    return Status(StatusCode::kAborted, "the Workload has changed since the decision");
  }
  json told = **read;
  objects::Tell(action, api::WholeSeconds(acting.now), &told);
  return client_.Update(kube::resources::Workloads(), told, {.subresource = "status"}).status();
}

Result<OwnIdentity> Actor::HoldAuthority(const Acting& acting) {
  JobMemory& memory = *acting.memory;
  auto held = secrets_.Hold(
      acting.view.uid,
      objects::BuildJobSecret(acting.view, names::AuthoritySecretName(acting.view.name)),
      acting.now);
  memory.renew_at = held.ok() ? std::optional(held->renew_at) : std::nullopt;
  if (held.ok() && memory.authority_since != held->authority_since) {
    memory.authority_since = held->authority_since;
    memory.identities.clear();
  }
  return held;
}

/// One Secret that cannot be written stops no other.
Status Actor::EnsureIdentities(const Acting& acting) {
  RETURN_IF_ERROR(HoldAuthority(acting).status());
  JobMemory& memory = *acting.memory;
  Status first;
  bool shares = false;
  for (const plan::ObservedPod& pod : acting.pods) {
    if (!LacksIdentity(acting, pod)) continue;
    if (const auto shown = RenewalShownBy(pod, *memory.authority_since, acting.now)) {
      memory.identities[{pod.role, pod.number}] = *shown;
    } else if (pod.shares_identities) {
      shares = true;
    } else {
      const auto client = ClientOf(pod.cluster);
      Keep(client.status(), &first);
      if (!client.ok()) continue;
      const auto renew_at =
          secrets_.Check(**client, acting.view.uid, OwnSecret(acting, pod), acting.now);
      Keep(renew_at.status(), &first);
      if (renew_at.ok()) memory.identities[{pod.role, pod.number}] = *renew_at;
    }
  }
  if (shares) Keep(EnsureSharedIdentities(acting), &first);
  return first;
}

Status Actor::EnsureSharedIdentities(const Acting& acting) {
  SecretOfPairs shared{
      objects::BuildJobSecret(acting.view, names::SharedIdentitiesName(acting.view.name)), {}};
  std::vector<std::pair<plan::PodRole, std::uint64_t>> sharing;
  for (const plan::ObservedPod& pod : acting.pods) {
    if (!pod.shares_identities || !NeedsIdentity(pod)) continue;
    sharing.emplace_back(pod.role, pod.number);
    shared.pairs.emplace(names::SharedIdentityName(pod.role, pod.number),
                         IdentityOf(acting.view.uid, pod));
  }
  ASSIGN_OR_RETURN(const WallTime renew_at,
                   secrets_.Check(client_, acting.view.uid, shared, acting.now));
  for (const auto& number : sharing) acting.memory->identities[number] = renew_at;
  return Status();
}

std::set<plan::Child> Actor::GoodChildren(const Acting& acting) const {
  std::set<plan::Child> good;
  // Only a gateway asks for the names of workers. Kubernetes looks at all pods of the namespace for
  // each change of a pod that has a Service.
  if (!Gateways().contains(names::kHomeCluster)) good.insert(plan::Child::kWorkersService);
  for (const plan::Child child : plan::kChildren) {
    if (good.contains(child)) continue;
    if (IsSecret(child)) {
      const bool held = acting.memory->renew_at && acting.now < *acting.memory->renew_at;
      const bool lacks = std::ranges::any_of(
          acting.pods, [&](const plan::ObservedPod& pod) { return LacksIdentity(acting, pod); });
      if (held && (child == plan::Child::kAuthority || !lacks)) good.insert(child);
      continue;
    }
    if (child == plan::Child::kOutposts) {
      if (HasGoodOutposts(acting)) good.insert(child);
      continue;
    }
    const auto known = acting.memory->children.find(child);
    if (known == acting.memory->children.end() ||
        api::WholeSeconds(acting.now) - known->second.time >= kChildTrusted) {
      continue;
    }
    const json wanted = BuildChild(acting.view, child);
    if (std::hash<json>()(wanted) == known->second.hash) good.insert(child);
  }
  return good;
}

Status Actor::Apply(const Acting& acting, plan::Child child) {
  if (child == plan::Child::kAuthority) return HoldAuthority(acting).status();
  if (child == plan::Child::kIdentities) return EnsureIdentities(acting);
  if (child == plan::Child::kOutposts) return ApplyOutposts(acting);
  const json object = BuildChild(acting.view, child);
  RETURN_IF_ERROR(ApplyObject(client_, acting, "", object).status());
  acting.memory->children[child] = {std::hash<json>()(object), api::WholeSeconds(acting.now)};
  return Status();
}

Result<kube::Client*> Actor::ClientOf(const std::string& cluster) const {
  if (cluster.empty()) return &client_;
  Cluster* const other = clusters_.Find(cluster);
  if (other != nullptr) return &other->client();
  return Unavailable("the satellite of cluster " + cluster + " has not come");
}

bool Actor::HasGoodOutposts(const Acting& acting) const {
  const std::set<std::string> clusters = objects::ClustersOf(acting.view.job.spec);
  return std::ranges::all_of(clusters, [&](const std::string& name) {
    const Cluster* const cluster = clusters_.Find(name);
    if (cluster == nullptr || !cluster->reachable()) return true;  // as good as they can be now
    const auto known = acting.memory->outposts.find(name);
    if (known == acting.memory->outposts.end()) return false;
    const auto& [uid, parts] = known->second;
    const json wanted = objects::BuildOutpostParts(acting.view, name, uid, acting.trainer_ip);
    return parts.hash == std::hash<json>()(wanted) &&
           api::WholeSeconds(acting.now) - parts.time < kChildTrusted;
  });
}

/// One cluster that fails stops no other.
Status Actor::ApplyOutposts(const Acting& acting) {
  Status first;
  for (const std::string& cluster : objects::ClustersOf(acting.view.job.spec)) {
    Keep(ApplyOutpost(acting, cluster), &first);
  }
  return first;
}

Status Actor::ApplyOutpost(const Acting& acting, const std::string& cluster) {
  ASSIGN_OR_RETURN(kube::Client* const client, ClientOf(cluster));
  ASSIGN_OR_RETURN(const kube::Object outpost,
                   ApplyObject(*client, acting, cluster, objects::BuildOutpost(acting.view)));
  OutpostMemory& memory = acting.memory->outposts[cluster];
  memory = {kube::UidOf(*outpost), {}};
  const std::vector<json> parts =
      objects::BuildOutpostParts(acting.view, cluster, memory.uid, acting.trainer_ip);
  for (const json& part : parts) {
    RETURN_IF_ERROR(ApplyObject(*client, acting, cluster, part).status());
  }
  memory.parts = {std::hash<json>()(parts), api::WholeSeconds(acting.now)};
  return Status();
}

std::map<std::string, std::string> Actor::Gateways() const {
  std::map<std::string, std::string> gateways = pod_options_.gateways;
  gateways.merge(clusters_.Gateways());  // those of the operator's flags count first
  std::erase_if(gateways, [](const auto& each) { return each.second.empty(); });
  return gateways;
}

Result<json> Actor::BuildPod(const Acting& acting, const plan::Action& action) const {
  if (const auto* trainer = std::get_if<plan::CreateTrainer>(&action)) {
    return objects::BuildTrainerPod(acting.view, trainer->term, trainer->layout, pod_options_);
  }
  const auto& worker = std::get<plan::CreateWorker>(action);
  const auto& pools = acting.view.job.spec.workers.pools;
  const auto pool = std::find_if(pools.begin(), pools.end(),
                                 [&](const api::Pool& each) { return each.name == worker.pool; });
  SWARM_CHECK(pool != pools.end(), "the plan names pool " + worker.pool);
  objects::PodOptions options = pod_options_;
  options.gateways = Gateways();
  options.proof =
      clusters_.ProofPlaceOf(pool->cluster.empty() ? names::kHomeCluster : pool->cluster);
  ASSIGN_OR_RETURN(json pod, objects::BuildWorkerPod(acting.view, worker.ordinal, *pool, options));
  if (pool->cluster.empty()) return pod;
  const auto outpost = acting.memory->outposts.find(pool->cluster);
  if (outpost == acting.memory->outposts.end()) {
    return Unavailable("there is nothing yet in cluster " + pool->cluster + " to own the pod");
  }
  objects::OwnByOutpost(acting.view, outpost->second.uid, &pod);
  return pod;
}

// An outpost is trusted for an hour, but of a pod whose owner is gone nothing would be left: the
// garbage collector would delete each as soon as it is made.
void Actor::RenewLostOutposts(const Acting& acting,
                              const std::vector<const plan::Action*>& actions) {
  std::set<std::string> clusters;
  for (const plan::Action* action : actions) {
    clusters.insert(ClusterOf(acting, CreationOf(*action)->pool));
  }
  clusters.erase("");
  for (const std::string& cluster : clusters) {
    const auto known = acting.memory->outposts.find(cluster);
    const auto client = ClientOf(cluster);
    if (known == acting.memory->outposts.end() || !client.ok()) continue;
    const auto there = (*client)->Get(kube::resources::ConfigMaps(),
                                      {acting.view.ns, names::OutpostName(acting.view.name)});
    const bool lost = there.ok() ? kube::UidOf(**there) != known->second.uid
                                 : there.status().code() == StatusCode::kNotFound;
    if (!lost) continue;
    acting.memory->outposts.erase(known);
    // Where that fails there is no pod either, and the next decision tries again and says why.
    (void)ApplyOutpost(acting, cluster);
  }
}

Status Actor::CreateAll(const Acting& acting, const std::vector<const plan::Action*>& actions) {
  RenewLostOutposts(acting, actions);
  Status first;
  bool refused = false;
  std::size_t batch = 1;
  for (std::size_t done = 0; done < actions.size(); batch = std::min(2 * batch, kBatchMax)) {
    const std::size_t size =
        refused ? actions.size() - done : std::min(batch, actions.size() - done);
    std::vector<Creating> creating;
    for (std::size_t i = done; i < done + size; ++i) {
      plan::Creation attempt = *CreationOf(*actions[i]);
      attempt.refused = refused;
      acting.memory->creations[{attempt.role, attempt.number}] = attempt;
      creating.push_back({std::move(attempt), BuildPod(acting, *actions[i])});
    }
    done += size;
    if (refused) break;
    const std::vector<Status> made =
        AtOnce("create", size, [&](std::size_t i) { return Create(acting, &creating[i]); });
    for (std::size_t i = 0; i < size; ++i) {
      creating[i].status = made[i];
      Keep(Remember(acting, creating[i], &refused), &first);
    }
  }
  return first;
}

/// Runs beside others, so it only reads `acting`.
Status Actor::Create(const Acting& acting, Creating* creating) const {
  RETURN_IF_ERROR(creating->pod.status());
  const json& pod = *creating->pod;
  const kube::ObjectName name = kube::NameOf(pod);
  const std::string cluster = ClusterOf(acting, creating->attempt.pool);
  ASSIGN_OR_RETURN(kube::Client* const client, ClientOf(cluster));
  // Strict, because no dry run has judged the templates of pools in other clusters.
  const auto created =
      client->Create(kube::resources::Pods(), pod, {.metadata_only = true, .strict = true});
  if (created.status().code() == StatusCode::kAlreadyExists) {
    ASSIGN_OR_RETURN(const kube::Object there, client->Get(kube::resources::Pods(), name));
    // The next decision sees the pod, and looks after its certificate.
    creating->made = BelongsTo(*there, acting, cluster);
    return creating->made ? Status() : Foreign("pod", name, cluster);
  }
  RETURN_IF_ERROR(created.status());
  creating->made = creating->is_new = true;
  if (kube::LabelOf(pod, names::kIdentityLabel) == names::kByProof) return Status();
  // A Secret is deleted with the pod that owns it, so the pod comes first. The kubelet waits.
  const plan::ObservedPod made{.name = name.name,
                               .uid = kube::UidOf(**created),
                               .role = creating->attempt.role,
                               .number = creating->attempt.number};
  const auto renew_at =
      secrets_.Make(*client, acting.view.uid, OwnSecret(acting, made), acting.now);
  if (renew_at.ok()) creating->renew_at = *renew_at;
  if (IsRefusal(renew_at.status().code())) {
    // The pod would hold a node, and never begin.
    const Status gone = client->Delete(kube::resources::Pods(), name, {.uid = made.uid});
    if (!gone.ok()) LOG_WARN("{}: {}", name.ToString(), gone.ToString());
  }
  return renew_at.status();
}

Status Actor::Remember(const Acting& acting, const Creating& creating, bool* refused) {
  JobMemory& memory = *acting.memory;
  const std::pair number(creating.attempt.role, creating.attempt.number);
  plan::Creation& creation = memory.creations[number];
  if (creating.is_new) {
    JobCounters one;
    one.pods_created[creating.attempt.role] = 1;
    metrics_.Count(acting.name(), one);
  }
  if (IsRefusal(creating.status.code())) {
    creation.refused = true;
    if (!std::exchange(*refused, true)) Refuse(acting, creating.status);
    return Status();
  }
  creation.made = creating.made;
  creation.time = api::WholeSeconds(acting.now);
  if (creating.renew_at) memory.identities[number] = *creating.renew_at;
  if (creating.is_new && creating.status.ok() && !*refused) memory.refusal.reset();
  return creating.status;
}

Status Actor::DeleteAll(const Acting& acting,
                        const std::vector<const plan::DeletePod*>& actions) const {
  Status first;
  for (std::size_t done = 0; done < actions.size(); done += kBatchMax) {
    const std::size_t size = std::min(kBatchMax, actions.size() - done);
    for (Status& gone : AtOnce("delete", size,
                               [&](std::size_t i) { return Delete(acting, *actions[done + i]); })) {
      Keep(std::move(gone), &first);
    }
  }
  return first;
}

/// Runs beside others, so it only reads `acting`.
Status Actor::Delete(const Acting& acting, const plan::DeletePod& action) const {
  kube::DeleteOptions options{.uid = action.uid};
  if (action.grace_seconds) options.grace_seconds = static_cast<int>(*action.grace_seconds);
  const auto pod = std::ranges::find(acting.pods, action.uid, &plan::ObservedPod::uid);
  ASSIGN_OR_RETURN(kube::Client* const client,
                   ClientOf(pod == acting.pods.end() ? "" : pod->cluster));
  const Status status =
      client->Delete(kube::resources::Pods(), {acting.view.ns, action.name}, options);
  // Another pod has the name now: the one to delete is gone.
  return status.code() == StatusCode::kAborted ? Status() : status;
}

void Actor::Direct(const Acting& acting, const plan::DirectTrainer& action) {
  protocol::Direct direct{.leader_term = acting.leader_term, .number = ++acting.memory->directs};
  for (const std::string& worker : action.drain) direct.drain.emplace_back(worker);
  direct.moves = action.moves;
  direct.retired = action.retired;
  const Status sent = links_.Send(acting.name().ToString(), std::move(direct));
  if (!sent.ok()) {
    // The next decisions repeat the order until the trainer's status shows it.
    LOG_DEBUG("{}: {}", acting.name().ToString(), sent.ToString());
    return;
  }
  if (action.drain.empty() && action.moves.empty()) return;
  JobCounters counters;
  std::set<std::string> ordered;
  for (const std::string& worker : action.drain) {
    ordered.insert(worker);
    counters.drains += !acting.memory->ordered.contains(worker);
  }
  for (const protocol::StageMove& move : action.moves) {
    const std::string order = move.worker.value + " " + std::to_string(move.to.value);
    ordered.insert(order);
    counters.moves += !acting.memory->ordered.contains(order);
  }
  if (!action.moves.empty()) acting.memory->moved = api::WholeSeconds(acting.now);
  acting.memory->ordered = std::move(ordered);
  metrics_.Count(acting.name(), counters);
}

Result<std::vector<std::string>> Actor::Judge(const objects::JobView& view) {
  std::vector<Result<json>> pods{objects::BuildTrainerPod(
      view, view.status.trainer.term + 1,
      std::vector<std::uint64_t>(view.job.spec.pipeline.stages, 1), pod_options_)};
  for (const api::Pool& pool : view.job.spec.workers.pools) {
    if (!pool.cluster.empty()) continue;  // another server judges them
    pods.push_back(
        objects::BuildWorkerPod(view, view.status.nextWorkerOrdinal, pool, pod_options_));
  }
  std::vector<std::string> judgement;
  for (const Result<json>& pod : pods) {
    Status status = pod.status();
    if (status.ok()) {
      status = client_.Create(kube::resources::Pods(), *pod, {.dry_run = true}).status();
    }
    if (status.code() == StatusCode::kInvalidArgument) {
      judgement.push_back(status.message());
    } else if (!status.ok() && !IsRefusal(status.code()) &&
               status.code() != StatusCode::kAlreadyExists) {
      return status;
    }
  }
  return judgement;
}

}  // namespace swarm::controller
