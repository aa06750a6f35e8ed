#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "operator/controller/testing/cluster_under_test.h"
#include "operator/names/names.h"

namespace swarm::controller {
namespace {

using kube::resources::Pods;
using kube::resources::Secrets;
using kube::resources::SwarmJobs;
using nlohmann::json;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr char kForbidden[] =
    "pods \"x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: "
    "pods=1";

bool IsPodCreation(const FakeApiServer::Call& call) {
  return call.method == "POST" && call.plural == "pods" && call.body.is_object();
}

class ReconcilerTest : public testing::Test {
 protected:
  /// The names of the pods that clients asked the server to create, without dry runs.
  std::multiset<std::string> Created() const {
    std::multiset<std::string> names;
    for (const auto& call : cluster_.server->writes()) {
      if (IsPodCreation(call) && !call.dry_run) names.insert(call.name.name);
    }
    return names;
  }
  std::set<std::string> Services() const {
    std::set<std::string> names;
    for (const json& each : cluster_.server->All(kube::resources::Services())) {
      names.insert(kube::NameOf(each).name);
    }
    return names;
  }
  void SubmitAndRun() {
    cluster_.Submit();
    operator_.Settle();
    cluster_.RunPods();
    operator_.later = std::chrono::minutes(5);  // it has been leading for a while
    operator_.Settle();
  }
  /// The manifest that the trainer reads.
  json TrainersJob() const {
    const auto map = cluster_.server->Find(kube::resources::ConfigMaps(), {"team", "tiny-job"});
    return map ? json::parse((*map)["data"]["job.json"].get<std::string>()) : json();
  }
  /// The Secret that the pod mounts.
  json Identity(const std::string& pod) const {
    return cluster_.server->Find(Secrets(), {"team", pod + "-identity"}).value_or(json::object());
  }
  /// Changes the pods into those that earlier operators made, which mount one Secret.
  void ShareIdentities() {
    for (const std::string& pod : cluster_.pods()) {
      cluster_.server->Remove(Secrets(), {"team", pod + "-identity"});
      cluster_.server->Edit(Pods(), {"team", pod}, [](json& object) {
        object["spec"]["volumes"] = {
            {{"name", "identity"}, {"secret", {{"secretName", "tiny-identities"}}}}};
      });
    }
    // Its pairs are missing here, as if they were too old.
    json secret = *cluster_.server->Find(Secrets(), {"team", "tiny-ca"});
    secret["metadata"]["name"] = "tiny-identities";
    secret["data"] = {{"ca.crt", secret["data"]["ca.crt"]}, {"w9.key", "b2xk"}};
    cluster_.server->Put(Secrets(), secret);
  }
  std::uint64_t Number(const char* field) const { return cluster_.status().value(field, 0u); }

  ClusterUnderTest cluster_;
  OperatorUnderTest& operator_ = cluster_.first;
};

TEST_F(ReconcilerTest, AJobGetsItsTrainerItsWorkersAndAllTheyNeed) {
  cluster_.Submit();
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(),
              ElementsAre("tiny-trainer-1", "tiny-w0", "tiny-w1", "tiny-w2", "tiny-w3"));
  for (const std::string& pod : cluster_.pods()) {
    EXPECT_TRUE(Identity(pod)["data"].contains("tls.key")) << pod;
  }
  EXPECT_THAT(Services(), ElementsAre("tiny-trainer"));
  EXPECT_THAT(cluster_.server->All(kube::resources::ConfigMaps()), SizeIs(1));
  EXPECT_THAT(cluster_.server->All(kube::resources::PodDisruptionBudgets()), SizeIs(1));
  EXPECT_THAT(cluster_.server->All(kube::resources::NetworkPolicies()), SizeIs(1));
  EXPECT_THAT(cluster_.condition("Accepted"), StartsWith("True"));
}

TEST_F(ReconcilerTest, WhereAGatewayCameTheWorkersHaveNamesForIt) {
  std::string gateway;
  operator_.UseGateways([&] {
    return std::map<std::string, std::string>{{"home", gateway}, {"west", "west.example:7444"}};
  });
  SubmitAndRun();
  EXPECT_THAT(Services(), ElementsAre("tiny-trainer")) << "home's has no address yet";
  gateway = "home.example:7444";
  operator_.Settle();
  EXPECT_THAT(Services(), ElementsAre("tiny-trainer", "tiny-workers"));
}

TEST_F(ReconcilerTest, NoPodIsAskedForBeforeItsNumberIsWritten) {
  cluster_.server->SetHook([&](const FakeApiServer::Call& call) {
    if (IsPodCreation(call) && !call.dry_run) {
      const json status = cluster_.status();
      if (call.name.name == "tiny-trainer-1") {
        EXPECT_EQ(status["trainer"]["term"], 1);
      } else {
        EXPECT_GT(status["nextWorkerOrdinal"], std::stoi(call.name.name.substr(6)));
      }
      // No pod is created before there is an authority for its certificate.
      EXPECT_TRUE(cluster_.server->Find(Secrets(), {"team", "tiny-ca"}));
    }
    return std::nullopt;
  });
  cluster_.Submit();
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
}

TEST_F(ReconcilerTest, APodsIdentityGoesWithThePod) {
  SubmitAndRun();
  cluster_.LoseNodeOf("tiny-w2");
  operator_.Settle();
  EXPECT_FALSE(Identity("tiny-w2").contains("data"));
  EXPECT_TRUE(Identity("tiny-w4").contains("data"));
}

TEST_F(ReconcilerTest, IdentitiesAreRenewedAtHalfOfTheirLife) {
  SubmitAndRun();
  const json worker = Identity("tiny-w0")["data"], trainer = Identity("tiny-trainer-1")["data"];
  operator_.later = std::chrono::hours(90);
  operator_.Settle();
  EXPECT_NE(Identity("tiny-w0")["data"]["tls.crt"], worker["tls.crt"]);
  EXPECT_NE(Identity("tiny-trainer-1")["data"]["tls.crt"], trainer["tls.crt"]);
}

TEST_F(ReconcilerTest, AnIdentityThatCannotBeMadeStopsNothingElse) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    return call.plural == "secrets" && call.name.name == "tiny-w1-identity"
               ? std::optional(Refusal(500, "InternalError", "the power is off"))
               : std::nullopt;
  });
  cluster_.Submit();
  operator_.FillCaches();
  EXPECT_FALSE(operator_.Look().ok()) << "so it is tried again";
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
  EXPECT_TRUE(Identity("tiny-w3").contains("data"));
  EXPECT_FALSE(Identity("tiny-w1").contains("data"));
  cluster_.EndPod("tiny-w0", 137, "OOMKilled");
  operator_.FillCaches();
  EXPECT_FALSE(operator_.Look().ok());
  EXPECT_THAT(cluster_.pods(), Contains("tiny-w4")) << "a lost worker is replaced all the same";
  cluster_.server->SetHook(nullptr);
  operator_.Settle();
  EXPECT_TRUE(Identity("tiny-w1").contains("data"));
}

