#include "operator/objects/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/parse.h"
#include "operator/names/names.h"
#include "operator/objects/testing/job_under_test.h"
#include "worker/flags/flags.h"

namespace swarm::objects {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

const PodOptions kOptions{.worker_image = "registry/worker:1"};

json Pod(Result<json> pod) {
  EXPECT_TRUE(pod.ok()) << pod.status().ToString();
  return pod.ok() ? *std::move(pod) : json();
}
json WorkerPod(const JobView& view, std::uint64_t ordinal = 7) {
  return Pod(BuildWorkerPod(view, ordinal, view.job.spec.workers.pools.front(), kOptions));
}
json TrainerPod(const JobView& view) { return Pod(BuildTrainerPod(view, 3, {2, 1}, kOptions)); }

const json& Container(const json& pod) { return pod["spec"]["containers"][0]; }
std::vector<std::string> Arguments(const json& pod) { return Container(pod)["args"]; }

/// The flags that swarm-worker reads in this pod.
WorkerFlags FlagsOf(const json& pod) {
  const auto command = ParseWorkerFlags(Arguments(pod));
  EXPECT_TRUE(command.ok()) << command.status().ToString();
  return command.ok() ? command->flags : WorkerFlags();
}

/// The item of a list with this name.
json Named(const json& list, const std::string& name) {
  for (const json& item : list) {
    if (item["name"] == name) return item;
  }
  return {};
}

TEST(BuildTest, AWorkersPodIsTheJobsOwnAndSaysWhatItIs) {
  const json pod = WorkerPod(JobWith("{}"));
  EXPECT_EQ(pod["metadata"]["name"], "tiny-w7");
  EXPECT_EQ(pod["metadata"]["namespace"], "team");
  EXPECT_EQ(pod["metadata"]["labels"], json::parse(R"({
      "app.kubernetes.io/name": "swarmjob", "app.kubernetes.io/instance": "tiny",
      "app.kubernetes.io/component": "worker", "app.kubernetes.io/managed-by": "swarm-operator",
      "swarmjob.dev/job": "tiny", "swarmjob.dev/role": "worker", "swarmjob.dev/pool": "default",
      "swarmjob.dev/ordinal": "7"})"))
      << "and no label of the job's queue: Kueue would ask for the quota of each pod again";
  EXPECT_EQ(pod["metadata"]["ownerReferences"], json::parse(R"([{
      "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "name": "tiny", "uid": "1-2-3",
      "controller": true, "blockOwnerDeletion": true}])"));
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 30);
}

TEST(BuildTest, AWorkerIsToldWhoItIsAndWhereItsTrainerIs) {
  const json pod = WorkerPod(JobWith(
      R"({"preemption": {"drainSeconds": 9}, "workers": {"memoryBudgetBytes": 1073741824}})"));
  EXPECT_EQ(Container(pod)["image"], "registry/worker:1");
  EXPECT_EQ(Container(pod)["command"], json::array({"swarm-worker"}));
  EXPECT_EQ(FlagsOf(pod), (WorkerFlags{.role = WorkerRole::kStage,
                                       .listen = "0.0.0.0:7000",
                                       .advertise = "$(POD_IP):7000",
                                       .metrics_listen = "0.0.0.0:9090",
                                       .job_uid = "1-2-3",
                                       .tls_ca = "/etc/swarmjob/tls/ca.crt",
                                       .tls_cert = "/etc/swarmjob/tls/tls.crt",
                                       .tls_key = "/etc/swarmjob/tls/tls.key",
                                       .id = "tiny-w7",
                                       .trainer = "tiny-trainer.team.svc:7000",
                                       .threads = 1,
                                       .device = "cpu",
                                       .drain_seconds = 9,
                                       .memory_budget = 1ull << 30}));
  EXPECT_EQ(Named(Container(pod)["env"], "POD_IP")["valueFrom"]["fieldRef"]["fieldPath"],
            "status.podIP");
}

TEST(BuildTest, PodsOfTheOperatorsImageGoToNodesOfItsPlatform) {
  const PodOptions options{.worker_image = "registry/worker:1", .worker_platform = "linux/arm64"};
  const auto selector = [&options](const JobView& view) {
    return Pod(BuildWorkerPod(view, 7, view.job.spec.workers.pools.front(), options))["spec"].value(
        "nodeSelector", json());
  };
  EXPECT_EQ(selector(JobWith(R"({"workers": {"pools": [{"name": "a", "nodeSelector":
                {"disk": "ssd"}}]}})")),
            json::parse(R"({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64",
                            "disk": "ssd"})"));
  EXPECT_EQ(selector(JobWith(R"({"workers": {"template": {"spec": {"nodeSelector":
                {"kubernetes.io/arch": "amd64"}}}}})")),
            json::parse(R"({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"})"))
      << "the template knows better";
  EXPECT_EQ(selector(JobWith(R"({"workers": {"template": {"spec": {"containers":
                [{"name": "worker", "image": "mine"}]}}}})")),
            json())
      << "the operator does not know that image";
  const JobView plain = JobWith("{}");
  EXPECT_EQ(Pod(BuildTrainerPod(plain, 1, {1, 1}, options))["spec"]["nodeSelector"].size(), 2u);
  EXPECT_FALSE(WorkerPod(plain)["spec"].contains("nodeSelector")) << "no platform is known";
}

