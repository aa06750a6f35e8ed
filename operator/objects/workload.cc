#include "operator/objects/workload.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>

#include "base/hash.h"
#include "operator/names/names.h"
#include "operator/plan/admission.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

/// Why an evicted Workload competes for quota again at once. After other evictions Kueue itself
/// says when.
constexpr const char* kRequeued[] = {"Preempted", "NodeFailures"};

const json& FieldAt(const json& value, const char* pointer) {
  static const json nothing;
  const json::json_pointer place(pointer);
  return value.contains(place) ? value.at(place) : nothing;
}

std::string TextOf(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

json Kept(const json& object, std::initializer_list<const char*> keys) {
  json kept = json::object();
  for (const char* key : keys) {
    if (object.contains(key)) kept[key] = object[key];
  }
  return kept;
}

/// What Kueue needs of a pod: what it uses, and where it can go. An image is part of it because
/// admission checks may make a pod template of it.
json TemplateOf(const json& pod) {
  const json& own = pod["spec"];
  json spec = Kept(own, {"nodeSelector", "affinity", "tolerations", "priorityClassName",
                         "runtimeClassName", "overhead", "resourceClaims", "restartPolicy"});
  for (const char* list : {"initContainers", "containers"}) {
    if (!own.contains(list)) continue;
    for (const json& container : own[list]) {
      spec[list].push_back(Kept(container, {"name", "image", "resources", "restartPolicy"}));
    }
  }
  return {{"spec", std::move(spec)}};
}

json PodSet(const std::string& name, std::uint64_t count, const json& pod) {
  return {{"name", name}, {"count", count}, {"template", TemplateOf(pod)}};
}

/// Tells pods of different needs apart. An image counts no quota, and with the number of pods
/// a job can live for a while.
std::string ShapeOf(json pod_sets) {
  for (json& each : pod_sets) {
    each.erase("count");
    for (const char* list : {"initContainers", "containers"}) {
      json& spec = each["template"]["spec"];
      if (!spec.contains(list)) continue;
      for (json& container : spec[list]) container.erase("image");
    }
  }
  const std::string text = pod_sets.dump(-1, ' ', false, json::error_handler_t::replace);
  return ComputeDigest(std::as_bytes(std::span(text))).Hex();
}

/// A condition of the Workload; null: there is none of this type.
const json& Find(const json& workload, const std::string& type) {
  static const json none;
  const json& conditions = FieldAt(workload, "/status/conditions");
  if (!conditions.is_array()) return none;
  const auto found = std::ranges::find_if(
      conditions, [&](const json& each) { return TextOf(FieldAt(each, "/type")) == type; });
  return found == conditions.end() ? none : *found;
}

bool IsTrue(const json& workload, const std::string& type) {
  return TextOf(FieldAt(Find(workload, type), "/status")) == "True";
}

struct Condition {
  const char* type;
  bool value = false;
  std::string reason;
  std::string words;
};

void Set(const Condition& wanted, api::WallTime now, json* workload) {
  constexpr std::size_t kWordsMax = 1024;
  json& conditions = (*workload)["status"]["conditions"];
  if (!conditions.is_array()) conditions = json::array();
  auto place = std::ranges::find_if(
      conditions, [&](const json& each) { return TextOf(FieldAt(each, "/type")) == wanted.type; });
  if (place == conditions.end()) {
    conditions.push_back({{"type", wanted.type}});
    place = conditions.end() - 1;
  }
  const char* status = wanted.value ? "True" : "False";
  if (TextOf(FieldAt(*place, "/status")) != status) {
    (*place)["lastTransitionTime"] = api::FormatTime(now);
  }
  (*place)["status"] = status;
  (*place)["reason"] = wanted.reason;
  (*place)["message"] = wanted.words.substr(0, kWordsMax);
  (*place)["observedGeneration"] = FieldAt(*workload, "/metadata/generation");
}

void GiveQuotaBack(const std::string& words, api::WallTime now, json* workload) {
  const json& evicted = Find(*workload, "Evicted");
  std::string reason = TextOf(FieldAt(evicted, "/reason"));
  if (reason.empty()) reason = "Evicted";
  const bool again = std::ranges::find(kRequeued, reason) != std::end(kRequeued);
  Set({"Requeued", again, reason, words}, now, workload);
  Set({"QuotaReserved", false, "Pending", words}, now, workload);
  Set({"Admitted", false, "NoReservation", "The workload has no reservation"}, now, workload);
  (*workload)["status"].erase("admission");
}

}  // namespace

std::string QueueOf(const JobView& view) {
  const auto label = view.labels.find(names::kQueueLabel);
  return label == view.labels.end() ? "" : label->second;
}

std::string QueuePriorityOf(const JobView& view) {
  const auto label = view.labels.find(names::kQueuePriorityLabel);
  return label == view.labels.end() ? "" : label->second;
}

bool IsPrebuilt(const JobView& view) { return view.labels.contains(names::kPrebuiltWorkloadLabel); }

std::string WorkloadNameOf(const JobView& view) {
  return IsPrebuilt(view) ? view.labels.at(names::kPrebuiltWorkloadLabel)
                          : names::WorkloadName(view.name);
}

