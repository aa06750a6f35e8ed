// The two pods of build.h.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "api/region_storage.h"
#include "operator/names/names.h"
#include "operator/objects/build.h"
#include "operator/objects/merge.h"
#include "operator/objects/resources.h"
#include "operator/plan/pods/grace_period.h"
#include "worker/flags/flags.h"

namespace swarm::objects {
namespace {

using names::PodRole;
using nlohmann::json;

constexpr const char* kJobFolder = "/etc/swarmjob/job";
constexpr const char* kTlsFolder = "/etc/swarmjob/tls";
constexpr const char* kProofFolder = "/etc/swarmjob/proof";
constexpr const char* kProofToken = "token";
constexpr const char* kStateFolder = "/var/lib/swarmjob";
// How long a worker stays bound to a node that no longer reports. The trainer continues without the
// worker after 3 s, and the operator needs its place for another one.
constexpr int kLostNodeSeconds = 10;

struct Role {
  const char* name;  ///< of the role and of its container
  std::string pod;
  std::uint64_t grace_seconds;
};

Role MakeRole(const std::string& job, PodRole role, std::uint64_t number,
              std::uint64_t grace_seconds) {
  return {names::RoleName(role), names::PodName(job, role, number), grace_seconds};
}

const api::Spec& SpecOf(const JobView& view) { return view.job.spec; }

json ParseRaw(const api::RawJson& raw) {
  return raw.text.empty() ? json() : json::parse(raw.text, nullptr, /*allow_exceptions=*/false);
}

json PodLabels(const JobView& view, const Role& role) {
  json labels = JobMetadata(view, "")["labels"];
  labels["app.kubernetes.io/component"] = role.name;
  labels[names::kRoleLabel] = role.name;
  return labels;
}

json Probe(const char* path, int period_seconds, int failures) {
  return {{"httpGet", {{"path", path}, {"port", "metrics"}}},
          {"periodSeconds", period_seconds},
          {"timeoutSeconds", 5},
          {"failureThreshold", failures}};
}

json Mount(const char* volume, const char* path, bool read_only) {
  json mount = {{"name", volume}, {"mountPath", path}};
  if (read_only) mount["readOnly"] = true;
  return mount;
}

// As the job has them.
PodOptions OptionsFor(const JobView& view, const PodOptions& options) {
  const api::ImageStatus& image = view.status.image;
  PodOptions of_job = options;
  if (!image.name.empty()) {
    of_job.worker_image = image.name;
    of_job.worker_platform = image.platform;
  }
  return of_job;
}

// The lowest layer, which a template may change. It satisfies the restricted Pod Security Standard.
// It sets no user id: the image or the namespace decides that.
json DefaultPod(const Role& role, const PodOptions& options) {
  json container = {{"name", role.name},
                    {"image", options.worker_image},
                    {"securityContext",
                     {{"allowPrivilegeEscalation", false},
                      {"readOnlyRootFilesystem", true},
                      {"capabilities", {{"drop", json::array({"ALL"})}}}}},
                    {"volumeMounts", json::array({Mount("state", kStateFolder, false),
                                                  Mount("tmp", "/tmp", false)})}};
  json spec = {{"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"securityContext",
                {{"runAsNonRoot", true}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"containers", json::array({container})},
               {"volumes", json::array({{{"name", "state"}, {"emptyDir", json::object()}},
                                        {{"name", "tmp"}, {"emptyDir", json::object()}}})}};
  return {{"metadata", {{"annotations", json::object()}}}, {"spec", std::move(spec)}};
}

// Keys of the object storage. Those of a region are named after it, and a cluster may lack them:
// its pods then leave that copy alone. All pods have them, since the operator does not know in
// which region a node will be, and a worker takes the copy of another region where its own is of no
// use.
json StorageKeys(const api::Storage& storage) {
  json keys = json::array();
  if (!storage.secretName.empty()) keys.push_back({{"secretRef", {{"name", storage.secretName}}}});
  for (const api::RegionStorage& region : storage.regions) {
    if (region.secretName.empty()) continue;
    keys.push_back({{"prefix", api::CredentialsPrefix(region.region)},
                    {"secretRef", {{"name", region.secretName}, {"optional", true}}}});
  }
  return keys;
}

// An environment variable: where the pod runs, if its node says so.
json RegionOfPod() {
  return {{"name", "SWARM_REGION"},
          {"valueFrom",
           {{"fieldRef", {{"fieldPath", "metadata.labels['topology.kubernetes.io/region']"}}}}}};
}

// Whether the trainer, which reads the data, has to know where it is.
bool HasDataCopies(const api::Spec& spec) {
  return std::ranges::any_of(spec.storage.regions, [](const api::RegionStorage& entry) {
    return !entry.dataUris.empty() || !entry.validationUri.empty();
  });
}

// The highest layer, which no template may change. The arguments of the command are added later.
json RequiredPod(const JobView& view, const Role& role) {
  json container = {
      {"name", role.name},
      {"command", json::array({"swarm-worker"})},
      {"ports", json::array({{{"name", "wire"}, {"containerPort", names::kWirePort}},
                             {{"name", "metrics"}, {"containerPort", names::kMetricsPort}}})},
      {"startupProbe", Probe("/healthz", 2, 150)},
      {"livenessProbe", Probe("/healthz", 10, 6)},
      {"readinessProbe", Probe("/readyz", 2, 1)},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"volumeMounts", json::array({Mount(kIdentityVolume, kTlsFolder, true)})}};
  if (json keys = StorageKeys(SpecOf(view).storage); !keys.empty()) {
    container["envFrom"] = std::move(keys);
  }
  const json identity = {{"name", kIdentityVolume},
                         {"secret", {{"secretName", names::IdentitySecretName(role.pod)}}}};
  json metadata = JobMetadata(view, role.pod);
  metadata["labels"] = PodLabels(view, role);
  json spec = {{"restartPolicy", "Never"},
               {"terminationGracePeriodSeconds", role.grace_seconds},
               {"containers", json::array({container})},
               {"volumes", json::array({identity})}};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

WorkerFlags CommonFlags(const JobView& view) {
  const std::string tls = kTlsFolder;
  return {.listen = "0.0.0.0:" + std::to_string(names::kWirePort),
          .metrics_listen = "0.0.0.0:" + std::to_string(names::kMetricsPort),
          .job_uid = view.uid,
          .tls_ca = tls + "/ca.crt",
          .tls_cert = tls + "/tls.crt",
          .tls_key = tls + "/tls.key"};
}

// The first container is the main one: the lowest layer put it there.
json& MainContainer(json& pod) { return pod["spec"]["containers"][0]; }

// Whether `pod` of the lower layers runs a program that can: of this operator's version. What other
// images have is not known.
bool CanProveItself(const PodOptions& options, json& pod) {
  return options.proof && MainContainer(pod)["image"] == options.worker_image;
}

// Instead of a Secret, a folder in memory that the worker fills, and a token for home.
void ProveIdentity(const JobView& view, const enrol::ProofPlace& place, json* required) {
  (*required)["metadata"]["labels"][names::kIdentityLabel] = names::kByProof;
  const json token = {{"audience", enrol::ProofAudience(view.uid)},
                      {"expirationSeconds", enrol::kProofTokenValidity.count()},
                      {"path", kProofToken}};
  (*required)["spec"]["volumes"] = json::array(
      {{{"name", kIdentityVolume}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "1Mi"}}}},
       {{"name", kProofVolume},
        {"projected", {{"sources", json::array({{{"serviceAccountToken", token}}})}}}}});
  json& container = MainContainer(*required);
  container["volumeMounts"] = json::array(
      {Mount(kIdentityVolume, kTlsFolder, false), Mount(kProofVolume, kProofFolder, true)});
  const std::string token_file = std::string(kProofFolder) + "/" + kProofToken;
  for (const auto& [name, value] : {std::pair(enrol::kProofHomeVariable, place.home),
                                    std::pair(enrol::kProofFingerprintVariable, place.fingerprint),
                                    std::pair(enrol::kProofClusterVariable, place.cluster),
                                    std::pair(enrol::kProofTokenVariable, token_file)}) {
    container["env"].push_back({{"name", name}, {"value", value}});
  }
}