/// The operator gives its flags to programs of the version before, too (docs/operator.md,
/// Upgrades). Before a name comes in here, what it says goes by the environment for one version.
TEST(BuildTest, PodsHaveOnlyFlagsThatProgramsOfTheVersionBeforeKnow) {
  const std::set<std::string> known = {
      "--advertise",     "--device",         "--devices",      "--drain-seconds", "--id",
      "--job",           "--job-uid",        "--keep-workers", "--layout",        "--listen",
      "--memory-budget", "--metrics-listen", "--out",          "--resume",        "--role",
      "--term",          "--threads",        "--tls-ca",       "--tls-cert",      "--tls-key",
      "--trainer"};
  const JobView view = JobWith(R"({"workers": {"memoryBudgetBytes": 1073741824, "pools": [
      {"name": "one"}, {"name": "gpus", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}})");
  std::vector<json> pods{Pod(BuildTrainerPod(view, 2, {1, 1}, kOptions))};
  for (const api::Pool& pool : view.job.spec.workers.pools) {
    pods.push_back(Pod(BuildWorkerPod(view, 7, pool, kOptions)));
  }
  std::set<std::string> given;
  for (const json& pod : pods) {
    for (const json& argument : Container(pod)["args"]) {
      const auto text = argument.get<std::string>();
      given.insert(text.substr(0, text.find('=')));
    }
  }
  EXPECT_THAT(known, IsSupersetOf(given));
  EXPECT_TRUE(given.contains("--devices") && given.contains("--term"));
}

TEST(BuildTest, AJobThatHasBegunKeepsItsImage) {
  JobView view = JobWith("{}");
  view.status.image = {.name = "registry/worker:0", .platform = "linux/arm64"};
  const PodOptions options{.worker_image = "registry/worker:1", .worker_platform = "linux/amd64"};
  for (const json& pod :
       {Pod(BuildTrainerPod(view, 1, {1, 1}, options)),
        Pod(BuildWorkerPod(view, 7, view.job.spec.workers.pools.front(), options))}) {
    EXPECT_EQ(Container(pod)["image"], "registry/worker:0");
    EXPECT_EQ(pod["spec"]["nodeSelector"]["kubernetes.io/arch"], "arm64");
  }
}

TEST(BuildTest, AWorkerIsToldTheGatewayOfItsClusterAndThatOfAFarTrainer) {
  const JobView view = JobWith(
      R"({"workers": {"pools": [{"name": "here"}, {"name": "there", "cluster": "west"}]}})");
  PodOptions options = kOptions;
  const auto worker = [&](const std::string& pool) {
    const auto& pools = view.job.spec.workers.pools;
    return Pod(BuildWorkerPod(view, 7, pools[pool == "here" ? 0 : 1], options));
  };
  const auto told = [&](const json& pod) {
    std::map<std::string, std::string> variables;
    for (const json& each : Container(pod)["env"]) {
      if (each.contains("value")) variables[each["name"]] = each["value"];
    }
    return variables;
  };
  EXPECT_TRUE(told(worker("here")).empty()) << "the networks of the clusters are one";

  options.gateways = {{"home", "home.example:7444"}, {"west", "west.example:443"}};
  EXPECT_EQ(told(worker("here")),
            (std::map<std::string, std::string>{
                {"SWARM_CLUSTER", "home"},
                {"SWARM_GATEWAY", "home.example:7444/tiny-w7.tiny-workers.team.svc"}}));
  const json there = worker("there");
  EXPECT_EQ(told(there),
            (std::map<std::string, std::string>{
                {"SWARM_CLUSTER", "west"},
                {"SWARM_GATEWAY", "west.example:443/tiny-w7.tiny-workers.team.svc"},
                {"SWARM_TRAINER_GATEWAY", "home.example:7444/tiny-trainer.team.svc"}}));
  EXPECT_EQ(there["spec"]["hostname"], "tiny-w7");
  EXPECT_EQ(there["spec"]["subdomain"], "tiny-workers");

  options.gateways.erase("west");
  EXPECT_EQ(told(worker("there")).count("SWARM_GATEWAY"), 0u) << "its own cluster has none";
  EXPECT_FALSE(worker("there")["spec"].contains("subdomain"));
}

TEST(BuildTest, PodsPreferOtherNodesThanThoseThatTheirJobAvoids) {
  const char* const preferred = "preferredDuringSchedulingIgnoredDuringExecution";
  JobView view = JobWith(R"({"workers": {"template": {"spec": {"affinity": {"nodeAffinity": {
      "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference":
          {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}]}}}}}})");
  const json own = WorkerPod(view)["spec"]["affinity"]["nodeAffinity"][preferred];
  EXPECT_EQ(own.size(), 1u);
  view.status.nodes = {{.name = "a", .hostname = "ip-a", .avoided = true},
                       {.name = "b", .hostname = "ip-b"},
                       {.name = "c", .hostname = "ip-c", .avoided = true}};
  const json avoid = json::parse(R"({"weight": 100, "preference": {"matchExpressions": [
      {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ip-a", "ip-c"]}]}})");
  EXPECT_EQ(WorkerPod(view)["spec"]["affinity"]["nodeAffinity"][preferred],
            json::array({own[0], avoid}));
  const json trainer = TrainerPod(view)["spec"]["affinity"]["nodeAffinity"];
  EXPECT_EQ(trainer[preferred], json::array({avoid}));
  EXPECT_TRUE(trainer.contains("requiredDuringSchedulingIgnoredDuringExecution"))
      << "it still keeps off spot nodes";
}

TEST(BuildTest, ATemplateWhosePreferencesAreNoListIsNamed) {
  JobView view = JobWith(R"({"workers": {"template": {"spec": {"affinity": {"nodeAffinity": {
      "preferredDuringSchedulingIgnoredDuringExecution": "fast"}}}}}})");
  view.status.nodes = {{.name = "a", .hostname = "ip-a", .avoided = true}};
  const auto pod = BuildWorkerPod(view, 1, view.job.spec.workers.pools.front(), kOptions);
  EXPECT_EQ(pod.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(pod.status().message(), HasSubstr("preferredDuringScheduling"));
}

