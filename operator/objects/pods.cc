// The two pods of build.h.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/objects/build.h"
#include "operator/objects/merge.h"
#include "operator/objects/names.h"
#include "operator/objects/resources.h"
#include "operator/plan/plan.h"
#include "worker/flags/flags.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

constexpr const char* kJobFolder = "/etc/swarmjob/job";
constexpr const char* kTlsFolder = "/etc/swarmjob/tls";
constexpr const char* kStateFolder = "/var/lib/swarmjob";
// How long a worker stays bound to a node that is not heard of any more. The trainer goes on
// without it after 3 s; its place is wanted for another.
constexpr int kLostNodeSeconds = 10;

struct Role {
  const char* name;  ///< of the role and of its container
  std::string pod;
  std::string identity;  ///< its keys in the Secret are IDENTITY.crt and IDENTITY.key
  std::uint64_t grace_seconds;
};

const api::Spec& SpecOf(const JobView& view) { return view.job.spec; }

json ParseRaw(const api::RawJson& raw) {
  return raw.text.empty() ? json() : json::parse(raw.text, nullptr, /*allow_exceptions=*/false);
}

json PodLabels(const JobView& view, const Role& role) {
  json labels = JobMetadata(view, "")["labels"];
  labels["app.kubernetes.io/component"] = role.name;
  labels[kRoleLabel] = role.name;
  // Kueue finds its pods by what the job was given.
  for (const auto& [key, value] : view.labels) {
    if (key.starts_with("kueue.x-k8s.io/")) labels[key] = value;
  }
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

// What a template may change: it satisfies the restricted Pod Security Standard, and leaves the
// user's number to the image or the namespace.
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

// What no template may change, but for the command's arguments.
json RequiredPod(const JobView& view, const Role& role) {
  json container = {
      {"name", role.name},
      {"command", json::array({"swarm-worker"})},
      {"ports", json::array({{{"name", "wire"}, {"containerPort", kWirePort}},
                             {{"name", "metrics"}, {"containerPort", kMetricsPort}}})},
      {"startupProbe", Probe("/healthz", 2, 150)},
      {"livenessProbe", Probe("/healthz", 10, 6)},
      {"readinessProbe", Probe("/readyz", 2, 1)},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"volumeMounts", json::array({Mount("identity", kTlsFolder, true)})}};
  if (const std::string& keys = SpecOf(view).storage.secretName; !keys.empty()) {
    container["envFrom"] = json::array({{{"secretRef", {{"name", keys}}}}});
  }
  const json identity = {
      {"name", "identity"},
      {"secret",
       {{"secretName", IdentitiesSecretName(view.name)},
        {"items", json::array({{{"key", "ca.crt"}, {"path", "ca.crt"}},
                               {{"key", role.identity + ".crt"}, {"path", "tls.crt"}},
                               {{"key", role.identity + ".key"}, {"path", "tls.key"}}})}}}};
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
  return {.listen = "0.0.0.0:" + std::to_string(kWirePort),
          .metrics_listen = "0.0.0.0:" + std::to_string(kMetricsPort),
          .job_uid = view.uid,
          .tls_ca = tls + "/ca.crt",
          .tls_cert = tls + "/tls.crt",
          .tls_key = tls + "/tls.key"};
}

// The first container is the role's own: the lowest layer put it there.
json& MainContainer(json& pod) { return pod["spec"]["containers"][0]; }

bool Tolerates(const json& tolerations, const std::string& key) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const json& each) {
    return each.is_object() && each.contains("key") && each["key"] == key;
  });
}

// The template's, the pool's, and for nodes that are not heard of: without these Kubernetes adds
// the same with 300 s.
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

// Nodes that the clouds call spot, by the labels they put on them. A node without these labels is
// none.
json OffSpotNodes() {
  const auto not_in = [](const char* key, const char* value) -> json {
    return {{"key", key}, {"operator", "NotIn"}, {"values", json::array({value})}};
  };
  const json expressions = json::array({not_in("cloud.google.com/gke-spot", "true"),
                                        not_in("cloud.google.com/gke-preemptible", "true"),
                                        not_in("eks.amazonaws.com/capacityType", "SPOT"),
                                        not_in("karpenter.sh/capacity-type", "spot"),
                                        not_in("kubernetes.azure.com/scalesetpriority", "spot"),
                                        not_in(kSpotLabel, "true")});
  const json term = {{"matchExpressions", expressions}};
  return {{"nodeAffinity",
           {{"requiredDuringSchedulingIgnoredDuringExecution",
             {{"nodeSelectorTerms", json::array({term})}}}}}};
}

