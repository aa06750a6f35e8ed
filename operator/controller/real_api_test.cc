// The operator on a real API server, which validates, prunes and fences as a cluster does. The test
// plays scheduler and kubelets.
#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "api/format/yaml.h"
#include "base/rng.h"
#include "operator/controller/controller.h"
#include "operator/controller/testing/cluster_under_test.h"
#include "operator/kube/testing/api_server_under_test.h"
#include "operator/names/names.h"

namespace swarm::controller {
namespace {

using kube::resources::Pods;
using kube::resources::SwarmJobs;
using nlohmann::json;
using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
const kube::Resource kRoles{"rbac.authorization.k8s.io", "v1", "roles"};
const kube::Resource kRoleBindings{"rbac.authorization.k8s.io", "v1", "rolebindings"};
const kube::Resource kClusterRoles{"rbac.authorization.k8s.io", "v1", "clusterroles", false};
const kube::Resource kClusterRoleBindings{"rbac.authorization.k8s.io", "v1", "clusterrolebindings",
                                          false};

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(SWARM_SOURCE_DIR) + "/" + path).rdbuf();
  return text.str();
}

/// What the chart lets the operator do: without Kueue, in a namespace whose jobs it manages.
json RulesOfTheChart(const std::string& name = "rules") {
  const std::string text = TextOf("helm/swarmjob/templates/_helpers.tpl");
  const std::string begin = "{{- define \"swarmjob." + name + "\" -}}\n";
  const std::size_t from = text.find(begin);
  EXPECT_NE(from, text.npos);
  if (from == text.npos) return json::array();
  const std::size_t first = from + begin.size();
  const auto rules = api::YamlToJson(text.substr(first, text.find("{{- end }}", first) - first));
  EXPECT_TRUE(rules.ok()) << rules.status().ToString();
  return rules.ok() ? *rules : json::array();
}

class ControllerRealApiTest : public kube::ApiServerUnderTest {
 protected:
  void SetUp() override {
    ApiServerUnderTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    const auto definition = api::YamlToJson(TextOf("crds/swarmjob.yaml"));
    ASSERT_TRUE(definition.ok());
    const auto applied = client_->Apply(kDefinitions, *definition);
    ASSERT_TRUE(applied.ok()) << applied.status().ToString();
    ASSERT_TRUE(Await([&] { return client_->List(SwarmJobs(), {.ns = ns_}).ok(); }))
        << "the new kind is not served";
  }

  /// An operator of this story's namespace that leads.
  class Leader {
   public:
    Leader(ControllerRealApiTest& story, std::uint64_t term)
        : Leader(story, term, kube::ControlPlane::kAdminToken, {{story.ns_}, /*nodes=*/true}) {}
    Leader(ControllerRealApiTest& story, std::uint64_t term, const std::string& token,
           const InformerOptions& informers)
        : client_(MakeClient(token, Eager())),
          controller_(*client_, Options(informers), story.trainers_.connect(),
                      kube::SystemTiming()) {
      controller_.Start();
      controller_.Lead(term);
    }

   private:
    static kube::RestClientOptions Eager() {
      kube::RestClientOptions options;
      options.requests_per_second = options.burst = 1e6;
      return options;
    }
    static ControllerOptions Options(const InformerOptions& informers) {
      ControllerOptions options;
      options.informers = informers;
      options.reconcilers = 2;
      options.pods.worker_image = "worker:1";
      options.instance = "test";
      return options;
    }

    std::unique_ptr<kube::Client> client_;
    Controller controller_;
  };

  static bool Await(const std::function<bool()>& condition) {
    for (int tries = 0; tries < 600; ++tries) {
      if (condition()) return true;
      kube::SystemTiming().Sleep(milliseconds(50), {});
    }
    return false;
  }