TEST(BuildTest, APodMountsItsOwnIdentityOnly) {
  EXPECT_EQ(Named(WorkerPod(JobWith("{}"))["spec"]["volumes"], "identity")["secret"],
            json::parse(R"({"secretName": "tiny-w7-identity"})"));
  EXPECT_EQ(Named(TrainerPod(JobWith("{}"))["spec"]["volumes"], "identity")["secret"],
            json::parse(R"({"secretName": "tiny-trainer-3-identity"})"));
}

TEST(BuildTest, APodThatProvesItselfHasATokenForHomeAndNoSecret) {
  PodOptions options = kOptions;
  options.proof = enrol::ProofPlace{"203.0.113.9:7443", "ab12", "west", ""};
  const JobView view = JobWith("{}");
  const json pod = *BuildWorkerPod(view, 7, view.job.spec.workers.pools.front(), options);
  EXPECT_EQ(pod["metadata"]["labels"]["swarmjob.dev/identity"], "proof");
  EXPECT_EQ(Named(pod["spec"]["volumes"], "identity"), json::parse(R"({"name": "identity",
      "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})"));
  EXPECT_EQ(Named(pod["spec"]["volumes"], "proof"), json::parse(R"({"name": "proof",
      "projected": {"sources": [{"serviceAccountToken": {"audience": "swarmjob.dev/enrol/1-2-3",
          "expirationSeconds": 600, "path": "token"}}]}})"));
  EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], false);
  const json& container = pod["spec"]["containers"][0];
  const auto variable = [&](const char* name) { return Named(container["env"], name)["value"]; };
  EXPECT_EQ(variable("SWARM_PROOF_HOME"), "203.0.113.9:7443");
  EXPECT_EQ(variable("SWARM_PROOF_FINGERPRINT"), "ab12");
  EXPECT_EQ(variable("SWARM_PROOF_CLUSTER"), "west");
  EXPECT_EQ(variable("SWARM_PROOF_TOKEN_FILE"), "/etc/swarmjob/proof/token");
  EXPECT_EQ(FlagsOf(pod), FlagsOf(WorkerPod(view))) << "an earlier program knows them all";
}

TEST(BuildTest, AnImageThatMayNotKnowProofsGetsASecret) {
  PodOptions options = kOptions;
  options.proof = enrol::ProofPlace{"203.0.113.9:7443", "ab12", "west", ""};
  JobView begun = JobWith("{}");
  begun.status.image.name = "worker:earlier";
  const JobView own = JobWith(
      R"({"workers": {"template": {"spec": {"containers": [{"name": "worker", "image": "mine"}]}}}})");
  for (const JobView& view : {begun, own}) {
    const json pod = *BuildWorkerPod(view, 7, view.job.spec.workers.pools.front(), options);
    EXPECT_TRUE(Named(pod["spec"]["volumes"], "identity").contains("secret"));
    EXPECT_FALSE(pod["metadata"]["labels"].contains("swarmjob.dev/identity"));
  }
}

TEST(BuildTest, TheIdentityOfAPodIsOwnedByThePodAlone) {
  const json secret = BuildIdentitySecret(JobWith("{}"), "tiny-w7", "uid-of-w7");
  EXPECT_EQ(secret["metadata"]["name"], "tiny-w7-identity");
  EXPECT_EQ(secret["metadata"]["namespace"], "team");
  EXPECT_EQ(secret["metadata"]["ownerReferences"], json::parse(R"([{"apiVersion": "v1",
      "kind": "Pod", "name": "tiny-w7", "uid": "uid-of-w7", "controller": true}])"));
}

TEST(BuildTest, TheTrainerIsToldItsTermItsLayoutAndTheManifest) {
  const json pod = TrainerPod(JobWith("{}"));
  EXPECT_EQ(pod["metadata"]["name"], "tiny-trainer-3");
  EXPECT_EQ(pod["metadata"]["labels"]["swarmjob.dev/term"], "3");
  EXPECT_EQ(FlagsOf(pod), (WorkerFlags{.role = WorkerRole::kTrainer,
                                       .listen = "0.0.0.0:7000",
                                       .advertise = "tiny-trainer.team.svc:7000",
                                       .metrics_listen = "0.0.0.0:9090",
                                       .job_uid = "1-2-3",
                                       .tls_ca = "/etc/swarmjob/tls/ca.crt",
                                       .tls_cert = "/etc/swarmjob/tls/tls.crt",
                                       .tls_key = "/etc/swarmjob/tls/tls.key",
                                       .job = "/etc/swarmjob/job/job.json",
                                       .out = "/var/lib/swarmjob",
                                       .layout = {2, 1},
                                       .term = 3,
                                       .resume = true,
                                       .keep_workers = true}));
  EXPECT_EQ(Named(pod["spec"]["volumes"], "job")["configMap"]["name"], "tiny-job");
  EXPECT_THAT(Container(pod)["volumeMounts"],
              Contains(json::parse(
                  R"({"name": "job", "mountPath": "/etc/swarmjob/job", "readOnly": true})")));
}

TEST(BuildTest, TheTrainerKeepsOffSpotNodesAndAsksNotToBeMoved) {
  const json pod = TrainerPod(JobWith("{}"));
  const json& term = pod["spec"]["affinity"]["nodeAffinity"]
                        ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0];
  for (const char* label :
       {"cloud.google.com/gke-spot", "eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type",
        "kubernetes.azure.com/scalesetpriority", "swarmjob.dev/spot"}) {
    EXPECT_THAT(term["matchExpressions"].dump(), HasSubstr(label));
  }
  json annotations = pod["metadata"]["annotations"];
  annotations.erase(names::kMadeOfAnnotation);
  EXPECT_EQ(annotations, json::parse(R"({
      "karpenter.sh/do-not-disrupt": "true",
      "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})"));
  EXPECT_FALSE(WorkerPod(JobWith("{}"))["spec"].contains("affinity"));
}