bool Tolerates(const json& tolerations, const std::string& key) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const json& each) {
    return each.is_object() && each.contains("key") && each["key"] == key;
  });
}

// Adds the tolerations of the pool to those of the template, and short ones for nodes that no
// longer report: without them, Kubernetes adds the same with 300 s.
Status AddTolerations(const api::Pool& pool, const std::string& path, json* pod) {
  json& list = (*pod)["spec"]["tolerations"];
  if (list.is_null()) list = json::array();
  if (!list.is_array()) return InvalidArgument(path + ".spec.tolerations: is not a list");
  if (const json more = ParseRaw(pool.tolerations); more.is_array()) {
    list.insert(list.end(), more.begin(), more.end());
  }
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    if (Tolerates(list, key)) continue;
    list.push_back({{"key", key},
                    {"operator", "Exists"},
                    {"effect", "NoExecute"},
                    {"tolerationSeconds", kLostNodeSeconds}});
  }
  return {};
}

// The taints that the clouds put on spot nodes themselves.
json SpotTolerations() {
  json list = json::array();
  for (const auto& [key, value] : {std::pair("cloud.google.com/gke-spot", "true"),
                                   std::pair("kubernetes.azure.com/scalesetpriority", "spot")}) {
    list.push_back(
        {{"key", key}, {"operator", "Equal"}, {"value", value}, {"effect", "NoSchedule"}});
  }
  return list;
}