// Where the pool is, and what one of its workers needs there.
Status PutPool(const api::Pool& pool, const std::string& path, json* pod) {
  if (!pool.nodeSelector.empty()) {
    const json selector = {{"spec", {{"nodeSelector", pool.nodeSelector}}}};
    RETURN_IF_ERROR(Merge(selector, path, pod));
  }
  if (const json resources = ParseRaw(pool.resources); resources.is_object()) {
    MainContainer(*pod)["resources"] = resources;
  }
  return AddTolerations(pool, path, pod);
}

std::string DeviceFor(const json& pod) {
  const json& annotations = pod["metadata"]["annotations"];
  const auto named = annotations.find(kDeviceAnnotation);
  if (named != annotations.end() && named->is_string()) return named->get<std::string>();
  return DeviceOf(pod["spec"]["containers"][0].value("resources", json()));
}

}  // namespace

Result<json> BuildWorkerPod(const JobView& view, std::uint64_t ordinal, const api::Pool& pool,
                            const PodOptions& options) {
  const api::Spec& spec = SpecOf(view);
  const std::string& job = view.name;
  const Role role{kWorkerRole, WorkerName(job, ordinal), "w" + std::to_string(ordinal),
                  plan::WorkerGraceSeconds(spec)};
  const std::string path = "spec.workers.template";
  json pod = DefaultPod(role, options);
  // Autoscalers take a pod whose controller they do not know for one that is lost when moved.
  pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "true";
  RETURN_IF_ERROR(Merge(ParseRaw(spec.workers.podTemplate), path, &pod));
  RETURN_IF_ERROR(PutPool(pool, path, &pod));
  const json resources = MainContainer(pod).value("resources", json());
  json required = RequiredPod(view, role);
  required["metadata"]["labels"][kPoolLabel] = pool.name;
  required["metadata"]["labels"][kOrdinalLabel] = std::to_string(ordinal);
  json& container = MainContainer(required);
  container["env"] = json::array(
      {{{"name", "POD_IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
       {{"name", "SWARM_REGION"},
        {"valueFrom",
         {{"fieldRef", {{"fieldPath", "metadata.labels['topology.kubernetes.io/region']"}}}}}}});
  WorkerFlags flags = CommonFlags(view);
  flags.role = WorkerRole::kStage;
  flags.id = role.pod;
  flags.trainer = TrainerAddress(view.ns, job);
  flags.advertise = "$(POD_IP):" + std::to_string(kWirePort);
  flags.threads = static_cast<int>(ThreadsOf(resources));
  flags.device = DeviceFor(pod);
  flags.drain_seconds = static_cast<int>(spec.preemption.drainSeconds);
  container["args"] = ToArguments(flags);
  RETURN_IF_ERROR(Merge(required, path, &pod));
  return pod;
}

Result<json> BuildTrainerPod(const JobView& view, std::uint64_t term,
                             const std::vector<std::uint64_t>& layout, const PodOptions& options) {
  const api::Spec& spec = SpecOf(view);
  const std::string& job = view.name;
  const Role role{kTrainerRole, TrainerPodName(job, term), "trainer", plan::kTrainerGraceSeconds};
  const std::string path = "spec.trainer.template";
  json pod = DefaultPod(role, options);
  pod["spec"]["affinity"] = OffSpotNodes();
  pod["metadata"]["annotations"] = {{"karpenter.sh/do-not-disrupt", "true"},
                                    {"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"}};
  RETURN_IF_ERROR(Merge(ParseRaw(spec.trainer.podTemplate), path, &pod));
  json required = RequiredPod(view, role);
  required["metadata"]["labels"][kTermLabel] = std::to_string(term);
  required["spec"]["volumes"].push_back(
      {{"name", "job"}, {"configMap", {{"name", ConfigMapName(job)}}}});
  json& container = MainContainer(required);
  container["volumeMounts"].push_back(Mount("job", kJobFolder, true));
  WorkerFlags flags = CommonFlags(view);
  flags.role = WorkerRole::kTrainer;
  flags.job = std::string(kJobFolder) + "/job.json";
  flags.out = kStateFolder;
  flags.advertise = TrainerAddress(view.ns, job);
  flags.layout = layout;
  flags.term = term;
  flags.resume = true;
  flags.keep_workers = true;
  container["args"] = ToArguments(flags);
  RETURN_IF_ERROR(Merge(required, path, &pod));
  return pod;
}

}  // namespace swarm::objects