TEST(BuildTest, ATrainersPodSaysOfWhichPartOfTheManifestItWasMade) {
  const auto made_of = [](const std::string& spec) {
    const json pod = TrainerPod(JobWith(spec));
    return pod["metadata"]["annotations"].value(names::kMadeOfAnnotation, "");
  };
  const std::string plain = made_of("{}");
  EXPECT_EQ(plain.size(), 32u);
  const std::string priced =
      R"("workers": {"pools": [{"name": "a", "machine": {"teraflops": 1, "dollarsPerHour": 1}}]})";
  EXPECT_EQ(made_of("{" + priced + R"(, "budget": {"dollars": 7}})"), made_of("{" + priced + "}"))
      << "it changes while a job runs";
  EXPECT_EQ(made_of(R"({"workers": {"replicas": 7}})"), made_of(R"({"workers": {"replicas": 8}})"));
  EXPECT_NE(made_of(R"({"trainer": {"allowSpot": true}})"), plain);
  EXPECT_NE(made_of(R"({"workers": {"minReplicas": 3}})"), plain) << "its flags have it";
}

TEST(BuildTest, ATrainerThatMayRunOnSpotNodesToleratesTheirTaints) {
  const json pod = TrainerPod(JobWith(R"({"trainer": {"allowSpot": true}})"));
  EXPECT_FALSE(pod["spec"].contains("affinity"));
  EXPECT_EQ(pod["spec"]["tolerations"], json::parse(R"([
      {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true",
       "effect": "NoSchedule"},
      {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot",
       "effect": "NoSchedule"}])"));
}

TEST(BuildTest, BothPodsSatisfyTheRestrictedPodSecurityStandard) {
  for (const json& pod : {WorkerPod(JobWith("{}")), TrainerPod(JobWith("{}"))}) {
    EXPECT_EQ(
        pod["spec"]["securityContext"],
        json::parse(R"({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})"));
    EXPECT_EQ(Container(pod)["securityContext"],
              json::parse(R"({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                              "capabilities": {"drop": ["ALL"]}})"));
    EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], false);
    for (const char* folder : {"/tmp", "/var/lib/swarmjob"}) {
      EXPECT_THAT(Container(pod)["volumeMounts"].dump(), HasSubstr(folder));
    }
  }
}

TEST(BuildTest, KubernetesProbesTheMetricsPort) {
  for (const json& pod : {WorkerPod(JobWith("{}")), TrainerPod(JobWith("{}"))}) {
    EXPECT_EQ(Container(pod)["startupProbe"]["httpGet"],
              json::parse(R"({"path": "/healthz", "port": "metrics"})"));
    EXPECT_EQ(Container(pod)["livenessProbe"]["httpGet"]["path"], "/healthz");
    EXPECT_EQ(Container(pod)["readinessProbe"]["httpGet"]["path"], "/readyz");
    EXPECT_EQ(Named(Container(pod)["ports"], "metrics")["containerPort"], 9090);
    EXPECT_EQ(Named(Container(pod)["ports"], "wire")["containerPort"], 7000);
  }
}

TEST(BuildTest, ATrainerServesThePageAndAProgramOfTheVersionBeforeDoesNotMind) {
  const json trainer = TrainerPod(JobWith("{}")), worker = WorkerPod(JobWith("{}"));
  EXPECT_EQ(Container(trainer)["env"],
            json::parse(R"([{"name": "SWARM_PAGE", "value": "0.0.0.0:9091"}])"));
  EXPECT_EQ(Named(Container(trainer)["ports"], "page")["containerPort"], 9091);
  EXPECT_THAT(worker.dump(), Not(HasSubstr("SWARM_PAGE")));
}

TEST(BuildTest, APoolSaysWhereAWorkerRunsAndWhatItNeeds) {
  const json pod = WorkerPod(JobWith(R"({"workers": {
      "template": {"spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "mine"}],
                            "containers": [{"name": "worker", "resources": {"limits": {"cpu": 1}}}]}},
      "pools": [{"name": "spot", "nodeSelector": {"zone": "a"},
                 "tolerations": [{"key": "spot", "operator": "Exists"}],
                 "resources": {"limits": {"cpu": "4", "amd.com/gpu": 1}}}]}})"));
  EXPECT_EQ(pod["metadata"]["labels"]["swarmjob.dev/pool"], "spot");
  EXPECT_EQ(pod["spec"]["nodeSelector"], json::parse(R"({"disk": "ssd", "zone": "a"})"));
  EXPECT_EQ(Container(pod)["resources"],
            json::parse(R"({"limits": {"cpu": "4", "amd.com/gpu": 1}})"));
  EXPECT_EQ(pod["spec"]["tolerations"][0]["key"], "mine");
  EXPECT_EQ(pod["spec"]["tolerations"][1]["key"], "spot");
  EXPECT_THAT(Arguments(pod), IsSupersetOf({"--threads=4", "--device=cuda:0"}));
}

/// The pod of a worker in the pool of this name.
json PodOfPool(const JobView& view, const std::string& name) {
  for (const api::Pool& pool : view.job.spec.workers.pools) {
    if (pool.name == name) return Pod(BuildWorkerPod(view, 7, pool, kOptions));
  }
  ADD_FAILURE() << "no pool " << name;
  return {};
}