Result<json> BuildWorkload(const JobView& view, const PodOptions& options,
                           std::optional<std::int64_t> priority) {
  // What the job went through does not change what it needs.
  JobView bare = view;
  bare.status = {};
  bare.status.image = view.status.image;
  bare.placements.clear();
  const api::Workers& workers = view.job.spec.workers;
  std::map<std::string, std::uint64_t> sizes;
  for (const api::Pool& pool : workers.pools) {
    sizes[pool.name] = WorkersOfPod(view.job.spec, pool);
  }
  ASSIGN_OR_RETURN(const json trainer, BuildTrainerPod(bare, 1, {}, options));
  json pod_sets = json::array({PodSet(names::kTrainerPodSet, 1, trainer)});
  const auto asked = plan::AskedPods(view.job.spec, sizes);
  for (const api::Pool& pool : workers.pools) {
    const auto pods = asked.find(pool.name);
    if (pods == asked.end()) continue;
    ASSIGN_OR_RETURN(const json worker, BuildWorkerPod(bare, 0, pool, options));
    pod_sets.push_back(PodSet(names::WorkersPodSet(pool.name), pods->second, worker));
  }
  json metadata = JobMetadata(view, WorkloadNameOf(view));
  metadata["labels"][names::kQueueJobLabel] = view.uid;
  metadata["annotations"][names::kAppliedAnnotation] = ShapeOf(pod_sets);
  json spec = {{"podSets", std::move(pod_sets)}, {"queueName", QueueOf(view)}, {"active", true}};
  if (const std::string name = QueuePriorityOf(view); !name.empty() && priority) {
    spec["priorityClassRef"] = {
        {"group", "kueue.x-k8s.io"}, {"kind", "WorkloadPriorityClass"}, {"name", name}};
    spec["priority"] = *priority;
  }
  return json{{"apiVersion", "kueue.x-k8s.io/v1beta2"},
              {"kind", "Workload"},
              {"metadata", std::move(metadata)},
              {"spec", std::move(spec)}};
}

void UpdateWorkload(const json& wanted, json* workload) {
  for (const char* key : {"podSets", "queueName", "priorityClassRef", "priority"}) {
    (*workload)["spec"].erase(key);
    if (wanted["spec"].contains(key)) (*workload)["spec"][key] = wanted["spec"][key];
  }
  (*workload)["metadata"]["annotations"][names::kAppliedAnnotation] =
      wanted["metadata"]["annotations"][names::kAppliedAnnotation];
}

plan::ObservedWorkload ReadWorkload(const json& object, const json& wanted) {
  plan::ObservedWorkload workload;
  workload.uid = TextOf(FieldAt(object, "/metadata/uid"));
  workload.version = TextOf(FieldAt(object, "/metadata/resourceVersion"));
  workload.deleted = !FieldAt(object, "/metadata/deletionTimestamp").is_null();
  const auto shape = [](const json& each) -> const json& {
    static const json none;
    const json& annotations = FieldAt(each, "/metadata/annotations");
    return annotations.is_object() && annotations.contains(names::kAppliedAnnotation)
               ? annotations.at(names::kAppliedAnnotation)
               : none;
  };
  workload.outdated = shape(object) != shape(wanted) ||
                      FieldAt(object, "/spec/queueName") != FieldAt(wanted, "/spec/queueName");
  workload.active = FieldAt(object, "/spec/active") != json(false);
  workload.has_quota = IsTrue(object, "QuotaReserved");
  workload.admitted = IsTrue(object, "Admitted");
  workload.finished = IsTrue(object, "Finished");
  workload.pods_ready = IsTrue(object, "PodsReady");
  workload.evicted = IsTrue(object, "Evicted");
  const char* telling = workload.evicted && workload.has_quota ? "Evicted"
                        : workload.has_quota                   ? "Admitted"
                                                               : "QuotaReserved";
  workload.words = TextOf(FieldAt(Find(object, telling), "/message"));
  if (const json& pod_sets = FieldAt(object, "/spec/podSets"); pod_sets.is_array()) {
    for (const json& each : pod_sets) {
      const auto pool = names::PoolOfPodSet(TextOf(FieldAt(each, "/name")));
      const json& count = FieldAt(each, "/count");
      if (pool && count.is_number_unsigned() && count != 0u) {
        workload.pods[*pool] = count.get<std::uint64_t>();
      }
    }
  }
  return workload;
}

void Tell(const plan::TellQueue& news, api::WallTime now, json* workload) {
  switch (news.news) {
    case plan::JobNews::kReady:
      return Set({"PodsReady", true, "Started", news.words}, now, workload);
    case plan::JobNews::kStopped:
      return GiveQuotaBack(news.words, now, workload);
    case plan::JobNews::kSucceeded:
      return Set({"Finished", true, "Succeeded", news.words}, now, workload);
    case plan::JobNews::kFailed:
      return Set({"Finished", true, "Failed", news.words}, now, workload);
  }
}

std::map<std::string, std::set<std::string>> FlavorsOf(const json& workload) {
  std::map<std::string, std::set<std::string>> flavors;
  const json& assignments = FieldAt(workload, "/status/admission/podSetAssignments");
  if (!assignments.is_array()) return flavors;
  for (const json& each : assignments) {
    const json& by_resource = FieldAt(each, "/flavors");
    if (!by_resource.is_object()) continue;
    for (const json& flavor : by_resource) {
      if (flavor.is_string()) flavors[TextOf(FieldAt(each, "/name"))].insert(TextOf(flavor));
    }
  }
  return flavors;
}

void AddFlavor(const json& flavor, Placement* placement) {
  if (const json& labels = FieldAt(flavor, "/spec/nodeLabels"); labels.is_object()) {
    for (const auto& [key, value] : labels.items()) placement->node_selector[key] = TextOf(value);
  }
  const json& more = FieldAt(flavor, "/spec/tolerations");
  if (!more.is_array() || more.empty()) return;
  const std::string& text = placement->tolerations.text;
  json all = text.empty() ? json::array() : json::parse(text, nullptr, false);
  all.insert(all.end(), more.begin(), more.end());
  placement->tolerations.text = all.dump();
}

}  // namespace swarm::objects