TEST_F(ReconcilerTest, AQuotaOfSecretsIsToldOfAndLeavesNoPodThatWaitsForItsIdentity) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    return call.plural == "secrets" && call.method == "POST" && call.name.name.starts_with("tiny-w")
               ? std::optional(
                     Refusal(403, "Forbidden", "secrets \"x\" is forbidden: exceeded quota: small"))
               : std::nullopt;
  });
  cluster_.Submit();
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), ElementsAre("tiny-trainer-1"));
  EXPECT_THAT(cluster_.condition("CapacityAvailable"), HasSubstr("exceeded quota"));
  EXPECT_THAT(Created(), SizeIs(3)) << "the trainer, and a batch of two workers";
  cluster_.server->SetHook(nullptr);
  operator_.later += std::chrono::hours(1);
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
}

TEST_F(ReconcilerTest, WithoutAnAuthorityNoPodIsMadeAndTheRestIsDone) {
  cluster_.server->Put(Secrets(), {{"metadata", {{"name", "tiny-ca"}, {"namespace", "team"}}}});
  cluster_.Submit();
  operator_.FillCaches();
  EXPECT_EQ(operator_.Look().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Created(), IsEmpty());
  EXPECT_THAT(Services(), ElementsAre("tiny-trainer"));
  operator_.FillCaches();
  (void)operator_.Look();
  EXPECT_THAT(cluster_.condition("CapacityAvailable"), HasSubstr("Secret team/tiny-ca exists"));
  cluster_.server->Remove(Secrets(), {"team", "tiny-ca"});
  operator_.later += std::chrono::hours(1);
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
}

TEST_F(ReconcilerTest, PodsOfAnEarlierOperatorKeepTheSecretThatTheyShare) {
  SubmitAndRun();
  ShareIdentities();
  OperatorUnderTest next(cluster_.server, &cluster_.trainers, 2);
  next.Settle();
  const auto shared = [&] {
    return (*cluster_.server->Find(Secrets(), {"team", "tiny-identities"}))["data"];
  };
  const json first = shared();
  EXPECT_TRUE(first.contains("trainer.key") && first.contains("w3.crt"));
  EXPECT_FALSE(first.contains("w9.key")) << "of a pod that is gone";
  EXPECT_FALSE(Identity("tiny-w3").contains("data")) << "which nobody would mount";

  cluster_.LoseNodeOf("tiny-w2");
  next.Settle();
  EXPECT_TRUE(Identity("tiny-w4").contains("data"));
  EXPECT_FALSE(shared().contains("w4.crt"));
  next.later = std::chrono::hours(90);
  next.Settle();
  EXPECT_NE(shared()["w3.crt"], first["w3.crt"]) << "an old pod may run for long";
}

