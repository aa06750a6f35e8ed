#include "operator/objects/read.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "api/manifest.h"
#include "api/parse.h"
#include "api/status_json.h"
#include "api/validate.h"
#include "base/hash.h"
#include "operator/names/names.h"
#include "operator/objects/build.h"
#include "operator/objects/outpost.h"
#include "planner/choice.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

const json kNothing;

// The value at the end of the path; null if the path ends early.
const json& At(const json& value, std::initializer_list<const char*> path) {
  const json* place = &value;
  for (const char* key : path) {
    if (!place->is_object()) return kNothing;
    const auto found = place->find(key);
    if (found == place->end()) return kNothing;
    place = &*found;
  }
  return *place;
}

// The value if it is a list, or an empty list.
const json& List(const json& value) {
  static const json empty = json::array();
  return value.is_array() ? value : empty;
}

std::string Text(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<api::WallTime> Time(const json& value) {
  return value.is_string() ? api::ParseTime(value.get_ref<const std::string&>()) : std::nullopt;
}

std::uint64_t Count(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  return value.is_number_integer() && value.get<std::int64_t>() > 0
             ? static_cast<std::uint64_t>(value.get<std::int64_t>())
             : 0;
}

int Small(const json& value) {
  if (!value.is_number_integer()) return 0;
  return static_cast<int>(std::clamp<std::int64_t>(
      value.get<std::int64_t>(), std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

std::map<std::string, std::string> Texts(const json& value) {
  std::map<std::string, std::string> texts;
  if (!value.is_object()) return texts;
  for (const auto& [key, text] : value.items()) {
    if (text.is_string()) texts.emplace(key, text.get<std::string>());
  }
  return texts;
}

plan::PodPhase PhaseOf(const std::string& phase) {
  if (phase == "Pending") return plan::PodPhase::kPending;
  if (phase == "Running") return plan::PodPhase::kRunning;
  if (phase == "Succeeded") return plan::PodPhase::kSucceeded;
  if (phase == "Failed") return plan::PodPhase::kFailed;
  return plan::PodPhase::kUnknown;
}

// Fills in what the labels say. Returns false if they are not the labels of a job's pod.
bool ReadLabels(const json& labels, plan::ObservedPod* pod) {
  const std::string job = Text(At(labels, {names::kJobLabel}));
  const std::string role = Text(At(labels, {names::kRoleLabel}));
  const bool is_worker = role == names::kWorkerRole;
  if (job.empty() || (!is_worker && role != names::kTrainerRole)) return false;
  const auto number =
      names::ParseNumber(Text(At(labels, {is_worker ? names::kOrdinalLabel : names::kTermLabel})));
  if (!number) return false;
  pod->role = is_worker ? plan::PodRole::kWorker : plan::PodRole::kTrainer;
  pod->number = *number;
  if (is_worker) pod->pool = Text(At(labels, {names::kPoolLabel}));
  const auto workers = names::ParseNumber(Text(At(labels, {names::kWorkersLabel})));
  if (is_worker && workers && *workers > 0 && *workers <= names::kPodWorkersMax) {
    pod->workers = *workers;
  }
  // The pod's name has the number, too. If they differ, the label was changed by hand.
  return pod->name == names::PodName(job, pod->role, *number);
}

void ReadConditions(const json& status, plan::ObservedPod* pod) {
  for (const json& condition : List(At(status, {"conditions"}))) {
    const std::string type = Text(At(condition, {"type"}));
    const bool is_true = Text(At(condition, {"status"})) == "True";
    if (type == "Ready") pod->ready = is_true;
    if (type == "PodScheduled" && is_true) {
      pod->scheduled = Time(At(condition, {"lastTransitionTime"}));
    } else if (type == "PodScheduled") {
      pod->unscheduled_reason = Text(At(condition, {"reason"}));
      pod->unscheduled_message = Text(At(condition, {"message"}));
    }
    if (type == "DisruptionTarget" && is_true) {
      pod->disruption = Text(At(condition, {"reason"}));
      pod->disruption_message = Text(At(condition, {"message"}));
      // The condition alone is evidence, even without a reason.
      if (pod->disruption.empty()) pod->disruption = "DisruptionTarget";
    }
  }
}

void ReadContainer(const json& status, plan::ObservedPod* pod) {
  const char* main = names::RoleName(pod->role);
  for (const json& container : List(At(status, {"containerStatuses"}))) {
    if (Text(At(container, {"name"})) != main) continue;
    const json& waiting = At(container, {"state", "waiting"});
    pod->waiting_reason = Text(At(waiting, {"reason"}));
    pod->waiting_message = Text(At(waiting, {"message"}));
    const json& end = At(container, {"state", "terminated"});
    if (!end.is_object()) return;
    pod->end = plan::ContainerEnd{.exit_code = Small(At(end, {"exitCode"})),
                                  .signal = Small(At(end, {"signal"})),
                                  .reason = Text(At(end, {"reason"})),
                                  .message = Text(At(end, {"message"})),
                                  .time = Time(At(end, {"finishedAt"}))};
    return;
  }
}

// Guards against values that would exhaust the stack of the code that writes them.
bool IsDeeperThan(const json& value, int levels) {
  if (!value.is_structured()) return false;
  return levels == 0 || std::any_of(value.begin(), value.end(), [&](const json& each) {
           return IsDeeperThan(each, levels - 1);
         });
}

// The manifest alone, without the metadata and status that Kubernetes keeps.
json ManifestOf(const json& object) {
  json manifest = {{"apiVersion", At(object, {"apiVersion"})},
                   {"kind", At(object, {"kind"})},
                   {"metadata", {{"name", At(object, {"metadata", "name"})}}},
                   {"spec", At(object, {"spec"})}};
  // The items of a list come without these two.
  if (manifest["apiVersion"].is_null()) manifest["apiVersion"] = names::kApiVersion;
  if (manifest["kind"].is_null()) manifest["kind"] = names::kKind;
  return manifest;
}

// Of what a trainer's pod and the configuration that it reads are made: all but what changes while
// a job runs.
std::string TrainerPartOf(json spec) {
  if (!spec.is_object()) return "";
  spec.erase("budget");
  if (const auto workers = spec.find("workers"); workers != spec.end() && workers->is_object()) {
    workers->erase("replicas");
  }
  const std::string text = spec.dump(-1, ' ', false, json::error_handler_t::replace);
  return ComputeDigest(std::as_bytes(std::span(text))).Hex();
}

void ReadManifest(const json& manifest, JobView* view) {
  api::Checked<api::SwarmJob> job = api::FromJson(manifest);
  if (!job.ok()) {
    view->errors = job.errors();
    return;
  }
  view->job = *std::move(job);
  view->errors = api::Validate(view->job);
  for (api::FieldError& error : api::ValidateForCluster(view->job)) {
    view->errors.push_back(std::move(error));
  }
}

}  // namespace

Result<JobView> ReadJob(const json& object) {
  const json& metadata = At(object, {"metadata"});
  JobView view;
  view.ns = Text(At(metadata, {"namespace"}));
  view.name = Text(At(metadata, {"name"}));
  view.uid = Text(At(metadata, {"uid"}));
  const std::string who = "SwarmJob " + view.ns + "/" + view.name;
  if (view.ns.empty() || view.name.empty() || view.uid.empty()) {
    return InvalidArgument(who +
                           ": has no name, namespace or UID, so it does not come from a cluster");
  }
  view.resource_version = Text(At(metadata, {"resourceVersion"}));
  view.generation = Count(At(metadata, {"generation"}));
  view.deleting = !At(metadata, {"deletionTimestamp"}).is_null();
  constexpr int kLevelsMax = 64;
  if (IsDeeperThan(At(object, {"status"}), kLevelsMax)) {
    return Status(StatusCode::kDataLoss, who + ": its status is nested too deep");
  }
  view.creation_time = Time(At(metadata, {"creationTimestamp"})).value_or(api::WallTime());
  view.labels = Texts(At(metadata, {"labels"}));
  view.annotations = Texts(At(metadata, {"annotations"}));
  api::Checked<api::SwarmJobStatus> status = api::StatusFromJson(At(object, {"status"}));
  if (!status.ok()) {
    return Status(StatusCode::kDataLoss, who + ": " + api::ToString(status.errors()) +
                                             "; correct it with kubectl edit --subresource=status");
  }
  view.status = *std::move(status);
  if (IsDeeperThan(At(object, {"spec"}), kLevelsMax)) {
    view.errors = {{"spec", "is nested too deep", "at most 64 levels"}};
    return view;
  }
  view.replicas_open = Count(At(object, {"spec", "workers", "replicas"})) == 0;
  view.trainer_part = TrainerPartOf(At(object, {"spec"}));
  json manifest = ManifestOf(object);
  const bool is_auto = api::TakeAutoStages(&manifest);
  ReadManifest(manifest, &view);
  if (!is_auto || !view.errors.empty()) return view;
  const bool began = view.status.trainer.term > 0;
  const std::optional<api::PlanChoice> made = view.status.plan.choice;
  if (made && (began || made->generation == view.generation)) {
    TakeChoice(object, *made, &view);
  } else {
    view.open = planner::OpenIn(manifest);
    // A checkpoint holds for one step mode.
    view.open->step_mode = view.open->step_mode && !began;
  }
  return view;
}

void TakeChoice(const json& object, const api::PlanChoice& choice, JobView* view) {
  json manifest = ManifestOf(object);
  api::TakeAutoStages(&manifest);
  planner::FillIn(choice, &manifest);
  view->choice = choice;
  view->open.reset();
  ReadManifest(manifest, view);
}

bool SharesIdentities(const json& pod) {
  const std::string job = Text(At(pod, {"metadata", "labels", names::kJobLabel}));
  const json& volumes = List(At(pod, {"spec", "volumes"}));
  return !job.empty() && std::any_of(volumes.begin(), volumes.end(), [&](const json& volume) {
    return Text(At(volume, {"name"})) == kIdentityVolume &&
           Text(At(volume, {"secret", "secretName"})) == names::SharedIdentitiesName(job);
  });
}

std::optional<plan::ObservedPod> ReadPod(const json& object) {
  const json& metadata = At(object, {"metadata"});
  const json& status = At(object, {"status"});
  plan::ObservedPod pod;
  pod.name = Text(At(metadata, {"name"}));
  pod.uid = Text(At(metadata, {"uid"}));
  if (pod.name.empty() || pod.uid.empty() || !ReadLabels(At(metadata, {"labels"}), &pod)) {
    return std::nullopt;
  }
  pod.created = Time(At(metadata, {"creationTimestamp"})).value_or(api::WallTime());
  pod.waiting_since = pod.created;
  if (const json& deleted = At(metadata, {"deletionTimestamp"}); !deleted.is_null()) {
    pod.deleted = Time(deleted).value_or(pod.created);
  }
  pod.cluster = ClusterOf(object);
  pod.made_of = Text(At(metadata, {"annotations", names::kMadeOfAnnotation}));
  pod.shares_identities = SharesIdentities(object);
  pod.proves_itself = Text(At(metadata, {"labels", names::kIdentityLabel})) == names::kByProof;
  pod.gated = !List(At(object, {"spec", "schedulingGates"})).empty();
  pod.node = Text(At(object, {"spec", "nodeName"}));
  const std::string phase = Text(At(status, {"phase"}));
  pod.phase = phase.empty() ? plan::PodPhase::kPending : PhaseOf(phase);
  pod.reason = Text(At(status, {"reason"}));
  pod.message = Text(At(status, {"message"}));
  ReadConditions(status, &pod);
  ReadContainer(status, &pod);
  return pod;
}

plan::ObservedNode ReadNode(const json& object) {
  plan::ObservedNode node;
  const json& metadata = At(object, {"metadata"});
  node.uid = Text(At(metadata, {"uid"}));
  node.hostname = Text(At(metadata, {"labels", names::kHostnameLabel}));
  node.created = Time(At(metadata, {"creationTimestamp"})).value_or(api::WallTime());
  node.deleted = !At(metadata, {"deletionTimestamp"}).is_null();
  for (const json& taint : List(At(object, {"spec", "taints"}))) {
    node.taints.push_back(
        {Text(At(taint, {"key"})), Text(At(taint, {"value"})), Text(At(taint, {"effect"}))});
  }
  for (const json& condition : List(At(object, {"status", "conditions"}))) {
    node.conditions.push_back({Text(At(condition, {"type"})), Text(At(condition, {"status"})),
                               Text(At(condition, {"reason"})), Text(At(condition, {"message"}))});
  }
  return node;
}

}  // namespace swarm::objects