  Status Submit(const std::string& spec = "{}") { return SubmitTo(ns_, spec); }
  /// A job whose label names a queue.
  Status SubmitToQueue(const json& labels = {{names::kQueueLabel, "night"}},
                       const std::string& spec = "{}") {
    json job = JobUnderTest(spec, {ns_, "tiny"});
    job["metadata"]["labels"] = labels;
    return client_->Create(SwarmJobs(), job).status();
  }
  Status SubmitTo(const std::string& ns, const std::string& spec = "{}") {
    return client_->Create(SwarmJobs(), JobUnderTest(spec, {ns, "tiny"})).status();
  }
  std::string AnotherNamespace(const std::string& suffix) {
    const std::string ns = ns_ + suffix;
    const auto made = client_->Create(
        kube::resources::Namespaces(),
        {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return ns;
  }
  /// Binds the stranger to a role that the chart makes in a namespace; without one, in the cluster.
  void AdmitStranger(const std::string& ns, const std::string& rules = "rules") {
    const std::string group = "rbac.authorization.k8s.io";
    const std::string kind = ns.empty() ? "ClusterRole" : "Role";
    json metadata = {{"name", "operator-" + rules}};
    for (char& each : metadata["name"].get_ref<std::string&>()) {
      each = static_cast<char>(std::tolower(each));
    }
    if (ns.empty()) {
      metadata["name"] = metadata["name"].get<std::string>() + "-" + ns_;  // one for each test
    } else {
      metadata["namespace"] = ns;
    }
    const auto role =
        client_->Create(ns.empty() ? kClusterRoles : kRoles, {{"apiVersion", group + "/v1"},
                                                              {"kind", kind},
                                                              {"metadata", metadata},
                                                              {"rules", RulesOfTheChart(rules)}});
    ASSERT_TRUE(role.ok()) << role.status().ToString();
    const auto binding = client_->Create(
        ns.empty() ? kClusterRoleBindings : kRoleBindings,
        {{"apiVersion", group + "/v1"},
         {"kind", kind + "Binding"},
         {"metadata", metadata},
         {"roleRef", {{"apiGroup", group}, {"kind", kind}, {"name", metadata["name"]}}},
         {"subjects", {{{"kind", "User"}, {"name", "stranger"}, {"apiGroup", group}}}}});
    ASSERT_TRUE(binding.ok()) << binding.status().ToString();
  }
  json Job(const std::string& name = "tiny") {
    const auto job = client_->Get(SwarmJobs(), {ns_, name});
    EXPECT_TRUE(job.ok()) << job.status().ToString();
    return job.ok() ? **job : json();
  }
  std::string Condition(const std::string& type, const std::string& job = "tiny") {
    for (const json& each : Job(job).value("/status/conditions"_json_pointer, json::array())) {
      if (each["type"] == type) return each.value("status", "") + ": " + each.value("reason", "");
    }
    return "";
  }
  std::set<std::string> PodNames() { return PodNamesIn(ns_); }
  std::set<std::string> PodNamesIn(const std::string& ns) {
    std::set<std::string> names;
    const auto pods = client_->List(Pods(), {.ns = ns});
    EXPECT_TRUE(pods.ok()) << pods.status().ToString();
    if (pods.ok()) {
      for (const auto& pod : pods->Unpack()) names.insert(kube::NameOf(*pod).name);
    }
    return names;
  }
  void SetStatus(const std::string& pod, const json& status) {
    const auto changed = client_->Patch(Pods(), {ns_, pod}, kube::PatchType::kMerge,
                                        {{"status", status}}, {.subresource = "status"});
    ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  }
  void RunPods() {
    for (const std::string& pod : PodNames()) {
      SetStatus(pod, {{"phase", "Running"},
                      {"podIP", "10.1.0.1"},
                      {"conditions",
                       {{{"type", "PodScheduled"}, {"status", "True"}},
                        {{"type", "Ready"}, {"status", "True"}}}}});
    }
  }

  TrainersUnderTest trainers_;
};

TEST_F(ControllerRealApiTest, AJobGetsPodsThatTheServerTakesAndAStatusThatItKeeps) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(Submit().ok());
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  EXPECT_THAT(PodNames(),
              UnorderedElementsAre("tiny-trainer-1", "tiny-w0", "tiny-w1", "tiny-w2", "tiny-w3"));
  ASSERT_TRUE(Await([&] { return Condition("Accepted").starts_with("True"); }));
  const json status = Job()["status"];
  EXPECT_EQ(status["nextWorkerOrdinal"], 4);
  EXPECT_EQ(status["trainer"]["term"], 1);
  EXPECT_EQ(status["plan"]["layout"], json({2, 2}));
  EXPECT_EQ(status["observedGeneration"], 1);
  EXPECT_TRUE(status.contains("selector")) << "which the scale subresource reads";
}

TEST_F(ControllerRealApiTest, ATrainerThatFitsNowhereIsToldAndMayThenRunOnSpotNodes) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(Submit().ok());
  ASSERT_TRUE(Await([&] { return PodNames().contains("tiny-trainer-1"); }));
  SetStatus("tiny-trainer-1",
            {{"conditions",
              {{{"type", "PodScheduled"},
                {"status", "False"},
                {"reason", "Unschedulable"},
                {"message", "0/3 nodes are available: 3 node(s) didn't match."}}}}});
  ASSERT_TRUE(Await([&] { return Condition("Ready") == "False: TrainerUnschedulable"; }));
  EXPECT_THAT(Job()["status"]["conditions"].dump(), HasSubstr("Unschedulable: 0/3 nodes"));
  ASSERT_TRUE(client_
                  ->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
                          {{"spec", {{"workers", {{"replicas", 5}}}}}})
                  .ok());
  ASSERT_TRUE(Await([&] { return PodNames().contains("tiny-w4"); }));
  EXPECT_TRUE(Await([&] { return Job()["status"]["trainer"]["generation"] == 2; }));
  EXPECT_EQ(Job()["status"]["trainer"]["term"], 1) << "the same pod would fit no better";
  ASSERT_TRUE(client_
                  ->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
                          {{"spec", {{"trainer", {{"allowSpot", true}}}}}})
                  .ok());
  ASSERT_TRUE(Await([&] { return PodNames().contains("tiny-trainer-2"); }));
  EXPECT_TRUE(Await([&] { return !PodNames().contains("tiny-trainer-1"); }));
  const auto trainer = client_->Get(Pods(), {ns_, "tiny-trainer-2"});
  ASSERT_TRUE(trainer.ok());
  EXPECT_FALSE((**trainer)["spec"].contains("affinity"));
  EXPECT_TRUE(Await([&] { return Condition("Ready") == "False: TrainerStarting"; }));
}