TEST_F(ReconcilerTest, AtRestNothingIsWritten) {
  SubmitAndRun();
  const std::size_t writes = cluster_.server->writes().size();
  for (int i = 0; i < 3; ++i) {
    operator_.FillCaches();
    EXPECT_TRUE(operator_.Look().ok());
  }
  EXPECT_THAT(cluster_.server->writes(), SizeIs(writes));
}

TEST_F(ReconcilerTest, AnOperatorThatBeginsAnewFindsNothingToChange) {
  SubmitAndRun();
  const std::size_t writes = cluster_.server->writes().size();
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  second.Settle();
  EXPECT_THAT(cluster_.server->writes(), SizeIs(writes));
}

/// A model that fits in no pod as a whole.
constexpr char kAutoSpec[] = R"({
    "model": {"config": {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8,
                         "intermediate_size": 2816, "vocab_size": 32000}},
    "training": {"maxSteps": 3, "globalBatchSize": 64, "sequenceLength": 512},
    "pipeline": {"stages": "Auto"},
    "workers": {"minReplicas": null,
                "pools": [{"name": "spot", "resources": {"limits": {"memory": "5Gi"}}}]}})";

TEST_F(ReconcilerTest, AJobWhoseStagesAreAutoIsRunWithThoseThatFitItsPods) {
  cluster_.Submit(kAutoSpec);
  operator_.Settle();
  const json choice = cluster_.status()["plan"]["choice"];
  EXPECT_GT(choice["stages"], 1);
  EXPECT_EQ(choice["generation"], 1);
  EXPECT_EQ(TrainersJob()["spec"]["pipeline"]["stages"], choice["stages"]);
  EXPECT_EQ(cluster_.status()["plan"]["layout"].size(), choice["stages"]);
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
  EXPECT_EQ(cluster_.job()["spec"]["pipeline"]["stages"], "Auto") << "the manifest is the user's";
}

TEST_F(ReconcilerTest, AnOperatorThatBeginsAnewKeepsWhatThePlannerChose) {
  cluster_.Submit(kAutoSpec);
  operator_.Settle();
  const json choice = cluster_.status()["plan"]["choice"], job = TrainersJob();
  // Today's pods would have room for other stages, but the job trains with these.
  cluster_.server->Edit(SwarmJobs(), kTestJob, [](json& object) {
    object["spec"]["workers"]["pools"][0]["resources"]["limits"]["memory"] = "64Gi";
  });
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  second.Settle();
  EXPECT_EQ(cluster_.status()["observedGeneration"], 2);
  EXPECT_EQ(cluster_.status()["plan"]["choice"], choice);
  EXPECT_EQ(TrainersJob(), job);
  EXPECT_THAT(Created(), SizeIs(5));
}

TEST_F(ReconcilerTest, AJobThatHasNotStartedIsPlannedAnewWhenItChanges) {
  json spec = json::parse(kAutoSpec);
  spec["suspend"] = true;
  cluster_.Submit(spec.dump());
  operator_.Settle();
  EXPECT_GT(cluster_.status()["plan"]["choice"]["stages"], 1);
  cluster_.server->Edit(SwarmJobs(), kTestJob, [](json& object) {
    object["spec"]["workers"]["pools"][0]["resources"]["limits"]["memory"] = "64Gi";
  });
  operator_.Settle();
  EXPECT_EQ(cluster_.status()["plan"]["choice"]["stages"], 1);
  EXPECT_EQ(cluster_.status()["plan"]["choice"]["generation"], 2);
}

TEST_F(ReconcilerTest, AJobThatFitsInNoNumberOfStagesIsRejectedWithWhatWouldMakeItFit) {
  json spec = json::parse(kAutoSpec);
  spec["pipeline"]["residency"] = "Resident";
  spec["workers"]["pools"][0]["resources"]["limits"]["memory"] = "300Mi";
  cluster_.Submit(spec.dump());
  operator_.Settle();
  EXPECT_EQ(cluster_.status()["state"], "Rejected");
  EXPECT_THAT(cluster_.condition("Accepted"),
              HasSubstr("no number of stages has room in 4 workers of 0.293 GiB; "));
  EXPECT_THAT(cluster_.condition("Accepted"), HasSubstr("memory of "));
  EXPECT_THAT(Created(), IsEmpty());
}

TEST_F(ReconcilerTest, AnOperatorThatBeginsAnewMendsWhatSomebodyHasChanged) {
  SubmitAndRun();
  const kube::ObjectName name{"team", "tiny-job"};
  const json config = *cluster_.server->Find(kube::resources::ConfigMaps(), name);
  cluster_.server->Edit(kube::resources::ConfigMaps(), name,
                        [](json& object) { object["data"]["job.json"] = "{}"; });
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  second.Settle();
  EXPECT_EQ((*cluster_.server->Find(kube::resources::ConfigMaps(), name))["data"], config["data"]);
}