TEST(BuildTest, AJobUsesGpusOfTwoVendorsEachWithItsImageAndWhatItNeeds) {
  const JobView view = JobWith(R"({"workers": {
      "template": {"spec": {"priorityClassName": "night", "containers": [
          {"name": "worker", "env": [{"name": "A", "value": "all"}, {"name": "B", "value": "all"}]}]}},
      "pools": [
        {"name": "green", "resources": {"limits": {"nvidia.com/gpu": 1}},
         "template": {"spec": {"runtimeClassName": "nvidia"}}},
        {"name": "red", "resources": {"limits": {"amd.com/gpu": 2}},
         "template": {"metadata": {"labels": {"team": "red"}}, "spec": {
             "volumes": [{"name": "kernels", "emptyDir": {}}],
             "containers": [{"name": "worker", "image": "rocm:1",
                             "env": [{"name": "B", "value": "red"}],
                             "volumeMounts": [{"name": "kernels", "mountPath": "/k"}]}]}}}]}})");
  const json green = PodOfPool(view, "green"), red = PodOfPool(view, "red");
  EXPECT_EQ(green["spec"]["runtimeClassName"], "nvidia");
  EXPECT_EQ(Container(green)["image"], "registry/worker:1");
  EXPECT_EQ(FlagsOf(green).device, "cuda:0");
  EXPECT_FALSE(red["spec"].contains("runtimeClassName"));
  EXPECT_EQ(Container(red)["image"], "rocm:1");
  EXPECT_EQ(FlagsOf(red).devices, (std::vector<std::string>{"cuda:0", "cuda:1"}));
  EXPECT_EQ(red["metadata"]["labels"]["team"], "red");
  EXPECT_EQ(Named(Container(red)["env"], "A")["value"], "all");
  EXPECT_EQ(Named(Container(red)["env"], "B")["value"], "red") << "the pool's has the last word";
  EXPECT_EQ(Named(red["spec"]["volumes"], "kernels")["emptyDir"], json::object());
  for (const json& pod : {green, red}) EXPECT_EQ(pod["spec"]["priorityClassName"], "night");
}

TEST(BuildTest, TheOwnFieldsOfAPoolCountBeforeItsTemplate) {
  const json pod = WorkerPod(JobWith(R"({"workers": {"pools": [
      {"name": "a", "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "pool"}],
       "resources": {"limits": {"cpu": 2}},
       "template": {"spec": {"nodeSelector": {"zone": "b", "disk": "ssd"},
           "tolerations": [{"key": "template"}],
           "containers": [{"name": "worker", "command": ["sh"],
                           "resources": {"limits": {"cpu": 9}, "requests": {"cpu": 9}}}]}}}]}})"));
  EXPECT_EQ(pod["spec"]["nodeSelector"], json::parse(R"({"zone": "a", "disk": "ssd"})"));
  EXPECT_EQ(pod["spec"]["tolerations"][0]["key"], "template");
  EXPECT_EQ(pod["spec"]["tolerations"][1]["key"], "pool");
  EXPECT_EQ(Container(pod)["resources"], json::parse(R"({"limits": {"cpu": 2}})"));
  EXPECT_EQ(Container(pod)["command"], json::array({"swarm-worker"}));
}

TEST(BuildTest, APoolKeepsOffNodesByTheirLabels) {
  const char* const required = "requiredDuringSchedulingIgnoredDuringExecution";
  const std::string pools = R"("pools": [{"name": "a", "matchExpressions": [
      {"key": "zone", "operator": "NotIn", "values": ["b"]},
      {"key": "mine", "operator": "DoesNotExist"}]}])";
  const json pod = WorkerPod(JobWith(R"({"workers": {)" + pools + "}}"));
  const json two = json::parse(R"([{"key": "zone", "operator": "NotIn", "values": ["b"]},
                                   {"key": "mine", "operator": "DoesNotExist"}])");
  EXPECT_EQ(pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"],
            json::array({{{"matchExpressions", two}}}));
  const json terms = WorkerPod(
      JobWith(R"({"workers": {"template": {"spec": {"affinity": {
      "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
          {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}]}}}}}, )" +
              pools + "}}"))["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"];
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_EQ(terms[0]["matchExpressions"], two) << "a node needs to meet one term only";
  EXPECT_EQ(terms[1]["matchExpressions"].size(), 3u);
}

TEST(BuildTest, WorkersSpreadAmongTheirOwnUnlessTheTemplateCountsOthers) {
  const json pod = WorkerPod(JobWith(R"({"workers": {"template": {"spec": {
      "topologySpreadConstraints": [
        {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
         "whenUnsatisfiable": "ScheduleAnyway"},
        {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"team": "a"}}}]}}}})"));
  const json& constraints = pod["spec"]["topologySpreadConstraints"];
  EXPECT_EQ(constraints[0]["labelSelector"],
            json::parse(R"({"matchLabels": {"swarmjob.dev/job": "tiny",
                                            "swarmjob.dev/role": "worker"}})"));
  EXPECT_EQ(constraints[1]["labelSelector"], json::parse(R"({"matchLabels": {"team": "a"}})"));
}

TEST(BuildTest, APoolWithResourceClaimsSaysWhatItsWorkersComputeOn) {
  const auto view = [](const std::string& annotation) {
    return JobWith(R"({"workers": {"pools": [{"name": "dra", "resources": {"limits": {"cpu": 4}},
        "template": {"metadata": {"annotations": {)" +
                   annotation + R"(}},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
                     "containers": [{"name": "worker", "resources": {
                         "claims": [{"name": "gpu"}]}}]}}}]}})");
  };
  const json pod = WorkerPod(view(R"("swarmjob.dev/device": "cuda:0")"));
  EXPECT_EQ(Container(pod)["resources"],
            json::parse(R"({"limits": {"cpu": 4}, "claims": [{"name": "gpu"}]})"));
  EXPECT_THAT(Arguments(pod), IsSupersetOf({"--device=cuda:0", "--threads=4"}));
  const JobView silent = view("");
  const auto refused =
      BuildWorkerPod(silent, 0, silent.job.spec.workers.pools.front(), kOptions).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("spec.workers.pools[dra].template"));
  EXPECT_THAT(refused.message(), HasSubstr("swarmjob.dev/device"));
}