TEST_F(ControllerRealApiTest, TheNumbersOfTrainingReachTheStatus) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(Submit().ok());
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  RunPods();
  protocol::JobStatus said{.state = protocol::JobState::kTraining,
                           .step = protocol::Step(12),
                           .loss = 2.345678,
                           .tokens_per_second = 51234.6,
                           .seconds_left = 19234,
                           .term = protocol::Term(1)};
  for (std::uint64_t stage = 0; stage < 2; ++stage) {
    const protocol::WorkerId worker("tiny-w" + std::to_string(stage));
    said.stages.push_back({.stage = protocol::StageIndex(stage),
                           .workers = {{.id = worker, .state = protocol::WorkerState::kReady}}});
  }
  trainers_.Say("10.1.0.1:" + std::to_string(names::kWirePort), said);
  ASSERT_TRUE(Await([&] { return Condition("Ready") == "True: EveryStageReady"; }));
  const json status = Job()["status"];
  EXPECT_EQ(status["progress"]["loss"], 2.346);
  EXPECT_EQ(status["progress"]["tokensPerSecond"], 51200);
  EXPECT_EQ(status["progress"]["timeLeft"], "5h21m");
  EXPECT_GT(status["progress"]["tokens"], 0);
  EXPECT_GT(status["parameters"], 0);
}

// The files are applied as they are, to a server without anything of theirs but the definition.
TEST_F(ControllerRealApiTest, TheExamplesForClustersGetTheirPodsAsTheyAre) {
  const Leader leader(*this, 1);
  for (const auto& [file, workers] :
       std::map<std::string, std::size_t>{{"spot-pools", 16}, {"gpus-of-two-vendors", 8}}) {
    std::ostringstream text;
    text << std::ifstream(SWARM_SOURCE_DIR "/examples/" + file + ".yaml").rdbuf();
    auto job = api::YamlToJson(text.str());
    ASSERT_TRUE(job.ok()) << file;
    (*job)["metadata"]["namespace"] = ns_;
    const std::string name = (*job)["metadata"]["name"];
    const Status made = client_->Create(SwarmJobs(), *job).status();
    ASSERT_TRUE(made.ok()) << file << ": " << made.ToString();
    EXPECT_TRUE(Await([&] { return Condition("Accepted", name).starts_with("True"); }))
        << file << ": " << Job(name)["status"].dump(2);
    EXPECT_TRUE(Await([&] {
      const auto pods = client_->List(
          Pods(),
          {.ns = ns_, .label_selector = "swarmjob.dev/role=worker,swarmjob.dev/job=" + name});
      return pods.ok() && pods->items.size() == workers;
    })) << file
        << ": " << Job(name)["status"].dump(2);
  }
}

TEST_F(ControllerRealApiTest, APoolsTemplateThatTheServerRefusesIsNamedInTheCondition) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(Submit(R"({"workers": {"pools": [{"name": "good"}, {"name": "bad", "template":
      {"spec": {"containers": [{"name": "worker", "imagePullPolicy": "Sometimes"}]}}}]}})")
                  .ok());
  ASSERT_TRUE(Await([&] { return Condition("Accepted").starts_with("False"); }));
  EXPECT_THAT(Job()["status"]["conditions"].dump(), HasSubstr("imagePullPolicy"));
  EXPECT_THAT(PodNames(), IsEmpty());
}

TEST_F(ControllerRealApiTest, APreemptedWorkerIsReplacedUnderANewNameAndCounted) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(Submit().ok());
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  RunPods();
  SetStatus(
      "tiny-w1",
      {{"phase", "Failed"},
       {"conditions",
        {{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "TerminationByKubelet"}}}}});
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-w4"); }));
  EXPECT_TRUE(Await([&] { return !PodNames().contains("tiny-w1"); }));
  EXPECT_TRUE(Await([&] { return Job()["status"].value("preemptions", 0) == 1; }));
  EXPECT_EQ(Job()["status"].value("failures", 0), 0);
}

TEST_F(ControllerRealApiTest, WhatTheSchedulerPreemptsIsReplacedAndChargedToNobody) {
  const kube::Resource priorities{"scheduling.k8s.io", "v1", "priorityclasses", false};
  ASSERT_TRUE(client_
                  ->Create(priorities, {{"apiVersion", "scheduling.k8s.io/v1"},
                                        {"kind", "PriorityClass"},
                                        {"metadata", {{"name", "batch"}}},
                                        {"value", -7}})
                  .ok());
  const Leader leader(*this, 1);
  const std::string low = R"({"template": {"spec": {"priorityClassName": "batch"}}})";
  ASSERT_TRUE(Submit(R"({"workers": )" + low + R"(, "trainer": )" + low + "}").ok());
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  RunPods();
  for (const std::string name : {"tiny-trainer-1", "tiny-w1"}) {
    const auto pod = client_->Get(Pods(), {ns_, name});
    ASSERT_TRUE(pod.ok());
    EXPECT_EQ((**pod)["spec"]["priority"], -7) << name;
    SetStatus(name, {{"conditions",
                      {{{"type", "DisruptionTarget"},
                        {"status", "True"},
                        {"reason", "PreemptionByScheduler"},
                        {"message",
                         "default-scheduler: preempting to accommodate a higher"
                         " priority pod"}}}}});
  }
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-w4"); }));
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-trainer-2"); }));
  EXPECT_TRUE(Await([&] { return Job()["status"].value("preemptions", 0) == 2; }));
  EXPECT_EQ(Job()["status"].value("failures", 0), 0);
}