TEST_F(ReconcilerTest, WhatAnEarlierOperatorWantedAndThisOneDoesNotIsWrittenAnew) {
  SubmitAndRun();
  const kube::ObjectName name{"team", "tiny-job"};
  cluster_.server->Edit(kube::resources::ConfigMaps(), name, [](json& object) {
    object["metadata"]["annotations"][names::kAppliedAnnotation] = "of another version";
  });
  const std::size_t writes = cluster_.server->writes().size();
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  second.Settle();
  EXPECT_THAT(cluster_.server->writes(), SizeIs(writes + 1));
}

TEST_F(ReconcilerTest, ACacheThatIsBehindDoesNoHarm) {
  cluster_.Submit();
  operator_.FillCaches();
  for (int i = 0; i < 10; ++i) {
    // The caches have the job as it was submitted, and no pod.
    const Status status = operator_.Look();
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kAborted) << status.ToString();
  }
  const auto created = Created();
  EXPECT_EQ(std::set(created.begin(), created.end()).size(), created.size());
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
  EXPECT_EQ(Number("nextWorkerOrdinal"), 4u);
}

TEST_F(ReconcilerTest, NoPodsAreListedAndAPodCostsFewRequests) {
  cluster_.Submit(R"({"workers": {"replicas": 49}})");
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(50));
  cluster_.RunPods();
  operator_.Settle();
  const auto requests = [&] {
    const auto calls = cluster_.server->calls();
    return std::ranges::count_if(calls, [](const auto& call) { return call.plural != "events"; });
  };
  const auto before = requests();
  EXPECT_LE(before, 3 * 50) << "2 for each pod and its Secret";
  cluster_.LoseNodeOf("tiny-w7");
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), Contains("tiny-w49"));
  EXPECT_LE(requests() - before, 7) << "the job, the pod that is gone, status, pod, Secret, status";
  for (const auto& call : cluster_.server->calls()) {
    EXPECT_FALSE(call.method == "GET" && call.plural == "pods" && call.name.name.empty());
  }
}

TEST_F(ReconcilerTest, AtRestAJobCostsNoRequestAlsoWhenItsTrainerIsGone) {
  SubmitAndRun();
  const auto requests_of_a_look = [&] {
    const auto requests = [&] {
      const auto calls = cluster_.server->calls();
      return std::ranges::count_if(calls, [](const auto& call) { return call.plural != "events"; });
    };
    const auto before = requests();
    operator_.FillCaches();
    EXPECT_TRUE(operator_.Look().ok());
    return requests() - before;
  };
  EXPECT_EQ(requests_of_a_look(), 0);
  cluster_.EndPod("tiny-trainer-1", 0, "Completed");
  operator_.Settle();
  for (const std::string& pod : cluster_.pods()) cluster_.server->Remove(Pods(), {"team", pod});
  operator_.Settle();
  EXPECT_EQ(requests_of_a_look(), 0);
}

TEST_F(ReconcilerTest, APodThatTheCacheLacksIsAskedForByNameBeforeItCountsAsGone) {
  SubmitAndRun();
  const json lost = cluster_.pod("tiny-w1");
  operator_.FillCaches();
  operator_.Miss("tiny-w1");
  EXPECT_TRUE(operator_.Look().ok());
  EXPECT_THAT(Created(), SizeIs(5));
  EXPECT_EQ(cluster_.pod("tiny-w1"), lost);
}

TEST_F(ReconcilerTest, APodThatComesAndGoesBetweenTwoLooksIsReplaced) {
  cluster_.Submit();
  operator_.FillCaches();
  EXPECT_TRUE(operator_.Look().ok());
  cluster_.server->Remove(Pods(), {"team", "tiny-w1"});
  operator_.FillCaches();
  EXPECT_TRUE(operator_.Look().ok());
  EXPECT_THAT(Created(), SizeIs(5)) << "the cache may not show it yet";
  ASSERT_TRUE(operator_.look_again);
  EXPECT_LE(*operator_.look_again, std::chrono::seconds(10));
  operator_.later = std::chrono::seconds(11);
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(),
              ElementsAre("tiny-trainer-1", "tiny-w0", "tiny-w2", "tiny-w3", "tiny-w4"));
}

TEST_F(ReconcilerTest, AnOperatorThatEndsBetweenReserveAndCreateIsTakenOverFrom) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    return IsPodCreation(call) && !call.dry_run
               ? std::optional(Refusal(500, "InternalError", "the power is off"))
               : std::nullopt;
  });
  cluster_.Submit();
  operator_.FillCaches();
  for (int i = 0; i < 3; ++i) (void)operator_.Look();
  EXPECT_THAT(cluster_.pods(), IsEmpty());
  cluster_.server->SetHook(nullptr);

  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  second.Settle();
  for (int i = 0; i < 3; ++i) {
    second.later += std::chrono::minutes(2);
    second.Settle();
  }
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
  EXPECT_EQ(Number("failures"), 0u);
  EXPECT_EQ(Number("preemptions"), 0u);
}