// Keeps a pod off spot nodes, which it knows by the clouds' labels. A node without such a label
// counts as an on-demand node.
json OffSpotNodes() {
  const auto not_in = [](const char* key, const char* value) -> json {
    return {{"key", key}, {"operator", "NotIn"}, {"values", json::array({value})}};
  };
  const json expressions = json::array({not_in("cloud.google.com/gke-spot", "true"),
                                        not_in("cloud.google.com/gke-preemptible", "true"),
                                        not_in("eks.amazonaws.com/capacityType", "SPOT"),
                                        not_in("karpenter.sh/capacity-type", "spot"),
                                        not_in("kubernetes.azure.com/scalesetpriority", "spot"),
                                        not_in(names::kSpotLabel, "true")});
  const json term = {{"matchExpressions", expressions}};
  return {{"nodeAffinity",
           {{"requiredDuringSchedulingIgnoredDuringExecution",
             {{"nodeSelectorTerms", json::array({term})}}}}}};
}

// Selects nodes on which the operator's own image runs. It does not know what other images are for.
Status SelectPlatform(const PodOptions& options, const std::string& path, json* pod) {
  const std::string& platform = options.worker_platform;
  if (platform.empty() || MainContainer(*pod)["image"] != options.worker_image) return {};
  const std::size_t slash = platform.find('/');
  json spec = {{"nodeSelector",
                {{names::kOsLabel, platform.substr(0, slash)},
                 {names::kArchLabel, platform.substr(slash + 1)}}}};
  const json own = {{"nodeSelector", (*pod)["spec"].value("nodeSelector", json())}};
  RETURN_IF_ERROR(Merge(own, path + ".spec", &spec));
  (*pod)["spec"]["nodeSelector"] = std::move(spec["nodeSelector"]);
  return {};
}

// Prefers other nodes than those that the job avoids, after the template's own preferences. It only
// prefers: a required term by hostname makes Karpenter ignore the pod.
Status AvoidNodes(const api::SwarmJobStatus& status, const std::string& path, json* pod) {
  json hostnames = json::array();
  for (const api::NodeStatus& node : status.nodes) {
    if (node.avoided) hostnames.push_back(node.hostname);
  }
  if (hostnames.empty()) return {};
  const json other = {
      {"key", names::kHostnameLabel}, {"operator", "NotIn"}, {"values", std::move(hostnames)}};
  const json::json_pointer place(
      "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution");
  json terms = pod->contains(place) ? pod->at(place) : json::array();
  if (!terms.is_array()) return InvalidArgument(path + place.to_string() + ": is not a list");
  terms.push_back({{"weight", 100}, {"preference", {{"matchExpressions", json::array({other})}}}});
  json affinity;
  affinity[place] = std::move(terms);
  return Merge(affinity, path, pod);
}