TEST_F(ControllerRealApiTest, TwoLeadersAtOnceMakeNoPodTwice) {
  const Leader one(*this, 1), two(*this, 2);
  ASSERT_TRUE(Submit().ok());
  ASSERT_TRUE(Await([&] { return PodNames().size() >= 5; }));
  RunPods();
  std::set<std::string> expected = PodNames();
  for (const int lost : {0, 1, 2}) {
    const std::string name = "tiny-w" + std::to_string(lost);
    ASSERT_TRUE(client_->Delete(Pods(), {ns_, name}, {.grace_seconds = 0}).ok());
    expected.erase(name);
    expected.insert("tiny-w" + std::to_string(lost + 4));
    ASSERT_TRUE(Await([&] { return PodNames() == expected; }))
        << testing::PrintToString(PodNames());
  }
  EXPECT_THAT(expected,
              UnorderedElementsAre("tiny-trainer-1", "tiny-w3", "tiny-w4", "tiny-w5", "tiny-w6"));
}

TEST_F(ControllerRealApiTest, ScaleChangesTheNumberOfWorkers) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(Submit().ok());
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  ASSERT_TRUE(client_
                  ->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
                          {{"spec", {{"replicas", 6}}}}, {.subresource = "scale"})
                  .ok());
  EXPECT_TRUE(Await([&] { return PodNames().size() == 7; }));
}

TEST_F(ControllerRealApiTest, AnAutoscalerBeginsFromTheNumberThatTheManifestLeftOpen) {
  AdmitStranger(ns_);
  const Leader leader(*this, 1, kube::ControlPlane::kStrangerToken, {{ns_}, /*nodes=*/false});
  ASSERT_TRUE(Submit(R"({"workers": {"replicas": 0, "minReplicas": 0}})").ok());
  const auto scale = [&](const json& change) {
    const auto patched = client_->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge, change,
                                        {.subresource = "scale"});
    EXPECT_TRUE(patched.ok()) << patched.status().ToString();
    return patched.ok() ? **patched : json();
  };
  const auto wanted = [&] { return scale(json::object())["spec"].value("replicas", 0); };
  ASSERT_TRUE(Await([&] { return wanted() == 2; }));
  ASSERT_TRUE(Await([&] { return PodNames().size() == 3; }));
  RunPods();
  EXPECT_TRUE(Await([&] { return scale(json::object())["status"].value("replicas", 0) == 2; }));
  EXPECT_THAT(scale(json::object())["status"].value("selector", ""), HasSubstr("swarmjob.dev/job"));
  scale({{"spec", {{"replicas", 4}}}});
  EXPECT_TRUE(Await([&] { return PodNames().size() == 5; }));
  EXPECT_EQ(wanted(), 4) << "which is the autoscaler's";
}

TEST_F(ControllerRealApiTest, AnOperatorOfTwoNamespacesNeedsOnlyTheChartsRolesThere) {
  const std::string second = AnotherNamespace("-second"), other = AnotherNamespace("-other");
  AdmitStranger(ns_);
  AdmitStranger(second);
  for (const std::string& ns : {ns_, second, other}) ASSERT_TRUE(SubmitTo(ns).ok());
  const auto stranger = MakeClient(kube::ControlPlane::kStrangerToken);
  for (const std::string& ns : {std::string(), other}) {
    ASSERT_EQ(stranger->List(Pods(), {.ns = ns}).status().code(), StatusCode::kPermissionDenied);
  }
  const Leader leader(*this, 1, kube::ControlPlane::kStrangerToken,
                      {{ns_, second}, /*nodes=*/false});
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5 && PodNamesIn(second).size() == 5; }));
  ASSERT_TRUE(Await([&] { return Condition("Accepted").starts_with("True"); }));
  RunPods();
  ASSERT_TRUE(client_->Delete(Pods(), {ns_, "tiny-w1"}, {.grace_seconds = 0}).ok());
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-w4"); }));
  EXPECT_EQ(PodNamesIn(second).size(), 5u);
  EXPECT_TRUE(PodNamesIn(other).empty());
}

TEST_F(ControllerRealApiTest, ANamespaceThatCannotBeReadKeepsNoJobOfAnotherWaiting) {
  const std::string second = AnotherNamespace("-unread");
  AdmitStranger(ns_);
  for (const std::string& ns : {ns_, second}) ASSERT_TRUE(SubmitTo(ns).ok());
  const Leader leader(*this, 1, kube::ControlPlane::kStrangerToken,
                      {.namespaces = {ns_, second},
                       .nodes = false,
                       .cluster = {},
                       .patience = std::chrono::seconds(1)});
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  EXPECT_TRUE(PodNamesIn(second).empty());
  AdmitStranger(second);
  EXPECT_TRUE(Await([&] { return PodNamesIn(second).size() == 5; })) << "once it can be read";
}