TEST_F(ReconcilerTest, OfTwoThatBelieveToLeadOneReserves) {
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  cluster_.Submit();
  operator_.FillCaches();
  second.FillCaches();
  bool between = false;
  cluster_.server->SetHook(
      [&](const FakeApiServer::Call& call) -> std::optional<kube::HttpResponse> {
        if (call.subresource == "status" && !between) {
          between = true;  // while the first operator's reservation is in flight
          EXPECT_TRUE(second.Look().ok());
        }
        return std::nullopt;
      });
  EXPECT_EQ(operator_.Look().code(), StatusCode::kAborted);
  EXPECT_TRUE(between);
  for (int i = 0; i < 5; ++i) {
    operator_.FillCaches();
    (void)operator_.Look();
    second.FillCaches();
    (void)second.Look();
  }
  EXPECT_THAT(cluster_.pods(),
              ElementsAre("tiny-trainer-1", "tiny-w0", "tiny-w1", "tiny-w2", "tiny-w3"));
  EXPECT_EQ(Number("nextWorkerOrdinal"), 4u);
}

TEST_F(ReconcilerTest, AQuotaIsToldOfAndWaitedFor) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    return IsPodCreation(call) && call.name.name.starts_with("tiny-w")
               ? std::optional(Refusal(403, "Forbidden", kForbidden))
               : std::nullopt;
  });
  cluster_.Submit();
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), ElementsAre("tiny-trainer-1"));
  EXPECT_THAT(cluster_.condition("CapacityAvailable"), StartsWith("False"));
  EXPECT_THAT(cluster_.condition("CapacityAvailable"), HasSubstr("exceeded quota"));
  const auto tries = Created().size();
  operator_.Settle();
  EXPECT_EQ(Created().size(), tries) << "not again at once";

  cluster_.server->SetHook(nullptr);
  operator_.later += std::chrono::hours(1);
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
  cluster_.RunPods();
  operator_.Settle();
  EXPECT_THAT(cluster_.condition("CapacityAvailable"), Not(StartsWith("False")));
  EXPECT_EQ(Number("failures"), 0u);
}

TEST_F(ReconcilerTest, CreationsBeginOneByOneAndGoOnSideBySide) {
  std::mutex mutex;
  std::condition_variable more;
  std::size_t waiting = 0;
  cluster_.server->SetHook([&](const FakeApiServer::Call& call) {
    if (!IsPodCreation(call) || call.dry_run ||
        (call.name.name != "tiny-w5" && call.name.name != "tiny-w4")) {
      return std::optional<kube::HttpResponse>();
    }
    std::unique_lock lock(mutex);
    ++waiting;
    more.notify_all();  // each of the two waits until both are on their way
    EXPECT_TRUE(more.wait_for(lock, std::chrono::seconds(20), [&] { return waiting >= 2; }));
    return std::optional<kube::HttpResponse>();
  });
  cluster_.Submit(R"({"workers": {"replicas": 12}})");
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(13));
  EXPECT_EQ(waiting, 2u);
}

TEST_F(ReconcilerTest, PodsAreDeletedAtTheSameTimeToo) {
  cluster_.Submit(R"({"workers": {"replicas": 12}})");
  operator_.Settle();
  ASSERT_THAT(cluster_.pods(), SizeIs(13));
  std::mutex mutex;
  std::condition_variable more;
  std::size_t asked = 0;
  cluster_.server->SetHook([&](const FakeApiServer::Call& call) {
    if (call.method != "DELETE" || call.plural != "pods") {
      return std::optional<kube::HttpResponse>();
    }
    std::unique_lock lock(mutex);
    ++asked;
    more.notify_all();  // each waits until all eight are on their way
    EXPECT_TRUE(more.wait_for(lock, std::chrono::seconds(20), [&] { return asked >= 8; }));
    return std::optional<kube::HttpResponse>();
  });
  cluster_.server->Edit(SwarmJobs(), kTestJob,
                        [](json& object) { object["spec"]["workers"]["replicas"] = 4; });
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
  EXPECT_EQ(asked, 8u);
}

TEST_F(ReconcilerTest, ARefusedBatchIsTheLast) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    const bool full = IsPodCreation(call) && !call.dry_run && call.name.name != "tiny-trainer-1" &&
                      call.name.name != "tiny-w0";
    return full ? std::optional(Refusal(403, "Forbidden", kForbidden)) : std::nullopt;
  });
  cluster_.Submit(R"({"workers": {"replicas": 40}})");
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), ElementsAre("tiny-trainer-1", "tiny-w0"));
  EXPECT_LE(Created().size(), 3u) << "batches of one and of two";
  EXPECT_THAT(cluster_.condition("CapacityAvailable"), HasSubstr("exceeded quota"));
}