// Adds the expressions to each required term of node affinity, since a node needs to meet one term
// only.
Status RequireOfNodes(const json& expressions, const std::string& path, json* pod) {
  const json::json_pointer place(
      "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
      "nodeSelectorTerms");
  json terms = pod->contains(place) ? pod->at(place) : json::array();
  const std::string at = path + place.to_string();
  if (!terms.is_array()) return InvalidArgument(at + ": is not a list");
  if (terms.empty()) terms.push_back(json::object());
  for (json& term : terms) {
    if (!term.is_object()) return InvalidArgument(at + ": has an item that is not a mapping");
    json& list = term["matchExpressions"];
    if (list.is_null()) list = json::array();
    if (!list.is_array()) return InvalidArgument(at + ": has matchExpressions that are no list");
    list.insert(list.end(), expressions.begin(), expressions.end());
  }
  json affinity;
  affinity[place] = std::move(terms);
  return Merge(affinity, path, pod);
}

// Applies what the queue of the job adds to a pod set.
Status Place(const JobView& view, const std::string& pod_set, const std::string& path, json* pod) {
  const auto found = view.placements.find(pod_set);
  if (found == view.placements.end()) return {};
  const json selector = {{"spec", {{"nodeSelector", found->second.node_selector}}}};
  RETURN_IF_ERROR(Merge(selector, path, pod));
  json& list = (*pod)["spec"]["tolerations"];
  if (list.is_null()) list = json::array();
  if (!list.is_array()) return InvalidArgument(path + ".spec.tolerations: is not a list");
  for (const json& each : ParseRaw(found->second.tolerations)) {
    if (std::ranges::find(list, each) == list.end()) list.push_back(each);
  }
  return {};
}

// Where no labels are selected, Kubernetes would count no pods. The job's workers are meant.
Status SpreadOverTopology(const JobView& view, const std::string& path, json* pod) {
  json& spec = (*pod)["spec"];
  if (!spec.contains("topologySpreadConstraints")) return {};
  json& constraints = spec["topologySpreadConstraints"];
  if (!constraints.is_array()) {
    return InvalidArgument(path + ".spec.topologySpreadConstraints: is not a list");
  }
  for (json& each : constraints) {
    if (!each.is_object() || each.contains("labelSelector")) continue;
    each["labelSelector"] = {
        {"matchLabels",
         {{names::kJobLabel, view.name}, {names::kRoleLabel, names::RoleName(PodRole::kWorker)}}}};
  }
  return {};
}

// What an error about the pool's finished pod names.
std::string TemplatePath(const api::Pool& pool) {
  return pool.podTemplate.text.empty() ? "spec.workers.template"
                                       : "spec.workers.pools[" + pool.name + "].template";
}

// Applies the pool: where its nodes are, and what a worker needs there.
Status PutPool(const api::Pool& pool, json* pod) {
  const std::string path = TemplatePath(pool);
  RETURN_IF_ERROR(Merge(ParseRaw(pool.podTemplate), path, pod));
  if (!pool.nodeSelector.empty()) {
    const json selector = {{"spec", {{"nodeSelector", pool.nodeSelector}}}};
    RETURN_IF_ERROR(Merge(selector, path, pod));
  }
  if (const json expressions = ParseRaw(pool.matchExpressions); expressions.is_array()) {
    RETURN_IF_ERROR(RequireOfNodes(expressions, path, pod));
  }
  if (const json resources = ParseRaw(pool.resources); resources.is_object()) {
    json& own = MainContainer(*pod)["resources"];
    if (own.is_object()) {  // its claims stay
      own.erase("limits");
      own.erase("requests");
    }
    RETURN_IF_ERROR(Merge(resources, path + ".spec.containers.resources", &own));
  }
  return AddTolerations(pool, path, pod);
}