TEST_F(ControllerRealApiTest, AJobWhoseBudgetIsSpentIsSuspendedUntilItIsRaised) {
  ASSERT_TRUE(client_
                  ->Create(kube::resources::Nodes(), {{"apiVersion", "v1"},
                                                      {"kind", "Node"},
                                                      {"metadata", {{"name", "budget-node"}}}})
                  .ok());
  const Leader leader(*this, 1);
  // Four workers at a dollar a second. There is no scheduler, so their pods name the node.
  ASSERT_TRUE(Submit(R"({
      "budget": {"dollars": 8},
      "workers": {
        "template": {"spec": {"nodeName": "budget-node"}},
        "pools": [{"name": "spot", "machine": {"teraflops": 1, "dollarsPerHour": 3600}}]}})")
                  .ok());
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  EXPECT_TRUE(Await([&] { return Condition("BudgetSpent") == "True: BudgetSpent"; }));
  ASSERT_TRUE(Await([&] { return Condition("Suspended") == "True: Suspended"; }));
  const auto deleted = [&](const std::string& pod) {
    const auto read = client_->Get(Pods(), {ns_, pod});
    return !read.ok() || (**read)["metadata"].contains("deletionTimestamp");
  };
  EXPECT_TRUE(Await([&] { return std::ranges::all_of(PodNames(), deleted); }));
  // No kubelet confirms the deletions.
  for (const std::string& pod : PodNames()) {
    ASSERT_TRUE(client_->Delete(Pods(), {ns_, pod}, {.grace_seconds = 0}).ok());
  }
  ASSERT_TRUE(Await([&] { return Job()["status"]["cost"]["dollarsPerHour"] == 0; }));
  const double spent = Job()["status"]["cost"]["dollars"];
  EXPECT_GE(spent, 8);

  ASSERT_TRUE(client_
                  ->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
                          {{"spec", {{"budget", {{"dollars", 1e6}}}}}})
                  .ok());
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-trainer-2"); }));
  EXPECT_TRUE(Await([&] { return Condition("BudgetSpent") == "False: BudgetLeft"; }));
  EXPECT_GE(Job()["status"]["cost"]["dollars"], spent);
}

TEST_F(ControllerRealApiTest, TheServerRefusesABudgetThatCouldNotBeCounted) {
  EXPECT_THAT(Submit(R"({"budget": {"dollars": 8}})").message(), HasSubstr("dollarsPerHour"));
  EXPECT_THAT(Submit(R"({
      "budget": {"dollars": 0},
      "workers": {"pools": [{"name": "spot", "machine": {"teraflops": 1, "dollarsPerHour": 1}}]}})")
                  .message(),
              HasSubstr("budget.dollars must be more than 0"));
}

TEST_F(ControllerRealApiTest, NumbersComeBackBitForBit) {
  Rng rng(7);
  for (int i = 0; i < 50; ++i) {
    const double rate = std::bit_cast<double>((rng() >> 12) | 0x3e00000000000000U);
    const std::string name = "number-" + std::to_string(i);
    json job = JobUnderTest("{}", {ns_, name});
    job["spec"]["optimizer"]["learningRate"] = rate;
    ASSERT_TRUE(client_->Create(SwarmJobs(), job).ok());
    const auto read = client_->Get(SwarmJobs(), {ns_, name});
    ASSERT_TRUE(read.ok());
    EXPECT_EQ((**read)["spec"]["optimizer"]["learningRate"].get<double>(), rate);
  }
}

TEST_F(ControllerRealApiTest, TheServerRefusesWhatTheRulesForbidAndSaysWhy) {
  EXPECT_THAT(Submit(R"({"pipeline": {"stages": 0}})").message(),
              HasSubstr("spec.pipeline.stages"));
  ASSERT_TRUE(Submit().ok());
  const auto changed = client_->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
                                      {{"spec", {{"training", {{"seed", 43}}}}}});
  EXPECT_EQ(changed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(changed.status().message(), HasSubstr("seed"));
}

TEST_F(ControllerRealApiTest, ATypoInAPodTemplateIsToldBeforeAnyPodIsMade) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(Submit(R"({"workers": {"template": {"spec": {"tolerationz": []}}}})").ok());
  ASSERT_TRUE(Await([&] { return Condition("Accepted").starts_with("False"); }));
  EXPECT_THAT(Job()["status"]["conditions"].dump(), HasSubstr("spec.tolerationz"));
  EXPECT_TRUE(PodNames().empty());
}

TEST_F(ControllerRealApiTest, AJobThatWasThereBeforeIsRunByAnOperatorThatComesLater) {
  ASSERT_TRUE(Submit().ok());
  {
    const Leader first(*this, 1);
    ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  }
  ASSERT_TRUE(client_->Delete(Pods(), {ns_, "tiny-w3"}, {.grace_seconds = 0}).ok());
  const Leader second(*this, 2);
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-w4"); }));
}

/// The test plays Kueue, whose objects have the parts of their schemas that the operator may break.
class QueueRealApiTest : public ControllerRealApiTest {
 protected:
  void TearDown() override {
    if (!client_) return;
    for (const char* plural : {"workloads", "workloadpriorityclasses", "resourceflavors"}) {
      const std::string name = std::string(plural) + ".kueue.x-k8s.io";
      EXPECT_TRUE(client_->Delete(kDefinitions, {"", name}).ok());
      EXPECT_TRUE(Await([&] {
        return client_->Get(kDefinitions, {"", name}).status().code() == StatusCode::kNotFound;
      })) << name;
    }
  }