TEST_F(ReconcilerTest, ACreationWithoutAnAnswerIsTriedAgain) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    return IsPodCreation(call) && !call.dry_run && call.name.name == "tiny-w1"
               ? std::optional(Refusal(500, "InternalError", "the power is off"))
               : std::nullopt;
  });
  cluster_.Submit();
  operator_.FillCaches();
  EXPECT_FALSE(operator_.Look().ok());
  EXPECT_THAT(cluster_.pods(), SizeIs(4));
  cluster_.server->SetHook(nullptr);
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), Contains("tiny-w1"));
}

TEST_F(ReconcilerTest, WhatTheServerFindsWrongWithAPodIsSaidBeforeAnyIsMade) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    return IsPodCreation(call)
               ? std::optional(Refusal(422, "Invalid",
                                       "Pod \"tiny-w0\" is invalid: spec.tolerations[0].operator:"
                                       " Unsupported value"))
               : std::nullopt;
  });
  cluster_.Submit();
  operator_.Settle();
  EXPECT_THAT(cluster_.condition("Accepted"), StartsWith("False"));
  EXPECT_THAT(cluster_.condition("Accepted"), HasSubstr("spec.tolerations[0].operator"));
  EXPECT_THAT(Created(), IsEmpty());
}

TEST_F(ReconcilerTest, APodOfThatNameThatIsSomebodyElsesIsLeftAlone) {
  cluster_.server->Put(Pods(), {{"metadata", {{"name", "tiny-w1"}, {"namespace", "team"}}}});
  cluster_.Submit();
  operator_.Settle();
  EXPECT_THAT(cluster_.pod("tiny-w1")["metadata"], Not(Contains(json("ownerReferences"))));
  EXPECT_THAT(cluster_.condition("CapacityAvailable"),
              HasSubstr("does not belong to this SwarmJob"));
}

TEST_F(ReconcilerTest, AWorkerWhoseNodeIsGoneIsReplacedUnderAnotherName) {
  SubmitAndRun();
  cluster_.LoseNodeOf("tiny-w2");
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(),
              ElementsAre("tiny-trainer-1", "tiny-w0", "tiny-w1", "tiny-w3", "tiny-w4"));
  EXPECT_EQ(Number("failures"), 0u);
  EXPECT_EQ(Number("nextWorkerOrdinal"), 5u);
}

TEST_F(ReconcilerTest, AWorkerThatRanOutOfMemoryIsAFailureCountedOnce) {
  SubmitAndRun();
  cluster_.EndPod("tiny-w0", 137, "OOMKilled");
  operator_.Settle();
  EXPECT_EQ(Number("failures"), 1u);
  EXPECT_EQ(Number("preemptions"), 0u);
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  second.later = std::chrono::hours(1);
  second.Settle();
  EXPECT_EQ(Number("failures"), 1u);
  EXPECT_THAT(cluster_.pods(), Contains("tiny-w4"));
}

TEST_F(ReconcilerTest, ALostTrainerIsFollowedByOneOfTheNextTerm) {
  SubmitAndRun();
  cluster_.LoseNodeOf("tiny-trainer-1");
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), Contains("tiny-trainer-2"));
  EXPECT_THAT(cluster_.pods(), Not(Contains("tiny-trainer-1")));
  EXPECT_EQ(cluster_.status()["trainer"]["term"], 2);
}

TEST_F(ReconcilerTest, ATrainerThatIsDoneEndsTheJobAndItsWorkers) {
  SubmitAndRun();
  cluster_.EndPod("tiny-trainer-1", 0, "Completed");
  operator_.Settle();
  EXPECT_THAT(cluster_.condition("Succeeded"), StartsWith("True"));
  for (const std::string& name : cluster_.pods()) {
    if (name.starts_with("tiny-w")) {
      EXPECT_TRUE(cluster_.pod(name)["metadata"].contains("deletionTimestamp")) << name;
    }
  }
}

TEST_F(ReconcilerTest, OldCertificatesOfAJobThatIsOverKeepNobodyBusy) {
  SubmitAndRun();
  cluster_.EndPod("tiny-trainer-1", 0, "Completed");
  operator_.Settle();
  operator_.later += std::chrono::hours(100);
  operator_.Settle();
  EXPECT_GT(operator_.look_again.value_or(std::chrono::hours(1)), std::chrono::minutes(1));
}

TEST_F(ReconcilerTest, AJobThatIsOverMissesNoWorkers) {
  SubmitAndRun();
  const auto desired = [&] {
    for (const MetricSample& sample : operator_.metrics.Read(Clock::now())) {
      if (sample.metric == Metric::kOperatorWorkersDesired) return std::get<double>(sample.value);
    }
    return -1.0;
  };
  EXPECT_EQ(desired(), 4);
  cluster_.EndPod("tiny-trainer-1", 0, "Completed");
  operator_.Settle();
  EXPECT_EQ(desired(), 0);
}