TEST(BuildTest, AMistakeInAPoolsTemplateIsReportedThere) {
  const auto refusal = [](const std::string& spec) {
    const JobView view = JobWith(R"({"workers": {"pools": [{"name": "a", "matchExpressions": [
        {"key": "b", "operator": "Exists"}], "template": {"spec": )" +
                                 spec + "}}]}}");
    return BuildWorkerPod(view, 0, view.job.spec.workers.pools.front(), kOptions)
        .status()
        .message();
  };
  EXPECT_THAT(refusal(R"({"containers": {}})"),
              HasSubstr("spec.workers.pools[a].template.spec.containers"));
  EXPECT_THAT(refusal(R"({"topologySpreadConstraints": {}})"),
              HasSubstr("spec.topologySpreadConstraints"));
  for (const char* terms : {R"("x")", R"(["x"])", R"([{"matchExpressions": {}}])"}) {
    EXPECT_THAT(refusal(R"({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": )" +
                        std::string(terms) + "}}}}"),
                HasSubstr("nodeSelectorTerms"));
  }
}

TEST(BuildTest, AWholeGpuEachIsAWorkerOfThePod) {
  const JobView job = JobWith(R"({"workers": {"minReplicas": 3, "replicas": 9, "pools": [
      {"name": "big", "resources": {"limits": {"cpu": "10", "nvidia.com/gpu": 4}}}]}})");
  const json pod = WorkerPod(job);
  EXPECT_THAT(Arguments(pod), IsSupersetOf({"--devices=cuda:0,cuda:1,cuda:2,cuda:3", "--threads=2",
                                            "--id=tiny-w7"}));
  EXPECT_EQ(pod["metadata"]["labels"]["swarmjob.dev/workers"], "4");
  EXPECT_EQ(WorkersOfPod(job.job.spec, job.job.spec.workers.pools[0]), 4u);
  EXPECT_EQ(BuildDisruptionBudget(job)["spec"]["minAvailable"], 1);  // of 3 pods
  const json ports = BuildNetworkPolicy(job)["spec"]["ingress"][0]["ports"][0];
  EXPECT_EQ(ports["port"], 7000);
  EXPECT_EQ(ports["endPort"], 7063);
}

TEST(BuildTest, ATemplateMayNameTheDevices) {
  const json pod = WorkerPod(JobWith(R"({"workers": {"template": {
      "metadata": {"annotations": {"swarmjob.dev/device": "cuda:0,cuda:0"}}}}})"));
  EXPECT_THAT(Arguments(pod), Contains("--devices=cuda:0,cuda:0"));
  const JobView wrong = JobWith(R"({"workers": {"template": {
      "metadata": {"annotations": {"swarmjob.dev/device": "gpu"}}}}})");
  const auto built = BuildWorkerPod(wrong, 0, wrong.job.spec.workers.pools[0], {});
  EXPECT_EQ(built.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WorkersOfPod(wrong.job.spec, wrong.job.spec.workers.pools[0]), 1u);
}

TEST(BuildTest, AWorkerLeavesALostNodeWithinSecondsUnlessItsTemplateSaysOtherwise) {
  EXPECT_EQ(WorkerPod(JobWith("{}"))["spec"]["tolerations"], json::parse(R"([
      {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
       "tolerationSeconds": 10},
      {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
       "tolerationSeconds": 10}])"));
  const json pod = WorkerPod(JobWith(R"({"workers": {"template": {"spec": {"tolerations": [
      {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]}}}})"));
  EXPECT_EQ(pod["spec"]["tolerations"].size(), 2u);
  EXPECT_FALSE(pod["spec"]["tolerations"][0].contains("tolerationSeconds"));
}

TEST(BuildTest, ATemplateMayChangeWhatIsNotTheOperators) {
  const json pod = WorkerPod(JobWith(R"({"workers": {"template": {
      "metadata": {"labels": {"team": "a"}, "annotations": {"swarmjob.dev/device": "cuda:1"}},
      "spec": {"serviceAccountName": "s3", "securityContext": {"fsGroup": 7},
               "volumes": [{"name": "state", "ephemeral": {}}, {"name": "mine", "emptyDir": {}}],
               "containers": [{"name": "sidecar", "image": "s"},
                              {"name": "worker", "image": "own:2",
                               "env": [{"name": "A", "value": "1"}],
                               "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}]}}}})"));
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "a");
  EXPECT_EQ(pod["spec"]["serviceAccountName"], "s3");
  EXPECT_EQ(pod["spec"]["securityContext"]["fsGroup"], 7);
  EXPECT_EQ(pod["spec"]["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(Named(pod["spec"]["volumes"], "state"),
            json::parse(R"({"name": "state", "ephemeral": {}})"));
  EXPECT_EQ(pod["spec"]["volumes"].size(), 4u);
  EXPECT_EQ(Container(pod)["name"], "worker");
  EXPECT_EQ(Container(pod)["image"], "own:2");
  EXPECT_EQ(Container(pod)["env"].size(), 3u);
  EXPECT_EQ(Container(pod)["volumeMounts"].size(), 4u);
  EXPECT_EQ(pod["spec"]["containers"][1]["name"], "sidecar");
  EXPECT_THAT(Arguments(pod), Contains("--device=cuda:1"));
}

TEST(BuildTest, ATemplateCannotChangeWhatIsTheOperators) {
  const json pod = WorkerPod(JobWith(R"({"workers": {"template": {
      "metadata": {"name": "mine", "namespace": "other", "ownerReferences": [],
                   "labels": {"swarmjob.dev/ordinal": "1", "swarmjob.dev/job": "other"}},
      "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 1,
               "volumes": [{"name": "identity", "emptyDir": {}}],
               "containers": [{"name": "worker", "command": ["sh"], "args": ["-c", "true"],
                               "ports": [{"name": "wire", "containerPort": 1}],
                               "livenessProbe": {"httpGet": {"path": "/mine"}}}]}}}})"));
  EXPECT_EQ(pod["metadata"]["name"], "tiny-w7");
  EXPECT_EQ(pod["metadata"]["namespace"], "team");
  EXPECT_EQ(pod["metadata"]["ownerReferences"].size(), 1u);
  EXPECT_EQ(pod["metadata"]["labels"]["swarmjob.dev/ordinal"], "7");
  EXPECT_EQ(pod["metadata"]["labels"]["swarmjob.dev/job"], "tiny");
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 30);
  EXPECT_TRUE(Named(pod["spec"]["volumes"], "identity").contains("secret"));
  EXPECT_EQ(Container(pod)["command"], json::array({"swarm-worker"}));
  EXPECT_THAT(Arguments(pod), Not(Contains("-c")));
  EXPECT_EQ(Named(Container(pod)["ports"], "wire")["containerPort"], 7000);
  EXPECT_EQ(Container(pod)["livenessProbe"]["httpGet"]["path"], "/healthz");
}