  void Define(const std::string& kind, const std::string& plural, const std::string& scope,
              const json& properties) {
    std::string singular = kind;
    for (char& each : singular) each = static_cast<char>(std::tolower(each));
    json schema = {{"type", "object"},
                   {"x-kubernetes-preserve-unknown-fields", true},
                   {"properties", properties}};
    const json version = {{"name", "v1beta2"},
                          {"served", true},
                          {"storage", true},
                          {"subresources", {{"status", json::object()}}},
                          {"schema", {{"openAPIV3Schema", std::move(schema)}}}};
    const json definition = {
        {"apiVersion", "apiextensions.k8s.io/v1"},
        {"kind", "CustomResourceDefinition"},
        {"metadata", {{"name", plural + ".kueue.x-k8s.io"}}},
        {"spec",
         {{"group", "kueue.x-k8s.io"},
          {"scope", scope},
          {"names", {{"kind", kind}, {"plural", plural}, {"singular", singular}}},
          {"versions", json::array({version})}}}};
    const auto made = client_->Create(kDefinitions, definition);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
  }

  void InstallKueue() {
    const json text = {{"type", "string"}, {"minLength", 1}};
    const json condition = {
        {"type", "object"},
        {"required", {"type", "status", "reason", "message", "lastTransitionTime"}},
        {"properties",
         {{"type", text},
          {"status", {{"type", "string"}, {"enum", {"True", "False", "Unknown"}}}},
          {"reason", text},
          {"message", {{"type", "string"}, {"maxLength", 32768}}},
          {"observedGeneration", {{"type", "integer"}}},
          {"lastTransitionTime", {{"type", "string"}, {"format", "date-time"}}}}}};
    const json container = {{"type", "object"},
                            {"required", {"name"}},
                            {"x-kubernetes-preserve-unknown-fields", true},
                            {"properties", {{"name", text}}}};
    const json containers = {{"type", "array"}, {"minItems", 1}, {"items", container}};
    const json pod = {{"type", "object"},
                      {"required", {"containers"}},
                      {"x-kubernetes-preserve-unknown-fields", true},
                      {"properties", {{"containers", containers}}}};
    const json pod_set = {
        {"type", "object"},
        {"required", {"name", "count", "template"}},
        {"properties",
         {{"name",
           {{"type", "string"}, {"maxLength", 63}, {"pattern", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}}},
          {"count", {{"type", "integer"}, {"minimum", 0}}},
          {"template", {{"type", "object"}, {"properties", {{"spec", pod}}}}}}}};
    const json preserved = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
    json spec = preserved, status = preserved;
    spec["properties"]["podSets"] = {
        {"type", "array"}, {"minItems", 1}, {"maxItems", 8}, {"items", pod_set}};
    status["properties"]["conditions"] = {{"type", "array"}, {"items", condition}};
    Define("Workload", "workloads", "Namespaced", {{"spec", spec}, {"status", status}});
    Define("WorkloadPriorityClass", "workloadpriorityclasses", "Cluster", json::object());
    Define("ResourceFlavor", "resourceflavors", "Cluster", {{"spec", preserved}});
    for (const kube::Resource& resource :
         {kube::resources::Workloads(), kube::resources::WorkloadPriorityClasses(),
          kube::resources::ResourceFlavors()}) {
      ASSERT_TRUE(Await([&] { return client_->List(resource, {}).ok(); })) << resource.plural;
    }
  }

  void PutFlavor() {
    const json flavor = {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                         {"kind", "ResourceFlavor"},
                         {"metadata", {{"name", "spot"}}},
                         {"spec",
                          {{"nodeLabels", {{"capacity", "spot"}}},
                           {"tolerations", {{{"key", "spot"}, {"operator", "Exists"}}}}}}};
    const auto made = client_->Create(kube::resources::ResourceFlavors(), flavor);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
  }

  bool HasWorkload() { return client_->Get(kube::resources::Workloads(), {ns_, name_}).ok(); }
  json Workload() {
    const auto workload = client_->Get(kube::resources::Workloads(), {ns_, name_});
    EXPECT_TRUE(workload.ok()) << workload.status().ToString();
    return workload.ok() ? **workload : json();
  }
  json WorkloadCondition(const std::string& type) {
    for (const json& each : Workload().value("/status/conditions"_json_pointer, json::array())) {
      if (each["type"] == type) return each;
    }
    return json::object();
  }
  /// As Kueue's controller does, which then finds the operator's changes.
  void Edit(const std::function<void(json& status)>& edit) {
    ASSERT_TRUE(Await([&] {
      json workload = Workload();
      edit(workload["status"]);
      return client_->Update(kube::resources::Workloads(), workload, {.subresource = "status"})
          .ok();
    }));
  }
  int touches_ = 0;
  std::string name_ = "swarmjob-tiny";  // of the Workload

  static void Set(json& status, const std::string& type, bool value, const std::string& reason) {
    json& conditions = status["conditions"];
    if (conditions.is_null()) conditions = json::array();
    std::erase_if(conditions.get_ref<json::array_t&>(),
                  [&](const json& each) { return each["type"] == type; });
    conditions.push_back({{"type", type},
                          {"status", value ? "True" : "False"},
                          {"reason", reason},
                          {"message", "said Kueue"},
                          {"lastTransitionTime", "2026-11-21T14:00:00Z"}});
  }
  void Admit() {
    Edit([](json& status) {
      const json flavors = {{"cpu", "spot"}, {"memory", "spot"}};
      status["admission"] = {
          {"clusterQueue", "all"},
          {"podSetAssignments",
           {{{"name", "trainer"}}, {{"name", "workers-default"}, {"flavors", flavors}}}}};
      Set(status, "QuotaReserved", true, "QuotaReserved");
      Set(status, "Admitted", true, "Admitted");
      Set(status, "Evicted", false, "QuotaReserved");
    });
  }
};