TEST_F(ReconcilerTest, AJobThatIsDeletedTakesAllWithItAndIsForgotten) {
  SubmitAndRun();
  cluster_.server->Remove(SwarmJobs(), kTestJob);
  EXPECT_THAT(cluster_.pods(), IsEmpty());
  EXPECT_THAT(cluster_.server->All(Secrets()), IsEmpty());
  const std::size_t writes = cluster_.server->writes().size();
  EXPECT_TRUE(operator_.Look().ok()) << "the cache still has the job";
  operator_.FillCaches();
  EXPECT_TRUE(operator_.Look().ok());
  EXPECT_THAT(cluster_.server->writes(), SizeIs(writes));
  EXPECT_THAT(operator_.metrics.Read(Clock::now()),
              Not(Contains(testing::Field(&MetricSample::labels, Contains("tiny")))));
}

TEST_F(ReconcilerTest, AJobMadeAnewUnderTheOldNameBeginsAnew) {
  SubmitAndRun();
  cluster_.server->Remove(SwarmJobs(), kTestJob);
  cluster_.Submit();
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), SizeIs(5));
  EXPECT_EQ(cluster_.status()["trainer"]["term"], 1);
}

TEST_F(ReconcilerTest, AJobOfAnotherControllerIsNotTouched) {
  for (const char* other : {"example.com/other", "kueue.x-k8s.io/multikueue"}) {
    cluster_.Submit(json{{"managedBy", other}}.dump());
    operator_.FillCaches();
    EXPECT_TRUE(operator_.Look().ok());
    EXPECT_THAT(cluster_.server->writes(), IsEmpty());
  }
}

TEST_F(ReconcilerTest, AManifestThatCannotRunIsRefusedWithReasons) {
  cluster_.Submit(R"({"model": {"config": {"num_attention_heads": 7}}})");
  operator_.Settle();
  EXPECT_THAT(cluster_.condition("Accepted"), StartsWith("False"));
  EXPECT_THAT(cluster_.condition("Accepted"), HasSubstr("num_attention_heads"));
  EXPECT_THAT(cluster_.pods(), IsEmpty());
}

TEST_F(ReconcilerTest, AWorkerOnANodeWithNoticeLeavesInOrderAndIsReplacedAtOnce) {
  SubmitAndRun();
  cluster_.server->Edit(
      kube::resources::Nodes(), {"", kube::TextAt(cluster_.pod("tiny-w1"), "/spec/nodeName")},
      [](json& node) {
        node["spec"]["taints"] = {
            {{"key", "aws-node-termination-handler/spot-itn"}, {"effect", "NoSchedule"}}};
      });
  operator_.Settle();
  EXPECT_TRUE(cluster_.pod("tiny-w1")["metadata"].contains("deletionTimestamp"));
  EXPECT_THAT(cluster_.pods(), Contains("tiny-w4"));
  EXPECT_EQ(Number("preemptions"), 1u);
}

TEST_F(ReconcilerTest, NewPodsAvoidANodeThatStartsNoneAndAMetricSaysSo) {
  SubmitAndRun();
  const auto avoided = [this] {
    for (const MetricSample& sample : operator_.metrics.Read(Clock::now())) {
      if (sample.metric == Metric::kOperatorAvoidedNodes) return std::get<double>(sample.value);
    }
    return -1.0;
  };
  EXPECT_EQ(avoided(), 0);
  const std::string node = kube::TextAt(cluster_.pod("tiny-w1"), "/spec/nodeName");
  cluster_.EndPod("tiny-w1", 128, "StartError");
  operator_.Settle();
  EXPECT_EQ(avoided(), 1);
  EXPECT_EQ(cluster_.status()["nodes"][0]["name"], node);
  operator_.later += std::chrono::seconds(5);  // the pause after a failure
  operator_.Settle();
  const json affinity = cluster_.pod("tiny-w4")["spec"]["affinity"]["nodeAffinity"];
  const json terms = affinity["preferredDuringSchedulingIgnoredDuringExecution"];
  EXPECT_EQ(terms[0]["preference"]["matchExpressions"][0]["values"], json::array({node}));
}