TEST(BuildTest, ATemplateOfTheWrongTypeIsRefusedAtItsField) {
  const auto refusal = [](const std::string& spec) {
    const JobView view = JobWith(R"({"workers": {"template": {"spec": )" + spec + "}}}");
    const Result<json> pod = BuildWorkerPod(view, 0, view.job.spec.workers.pools.front(), kOptions);
    EXPECT_EQ(pod.status().code(), StatusCode::kInvalidArgument) << spec;
    return pod.status().message();
  };
  EXPECT_THAT(refusal(R"({"containers": "worker"})"),
              HasSubstr("spec.workers.template.spec.containers"));
  EXPECT_THAT(refusal(R"({"containers": [5]})"), HasSubstr("containers[0]"));
  EXPECT_THAT(refusal(R"({"tolerations": {}})"), HasSubstr("spec.tolerations"));
  EXPECT_THAT(refusal(R"({"securityContext": []})"), HasSubstr("spec.securityContext"));
}

TEST(BuildTest, KeysOfTheObjectStorageComeFromTheJobsSecret) {
  const JobView view = JobWith(R"({"storage": {"secretName": "s3-keys"}})");
  for (const json& pod : {WorkerPod(view), TrainerPod(view)}) {
    EXPECT_EQ(Container(pod)["envFrom"], json::parse(R"([{"secretRef": {"name": "s3-keys"}}])"));
  }
  EXPECT_FALSE(Container(WorkerPod(JobWith("{}"))).contains("envFrom"));
}

TEST(BuildTest, KeysOfARegionsStorageAreNamedAfterItAndMayBeAbsentFromACluster) {
  const JobView view = JobWith(R"({"storage": {"secretName": "s3-keys", "regions": [
      {"region": "eu-west-1", "checkpointUri": "s3://eu/run", "secretName": "eu-keys"},
      {"region": "us", "checkpointUri": "s3://us/run"}]}})");
  for (const json& pod : {WorkerPod(view), TrainerPod(view)}) {
    EXPECT_EQ(Container(pod)["envFrom"], json::parse(R"([
        {"secretRef": {"name": "s3-keys"}},
        {"prefix": "SWARM_STORAGE_EU_WEST_1_",
         "secretRef": {"name": "eu-keys", "optional": true}}])"));
  }
}

TEST(BuildTest, TheTrainerKnowsItsRegionWhereItReadsTheDataOfARegion) {
  const JobView view = JobWith(R"({"storage": {"regions": [
      {"region": "eu", "dataUris": ["s3://eu/text"]}]}})");
  EXPECT_EQ(Named(Container(TrainerPod(view))["env"], "SWARM_REGION"),
            Named(Container(WorkerPod(view))["env"], "SWARM_REGION"));
  EXPECT_THAT(Container(TrainerPod(JobWith("{}"))).dump(), Not(HasSubstr("SWARM_REGION")));
}

TEST(BuildTest, OneSecretMayHaveTheKeysOfTwoRegionsBesideWhatATemplateSays) {
  const JobView view = JobWith(R"({
      "storage": {"regions": [
          {"region": "eu", "checkpointUri": "s3://eu/run", "secretName": "keys"},
          {"region": "us", "checkpointUri": "s3://us/run", "secretName": "keys"}]},
      "workers": {"template": {"spec": {"containers": [
          {"name": "worker", "envFrom": [{"secretRef": {"name": "others"}}]}]}}}})");
  EXPECT_EQ(Container(WorkerPod(view))["envFrom"], json::parse(R"([
      {"secretRef": {"name": "others"}},
      {"prefix": "SWARM_STORAGE_EU_", "secretRef": {"name": "keys", "optional": true}},
      {"prefix": "SWARM_STORAGE_US_", "secretRef": {"name": "keys", "optional": true}}])"));
}