TEST_F(QueueRealApiTest, AJobOfAQueueWaitsForItsTurnIsEvictedAndComesBack) {
  InstallKueue();
  PutFlavor();
  const Leader leader(*this, 1);
  ASSERT_TRUE(SubmitToQueue().ok());
  ASSERT_TRUE(Await([&] { return Condition("Admitted") == "False: Queued"; }));
  ASSERT_TRUE(Await([&] { return HasWorkload(); }));
  EXPECT_THAT(PodNames(), IsEmpty());
  EXPECT_EQ(Workload()["spec"]["podSets"].size(), 2u);
  EXPECT_TRUE(kube::IsOwnedBy(Workload(), kube::UidOf(Job()), kube::Ownership::kController));
  Admit();
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  const auto worker = client_->Get(Pods(), {ns_, "tiny-w0"});
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ((**worker)["spec"]["nodeSelector"]["capacity"], "spot");
  EXPECT_EQ(Condition("Admitted"), "True: Admitted");
  Edit([](json& status) { Set(status, "Evicted", true, "Preempted"); });
  // No pod has a node, so each is gone at once.
  EXPECT_TRUE(Await([&] { return PodNames().empty(); }));
  ASSERT_TRUE(
      Await([&] { return WorkloadCondition("QuotaReserved").value("status", "") == "False"; }));
  EXPECT_FALSE(Workload()["status"].contains("admission"));
  EXPECT_EQ(WorkloadCondition("Requeued").value("status", ""), "True");
  EXPECT_EQ(Condition("Admitted"), "False: Evicted");
  EXPECT_EQ(Condition("Suspended"), "True: NotAdmitted");
  Admit();
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-trainer-2"); }));
  EXPECT_TRUE(Await([&] { return PodNames().size() == 5; }));
  RunPods();
  SetStatus("tiny-trainer-2", {{"phase", "Succeeded"},
                               {"containerStatuses",
                                {{{"name", "trainer"},
                                  {"image", "worker:1"},
                                  {"imageID", ""},
                                  {"ready", false},
                                  {"restartCount", 0},
                                  {"state", {{"terminated", {{"exitCode", 0}}}}}}}}});
  ASSERT_TRUE(Await([&] { return WorkloadCondition("Finished").value("status", "") == "True"; }));
  EXPECT_EQ(WorkloadCondition("Finished")["reason"], "Succeeded");
}

TEST_F(QueueRealApiTest, AJobThatRunsInAnotherClusterHasItsWorkloadAndNothingElse) {
  InstallKueue();
  const Leader leader(*this, 1);
  const std::string elsewhere = R"({"managedBy": "kueue.x-k8s.io/multikueue"})";
  ASSERT_TRUE(SubmitToQueue({{names::kQueueLabel, "night"}}, elsewhere).ok());
  ASSERT_TRUE(Await([&] { return HasWorkload(); }));
  EXPECT_TRUE(kube::IsOwnedBy(Workload(), kube::UidOf(Job()), kube::Ownership::kController));
  Admit();
  kube::SystemTiming().Sleep(milliseconds(500), {});
  EXPECT_THAT(PodNames(), IsEmpty());
  EXPECT_FALSE(Job().contains("status"));
}

TEST_F(QueueRealApiTest, AJobFromAnotherClusterTakesTheWorkloadThatCameWithIt) {
  InstallKueue();
  PutFlavor();
  const Leader leader(*this, 1);
  ASSERT_TRUE(
      SubmitToQueue({{names::kQueueLabel, "night"}, {names::kPrebuiltWorkloadLabel, "its-own"}})
          .ok());
  ASSERT_TRUE(Await([&] { return Condition("Admitted") == "False: Queued"; }));
  EXPECT_FALSE(HasWorkload()) << "the operator makes none";
  const auto pod_set = [](const char* name, int count) {
    const json container = {{"name", "main"}, {"image", "i"}};
    return json{{"name", name},
                {"count", count},
                {"template", {{"spec", {{"containers", json::array({container})}}}}}};
  };
  const json workload = {
      {"apiVersion", "kueue.x-k8s.io/v1beta2"},
      {"kind", "Workload"},
      {"metadata",
       {{"name", "its-own"}, {"namespace", ns_}, {"labels", {{names::kJobLabel, "tiny"}}}}},
      {"spec",
       {{"queueName", "night"},
        {"podSets", {pod_set("trainer", 1), pod_set("workers-default", 4)}}}}};
  ASSERT_TRUE(client_->Create(kube::resources::Workloads(), workload).ok());
  name_ = "its-own";
  Admit();
  EXPECT_TRUE(Await([&] { return PodNames().size() == 5; }));
  const json spec = Workload()["spec"];
  ASSERT_TRUE(client_
                  ->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
                          {{"spec", {{"suspend", true}}}})
                  .ok());
  EXPECT_TRUE(Await([&] { return PodNames().empty(); }));
  EXPECT_TRUE(Await([&] { return Condition("Suspended").starts_with("True"); }));
  EXPECT_EQ(Workload()["spec"], spec);
}