TEST_F(ReconcilerTest, APodThatHasANodeAndDoesNotRunYetIsToldFromOneThatHasNone) {
  cluster_.Submit();
  operator_.Settle();
  const auto count = [this](const std::string& phase) {
    for (const MetricSample& sample : operator_.metrics.Read(Clock::now())) {
      const bool is_it = sample.metric == Metric::kOperatorPoolPods &&
                         std::ranges::find(sample.labels, phase) != sample.labels.end();
      if (is_it) return std::get<double>(sample.value);
    }
    return -1.0;
  };
  EXPECT_EQ(count("Pending"), 4);
  EXPECT_EQ(count("Starting"), 0);
  cluster_.server->Put(kube::resources::Nodes(),
                       {{"metadata", {{"name", "spot-1"}}},
                        {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
  cluster_.server->Edit(Pods(), {kTestJob.ns, "tiny-w1"},
                        [](json& pod) { pod["spec"]["nodeName"] = "spot-1"; });
  operator_.Settle();
  EXPECT_EQ(count("Pending"), 3);
  EXPECT_EQ(count("Starting"), 1);
}

TEST_F(ReconcilerTest, WhatAJobCostsIsInItsMetricsAndNotInItsTrainersManifest) {
  cluster_.Submit(R"({
      "budget": {"dollars": 1e9},
      "workers": {"pools": [{"name": "spot", "machine": {"teraflops": 1, "dollarsPerHour": 0.5}}]}})");
  operator_.Settle();
  cluster_.RunPods();
  operator_.Settle();
  std::map<Metric, double> values;
  for (const MetricSample& sample : operator_.metrics.Read(Clock::now())) {
    if (const auto* value = std::get_if<double>(&sample.value)) values[sample.metric] = *value;
  }
  EXPECT_EQ(values.at(Metric::kOperatorDollarsPerHour), 4 * 0.5);
  EXPECT_EQ(values.at(Metric::kOperatorBudget), 1e9);
  const double before = values.at(Metric::kOperatorSpent);
  operator_.later += std::chrono::hours(1);
  operator_.Settle();
  EXPECT_NEAR(cluster_.status()["cost"]["dollars"].get<double>(), before + 2, 0.1);
  EXPECT_FALSE(TrainersJob()["spec"].contains("budget"));
}

TEST_F(ReconcilerTest, TheTrainerIsToldWhichPodsAreGoneUntilItKnows) {
  SubmitAndRun();
  cluster_.server->Remove(Pods(), {"team", "tiny-w1"});
  operator_.Settle();
  protocol::JobStatus training;
  training.state = protocol::JobState::kTraining;
  training.term = protocol::Term(1);
  const auto hear = [&] {
    cluster_.trainers.Say(kube::TextAt(cluster_.pod("tiny-trainer-1"), "/status/podIP") + ":7000",
                          training);
    operator_.FillCaches();
    (void)operator_.Look();
  };
  ASSERT_TRUE(cluster_.server->Await([&] {
    hear();
    return !cluster_.trainers.told().empty();
  }));
  const protocol::Direct told = cluster_.trainers.told().front();
  EXPECT_TRUE(told.retired.Has(protocol::WorkerId("tiny-w1")));
  for (const char* worker : {"tiny-w0", "tiny-w2", "tiny-w3", "tiny-w4"}) {
    EXPECT_FALSE(told.retired.Has(protocol::WorkerId(worker))) << worker;
  }
  training.retired = 1;
  hear();
  const std::size_t known = cluster_.trainers.told().size();
  hear();
  EXPECT_EQ(cluster_.trainers.told().size(), known);
}

TEST_F(ReconcilerTest, WhereAStageHasTooFewTheTrainerIsToldWhoMoves) {
  SubmitAndRun();
  protocol::JobStatus training;
  training.state = protocol::JobState::kTraining;
  training.term = protocol::Term(1);
  training.stages = {{protocol::StageIndex(0), {}}, {protocol::StageIndex(1), {}}};
  for (const char* worker : {"tiny-w0", "tiny-w1", "tiny-w2", "tiny-w3"}) {
    const bool lonely = worker == std::string("tiny-w3");
    training.stages[lonely].workers.push_back({.id = protocol::WorkerId(worker),
                                               .microbatches_per_second = 10,
                                               .state = protocol::WorkerState::kReady});
  }
  training.balance.state_load_seconds = 1;
  cluster_.trainers.Say(kube::TextAt(cluster_.pod("tiny-trainer-1"), "/status/podIP") + ":7000",
                        training);
  ASSERT_TRUE(cluster_.server->Await([&] {
    operator_.FillCaches();
    (void)operator_.Look();
    return !cluster_.trainers.told().empty();
  }));
  const protocol::Direct told = cluster_.trainers.told().front();
  ASSERT_THAT(told.moves, SizeIs(1));
  EXPECT_EQ(told.moves[0].to, protocol::StageIndex(1));
  EXPECT_EQ(told.leader_term, 1u);
}

TEST_F(ReconcilerTest, WithTheServerAwayNothingIsTakenForGone) {
  SubmitAndRun();
  cluster_.server->SetHook([](const FakeApiServer::Call&) {
    return std::optional(Refusal(503, "ServiceUnavailable", "etcd has no leader"));
  });
  cluster_.server->Edit(Pods(), {"team", "tiny-w0"}, [](json& pod) {
    pod["status"]["phase"] = "Failed";
    pod["status"]["reason"] = "NodeShutdown";
  });
  operator_.FillCaches();
  EXPECT_FALSE(operator_.Look().ok());
  cluster_.server->SetHook(nullptr);
  operator_.Settle();
  EXPECT_EQ(Number("preemptions"), 1u);
  EXPECT_THAT(cluster_.pods(), Contains("tiny-w4"));
}

}  // namespace
}  // namespace swarm::controller