TEST(BuildTest, TheManifestOfTheTrainerIsWholeAndNotTouchedByScaling) {
  const JobView view = JobWith(R"({"optimizer": {"learningRate": 0.1}})");
  const json map = BuildConfigMap(view);
  EXPECT_EQ(map["metadata"]["name"], "tiny-job");
  const auto job = api::FromJsonText(map["data"]["job.json"].get<std::string>());
  ASSERT_TRUE(job.ok()) << api::ToString(job.errors());
  EXPECT_EQ(job->name, "tiny");
  EXPECT_EQ(job->spec.model, view.job.spec.model);
  EXPECT_EQ(job->spec.optimizer.learningRate, 0.1);
  EXPECT_EQ(json::parse(map["data"]["job.json"].get<std::string>())["spec"]["optimizer"],
            json({{"learningRate", 0.1}}))
      << "a trainer of an earlier version may not know what else there is";
  const JobView scaled = JobWith(R"({"optimizer": {"learningRate": 0.1}, "suspend": true,
      "workers": {"replicas": 9, "pools": [{"name": "spot"}], "template": {"spec": {}}},
      "preemption": {"drainSeconds": 9}, "ttlSecondsAfterFinished": 1})");
  EXPECT_EQ(BuildConfigMap(scaled), map);
  const JobView bounded = JobWith(R"({"workers": {"memoryBudgetBytes": 1073741824}})");
  const auto told =
      api::FromJsonText(BuildConfigMap(bounded)["data"]["job.json"].get<std::string>());
  EXPECT_EQ(told->spec.workers.memoryBudgetBytes, 1ull << 30);
}

TEST(BuildTest, TheTrainersServiceLeadsToOneTermOnly) {
  const json service = BuildTrainerService(JobWith("{}"), 3);
  EXPECT_EQ(service["metadata"]["name"], "tiny-trainer");
  EXPECT_EQ(service["spec"]["selector"], json::parse(R"({"swarmjob.dev/job": "tiny",
      "swarmjob.dev/role": "trainer", "swarmjob.dev/term": "3"})"));
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(Named(service["spec"]["ports"], "wire")["port"], 7000);
}

TEST(BuildTest, TheWorkersServiceIsHeadless) {
  const json service = BuildWorkersService(JobWith("{}"));
  EXPECT_EQ(service["metadata"]["name"], "tiny-workers");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["selector"]["swarmjob.dev/role"], "worker");
}

TEST(BuildTest, TheDisruptionBudgetNeverStopsADrainForGood) {
  const auto available = [](const std::string& workers) {
    const JobView view = JobWith(R"({"pipeline": {"stages": 1}, "workers": )" + workers + "}");
    return BuildDisruptionBudget(view)["spec"]["minAvailable"].get<int>();
  };
  EXPECT_EQ(available(R"({"replicas": 4, "minReplicas": 2})"), 2);
  EXPECT_EQ(available(R"({"replicas": 4, "minReplicas": 4})"), 3);
  EXPECT_EQ(available(R"({"replicas": 1, "minReplicas": 1})"), 0);
  const json budget = BuildDisruptionBudget(JobWith("{}"));
  EXPECT_EQ(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
  EXPECT_EQ(budget["spec"]["selector"]["matchLabels"]["swarmjob.dev/role"], "worker");
}

TEST(BuildTest, TheDisruptionBudgetOfAClusterCountsWhatIsReadyElsewhere) {
  JobView view = JobWith(R"({"pipeline": {"stages": 1}, "workers": {"replicas": 6, "minReplicas": 4,
      "pools": [{"name": "here"}, {"name": "there", "cluster": "west"}]}})");
  const auto available = [&](const std::string& cluster) {
    return BuildDisruptionBudget(view, cluster)["spec"]["minAvailable"].get<int>();
  };
  EXPECT_EQ(available(""), 4) << "nothing is ready yet";
  EXPECT_EQ(available("west"), 4);
  view.status.readyReplicas = 6;
  view.status.clusters = {{.name = "east", .readyReplicas = 1},
                          {.name = "west", .readyReplicas = 2}};
  EXPECT_EQ(available(""), 1) << "three are ready elsewhere";
  EXPECT_EQ(available("west"), 0) << "of its two, none is needed: four are ready elsewhere";
  EXPECT_EQ(available("east"), 0);
  EXPECT_EQ(available("south"), 0) << "it has none yet";
  view.status.readyReplicas = 4;
  EXPECT_EQ(available(""), 1) << "home's last one is needed, as all are";
  EXPECT_EQ(available("west"), 2);
}

TEST(BuildTest, OnlyTheJobAndTheOperatorReachTheWire) {
  const json policy = BuildNetworkPolicy(JobWith("{}"));
  EXPECT_EQ(policy["spec"]["podSelector"]["matchLabels"],
            json::parse(R"({"swarmjob.dev/job": "tiny"})"));
  const json& wire = policy["spec"]["ingress"][0];
  EXPECT_EQ(wire["ports"], json::parse(R"([{"protocol": "TCP", "port": 7000, "endPort": 7063}])"));
  EXPECT_EQ(wire["from"][0]["podSelector"], policy["spec"]["podSelector"]);
  EXPECT_EQ(wire["from"][1]["namespaceSelector"], json::object());
  EXPECT_EQ(policy["spec"]["ingress"][1], json::parse(R"({"ports": [
      {"protocol": "TCP", "port": 9090}, {"protocol": "TCP", "port": 9091}]})"))
      << "metrics and the page, which the API server asks for";
  EXPECT_EQ(policy["spec"]["policyTypes"], json::array({"Ingress"}));
}

TEST(BuildTest, EveryObjectIsDeletedWithTheJob) {
  const JobView view = JobWith("{}");
  for (const json& object :
       {BuildConfigMap(view), BuildTrainerService(view, 1), BuildWorkersService(view),
        BuildDisruptionBudget(view), BuildNetworkPolicy(view)}) {
    EXPECT_EQ(object["metadata"]["ownerReferences"], OwnerReferences(view));
    EXPECT_EQ(object["metadata"]["namespace"], "team");
    EXPECT_EQ(object["metadata"]["labels"]["swarmjob.dev/job"], "tiny");
  }
}

}  // namespace
}  // namespace swarm::objects