TEST_F(QueueRealApiTest, WithoutKueueAJobOfAQueueIsToldThatThereIsNone) {
  const Leader leader(*this, 1);
  ASSERT_TRUE(SubmitToQueue().ok());
  ASSERT_TRUE(Await([&] { return Condition("Admitted") == "Unknown: QueueUnavailable"; }));
  EXPECT_THAT(Job()["status"]["conditions"].dump(), HasSubstr("does not serve Workloads"));
  EXPECT_THAT(PodNames(), IsEmpty());
}

TEST_F(QueueRealApiTest, WithoutKueueAJobThatRunsInAnotherClusterHasAnEventThatSaysSo) {
  const Leader leader(*this, 1);
  const std::string elsewhere = R"({"managedBy": "kueue.x-k8s.io/multikueue"})";
  ASSERT_TRUE(SubmitToQueue({{names::kQueueLabel, "night"}}, elsewhere).ok());
  EXPECT_TRUE(Await([&] {
    const auto events = client_->List(kube::resources::Events(), {.ns = ns_});
    return events.ok() && std::ranges::any_of(events->Unpack(), [](const kube::Object& event) {
             return kube::TextAt(*event, "/reason") == "QueueUnavailable" &&
                    kube::TextAt(*event, "/note").find("does not serve Workloads") !=
                        std::string::npos;
           });
  }));
}

TEST_F(QueueRealApiTest, AJobWaitsForKueueAndForTheRightsOfTheChart) {
  AdmitStranger(ns_);
  const Leader leader(*this, 1, kube::ControlPlane::kStrangerToken, {{ns_}, /*nodes=*/false});
  ASSERT_TRUE(
      SubmitToQueue({{names::kQueueLabel, "night"}, {names::kQueuePriorityLabel, "urgent"}}).ok());
  const auto told = [&](const std::string& words) {
    // A change of the job makes the operator look again before its time.
    const auto touched = client_->Patch(
        SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
        {{"metadata", {{"annotations", {{"touched", std::to_string(++touches_)}}}}}});
    return touched.ok() && Job()["status"].dump().find(words) != std::string::npos;
  };
  ASSERT_TRUE(Await([&] { return told("no right to read Workloads"); }))
      << "which a server says of kinds that it does not serve, too";
  EXPECT_EQ(Condition("Admitted"), "Unknown: QueueUnavailable");
  InstallKueue();
  AdmitStranger(ns_, "kueueRules");
  AdmitStranger("", "kueueClusterRules");
  ASSERT_TRUE(Await([&] { return told("WorkloadPriorityClass urgent"); }));
  EXPECT_EQ(Condition("Admitted"), "False: QueueUnavailable");
  const json urgent = {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                       {"kind", "WorkloadPriorityClass"},
                       {"metadata", {{"name", "urgent"}}},
                       {"value", 1000}};
  ASSERT_TRUE(client_->Create(kube::resources::WorkloadPriorityClasses(), urgent).ok());
  ASSERT_TRUE(Await([&] { return told("\"Queued\""); }));
  EXPECT_EQ(Workload()["spec"]["priority"], 1000);
  EXPECT_THAT(PodNames(), IsEmpty());
  PutFlavor();
  Admit();
  EXPECT_TRUE(Await([&] { return PodNames().size() == 5; }));
  ASSERT_TRUE(client_
                  ->Patch(SwarmJobs(), {ns_, "tiny"}, kube::PatchType::kMerge,
                          {{"spec", {{"suspend", true}}}})
                  .ok());
  EXPECT_TRUE(Await([&] { return !HasWorkload(); })) << "a suspended job asks for no quota";
}

TEST_F(QueueRealApiTest, AJobThatTrainsGoesOnWhereTheOperatorLosesSightOfItsQueue) {
  InstallKueue();
  PutFlavor();
  AdmitStranger(ns_);
  AdmitStranger(ns_, "kueueRules");
  AdmitStranger("", "kueueClusterRules");
  const Leader leader(*this, 1, kube::ControlPlane::kStrangerToken, {{ns_}, /*nodes=*/false});
  ASSERT_TRUE(SubmitToQueue().ok());
  ASSERT_TRUE(Await([&] { return HasWorkload(); }));
  Admit();
  ASSERT_TRUE(Await([&] { return PodNames().size() == 5; }));
  RunPods();
  ASSERT_TRUE(Await([&] { return Condition("Admitted") == "True: Admitted"; }));
  ASSERT_TRUE(client_->Delete(kRoleBindings, {ns_, "operator-kueuerules"}).ok());
  ASSERT_TRUE(client_->Delete(Pods(), {ns_, "tiny-w1"}, {.grace_seconds = 0}).ok());
  EXPECT_TRUE(Await([&] { return PodNames().contains("tiny-w4"); })) << "a lost one is replaced";
  EXPECT_TRUE(Await([&] { return Condition("Admitted") == "Unknown: QueueUnavailable"; }));
  EXPECT_THAT(Job()["status"]["conditions"].dump(), HasSubstr("no right to read Workloads"));
  EXPECT_TRUE(PodNames().contains("tiny-trainer-1"));
}

}  // namespace
}  // namespace swarm::controller