Result<std::vector<std::string>> DevicesFor(const json& pod) {
  const json& annotations = pod["metadata"]["annotations"];
  const auto named = annotations.find(names::kDeviceAnnotation);
  if (named != annotations.end() && named->is_string()) {
    auto devices = ParseDevices(named->get<std::string>());
    if (!devices.ok()) return devices.status().WithContext(names::kDeviceAnnotation);
    return devices;
  }
  const json resources = pod["spec"]["containers"][0].value("resources", json());
  std::vector<std::string> devices = DevicesOf(resources);
  const bool claims = resources.is_object() && !resources.value("claims", json()).empty();
  if (claims && devices.front() == "cpu") {
    return InvalidArgument(
        "resources.claims of the container worker does not say which devices it gives; name them"
        " in the template's annotation " +
        std::string(names::kDeviceAnnotation) + ", such as cuda:0, or cpu where none computes");
  }
  return devices;
}

// A worker's pod of the two lower layers.
Result<json> WantedWorkerPod(const api::Spec& spec, const Role& role, const api::Pool& pool,
                             const PodOptions& options) {
  const std::string path = "spec.workers.template";
  json pod = DefaultPod(role, options);
  // Autoscalers do not know this pod's controller, and would assume that nothing recreates the pod.
  pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "true";
  RETURN_IF_ERROR(Merge(ParseRaw(spec.workers.podTemplate), path, &pod));
  RETURN_IF_ERROR(PutPool(pool, &pod));
  RETURN_IF_ERROR(SelectPlatform(options, TemplatePath(pool), &pod));
  return pod;
}

// Tells a worker the gateways of its cluster and of the trainer's, as far as there are any. In the
// environment, because programs of the version before do not know the flags.
void UseGateways(const JobView& view, const Role& role, const std::string& cluster,
                 const std::map<std::string, std::string>& gateways, json* pod) {
  if (gateways.empty()) return;
  const auto& [ns, job] = std::tie(view.ns, view.name);
  json& env = MainContainer(*pod)["env"];
  const auto tell = [&env](const char* name, const std::string& value) {
    env.push_back({{"name", name}, {"value", value}});
  };
  tell("SWARM_CLUSTER", cluster);
  if (const auto own = gateways.find(cluster); own != gateways.end()) {
    tell("SWARM_GATEWAY", own->second + "/" + names::WorkerHost(ns, job, role.pod));
    // The names by which the cluster's DNS knows the pod.
    (*pod)["spec"]["hostname"] = role.pod;
    (*pod)["spec"]["subdomain"] = names::WorkersServiceName(job);
  }
  const auto home = gateways.find(names::kHomeCluster);
  if (cluster != names::kHomeCluster && home != gateways.end()) {
    const std::string trainer = names::TrainerAddress(ns, job);
    tell("SWARM_TRAINER_GATEWAY", home->second + "/" + trainer.substr(0, trainer.rfind(':')));
  }
}

}  // namespace

PodShares SharesOfPod(const api::Spec& spec, const api::Pool& pool) {
  const auto pod = WantedWorkerPod(spec, MakeRole("", PodRole::kWorker, 0, 0), pool, {});
  if (!pod.ok()) return {};
  const auto devices = DevicesFor(*pod);
  if (!devices.ok() || devices->empty()) return {};
  const json& container = (*pod)["spec"]["containers"][0];
  return {.workers = devices->size(),
          .on_device = devices->front() != "cpu",
          .memory_bytes = MemoryOf(container.value("resources", json())) / devices->size()};
}

std::uint64_t WorkersOfPod(const api::Spec& spec, const api::Pool& pool) {
  return SharesOfPod(spec, pool).workers;
}

Result<json> BuildWorkerPod(const JobView& view, std::uint64_t ordinal, const api::Pool& pool,
                            const PodOptions& options) {
  const api::Spec& spec = SpecOf(view);
  const std::string& job = view.name;
  const Role role = MakeRole(job, PodRole::kWorker, ordinal, plan::WorkerGraceSeconds(spec));
  ASSIGN_OR_RETURN(json pod, WantedWorkerPod(spec, role, pool, OptionsFor(view, options)));
  const std::string path = TemplatePath(pool);
  auto wanted = DevicesFor(pod);
  if (!wanted.ok()) return wanted.status().WithContext(path);
  const std::vector<std::string> devices = *std::move(wanted);
  const json resources = MainContainer(pod).value("resources", json());
  json required = RequiredPod(view, role);
  required["metadata"]["labels"][names::kPoolLabel] = pool.name;
  required["metadata"]["labels"][names::kOrdinalLabel] = std::to_string(ordinal);
  json& container = MainContainer(required);
  container["env"] = json::array(
      {{{"name", "POD_IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
       RegionOfPod()});
  UseGateways(view, role, pool.cluster.empty() ? names::kHomeCluster : pool.cluster,
              options.gateways, &required);
  if (CanProveItself(options, pod)) ProveIdentity(view, *options.proof, &required);
  WorkerFlags flags = CommonFlags(view);
  flags.role = WorkerRole::kStage;
  flags.id = role.pod;
  flags.trainer = names::TrainerAddress(view.ns, job);
  flags.advertise = "$(POD_IP):" + std::to_string(names::kWirePort);
  flags.threads = std::max(1, ThreadsOf(resources) / static_cast<int>(devices.size()));
  if (devices.size() == 1) {
    flags.device = devices.front();
  } else {
    flags.devices = devices;
    required["metadata"]["labels"][names::kWorkersLabel] = std::to_string(devices.size());
  }
  flags.drain_seconds = static_cast<int>(spec.preemption.drainSeconds);
  flags.memory_budget = spec.workers.memoryBudgetBytes;
  container["args"] = ToArguments(flags);
  RETURN_IF_ERROR(Place(view, names::WorkersPodSet(pool.name), path, &pod));
  RETURN_IF_ERROR(AvoidNodes(view.status, path, &pod));
  RETURN_IF_ERROR(SpreadOverTopology(view, path, &pod));
  RETURN_IF_ERROR(Merge(required, path, &pod));
  return pod;
}

Result<json> BuildTrainerPod(const JobView& view, std::uint64_t term,
                             const std::vector<std::uint64_t>& layout, const PodOptions& options) {
  const api::Spec& spec = SpecOf(view);
  const std::string& job = view.name;
  const Role role = MakeRole(job, PodRole::kTrainer, term, plan::kTrainerGraceSeconds);
  const std::string path = "spec.trainer.template";
  const PodOptions of_job = OptionsFor(view, options);
  json pod = DefaultPod(role, of_job);
  if (spec.trainer.allowSpot) {
    pod["spec"]["tolerations"] = SpotTolerations();
  } else {
    pod["spec"]["affinity"] = OffSpotNodes();
  }
  pod["metadata"]["annotations"] = {{"karpenter.sh/do-not-disrupt", "true"},
                                    {"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"}};
  RETURN_IF_ERROR(Merge(ParseRaw(spec.trainer.podTemplate), path, &pod));
  RETURN_IF_ERROR(SelectPlatform(of_job, path, &pod));
  json required = RequiredPod(view, role);
  required["metadata"]["labels"][names::kTermLabel] = std::to_string(term);
  required["metadata"]["annotations"][names::kMadeOfAnnotation] = view.trainer_part;
  required["spec"]["volumes"].push_back(
      {{"name", "job"}, {"configMap", {{"name", names::ConfigMapName(job)}}}});
  json& container = MainContainer(required);
  container["volumeMounts"].push_back(Mount("job", kJobFolder, true));
  container["ports"].push_back({{"name", "page"}, {"containerPort", names::kPagePort}});
  container["env"] = json::array(
      {{{"name", "SWARM_PAGE"}, {"value", "0.0.0.0:" + std::to_string(names::kPagePort)}}});
  if (HasDataCopies(spec)) container["env"].push_back(RegionOfPod());
  WorkerFlags flags = CommonFlags(view);
  flags.role = WorkerRole::kTrainer;
  flags.job = std::string(kJobFolder) + "/job.json";
  flags.out = kStateFolder;
  flags.advertise = names::TrainerAddress(view.ns, job);
  flags.layout = layout;
  flags.term = term;
  flags.resume = true;
  flags.keep_workers = true;
  container["args"] = ToArguments(flags);
  RETURN_IF_ERROR(Place(view, names::kTrainerPodSet, path, &pod));
  RETURN_IF_ERROR(AvoidNodes(view.status, path, &pod));
  RETURN_IF_ERROR(Merge(required, path, &pod));
  return pod;
}

}  // namespace swarm::objects
