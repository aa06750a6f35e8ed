// Stories of nodes on which pods fail, and of how a job goes on without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class NodesTest : public testing::Test {
 protected:
  NodesTest() { cluster.Live(60); }

  /// A worker that ends by itself on this node, which others share.
  void FailOn(const std::string& node, const std::string& pod, int exit_code = 1) {
    const ObservedNode& own = cluster.nodes.at(cluster.pods.at(pod).node);
    cluster.nodes.try_emplace(node, own);
    cluster.pods.at(pod).node = node;
    cluster.End(pod, exit_code);
  }
  const api::NodeStatus* Find(const std::string& node) {
    const auto found = std::ranges::find(cluster.status().nodes, node, &api::NodeStatus::name);
    return found == cluster.status().nodes.end() ? nullptr : &*found;
  }
  std::size_t Told() const {
    return static_cast<std::size_t>(
        std::ranges::count(cluster.events, api::Reason::kNodeAvoided, &Event::reason));
  }

  FakeCluster cluster{4};
};

TEST_F(NodesTest, ANodeThatEndsEveryWorkerIsAvoidedAfterTheThirdAndTheJobIsWholeAgain) {
  cluster.black_hole = "hole";
  cluster.LoseNodeOf("job-w0");
  cluster.Live(120);
  ASSERT_THAT(cluster.status().nodes, SizeIs(1));
  EXPECT_EQ(cluster.status().nodes[0].name, "hole");
  EXPECT_EQ(cluster.status().nodes[0].failures, 3u);
  EXPECT_TRUE(cluster.status().nodes[0].avoided);
  EXPECT_EQ(cluster.status().failures, 3u);
  EXPECT_EQ(Told(), 1u);
  EXPECT_THAT(cluster.ConditionOf(api::ConditionType::kCapacityAvailable).message,
              HasSubstr("; new pods avoid node hole (3 failures)"));
  EXPECT_EQ(cluster.status().readyReplicas, 4u);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST_F(NodesTest, ANodeOnWhichNoContainerStartsIsAvoidedAtOnce) {
  cluster.black_hole = "hole";
  cluster.black_hole_ends = {.exit_code = 128, .reason = "StartError", .message = "no runc"};
  cluster.LoseNodeOf("job-w0");
  cluster.Live(60);
  EXPECT_EQ(cluster.status().failures, 1u);
  EXPECT_EQ(cluster.status().readyReplicas, 4u);
  const auto event = std::ranges::find(cluster.events, api::Reason::kNodeAvoided, &Event::reason);
  ASSERT_NE(event, cluster.events.end());
  EXPECT_THAT(event->message, HasSubstr("node hole"));
  EXPECT_THAT(event->message, HasSubstr("no runc"));
}

TEST_F(NodesTest, ANodeOfOtherProcessorsIsAvoidedAtOnce) {
  cluster.black_hole = "arm";
  cluster.black_hole_ends = {.exit_code = 255,
                             .reason = "Error",
                             .message = "exec /usr/local/bin/swarm-worker: exec format error"};
  cluster.LoseNodeOf("job-w0");
  cluster.Live(60);
  EXPECT_EQ(cluster.status().failures, 1u);
  EXPECT_EQ(cluster.status().readyReplicas, 4u);
}

TEST_F(NodesTest, TenFailuresOnOneNodeDoNotEndAJobThatWorksElsewhere) {
  cluster.spec().failurePolicy = {.maxFailures = 3, .windowSeconds = 3600};
  for (int i = 0; i < 10; ++i) {
    FailOn("bad", cluster.Workers().back());
    cluster.Live(120);
  }
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().failures, 10u);
  EXPECT_THAT(cluster.status().failureTimes, SizeIs(3));
  EXPECT_EQ(Find("bad")->failures, 10u);
  EXPECT_EQ(Told(), 1u);
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST_F(NodesTest, AJobWhoseWorkersFailOnAllItsNodesFails) {
  cluster.spec().failurePolicy = {.maxFailures = 10, .windowSeconds = 3600};
  for (int i = 0; i < 10 && cluster.status().state != api::JobState::kFailed; ++i) {
    bool first = true;
    for (const std::string& name : cluster.Workers()) {
      FailOn(std::exchange(first, false) ? "a" : "b", name);
    }
    cluster.Live(120);
  }
  EXPECT_EQ(cluster.status().state, api::JobState::kFailed);
  EXPECT_EQ(api::FindCondition(cluster.status(), api::ConditionType::kFailed)->reason,
            "TooManyFailures");
}

TEST_F(NodesTest, AFewFailuresMakeNoBadNode) {
  FailOn("a", "job-w0");
  cluster.Live(120);
  FailOn("a", "job-w1");
  cluster.Live(120);
  EXPECT_EQ(Find("a")->failures, 2u);
  EXPECT_FALSE(Find("a")->avoided);
  EXPECT_EQ(Told(), 0u);
}

TEST_F(NodesTest, PreemptionsAreNoFaultOfTheNodeThatGoes) {
  for (int i = 0; i < 4; ++i) {
    cluster.LoseNodeOf(cluster.Workers().back());
    cluster.Live(60);
  }
  EXPECT_THAT(cluster.status().nodes, IsEmpty());
}

TEST_F(NodesTest, ANodeWhoseKubeletRejectsPodsIsAvoidedAndNothingIsCharged) {
  for (int i = 0; i < 3; ++i) {
    ObservedPod& pod = cluster.pods.at(cluster.Workers().back());
    cluster.nodes.try_emplace("bad", cluster.nodes.at(pod.node));
    pod.node = "bad";
    pod.phase = PodPhase::kFailed;
    pod.reason = "UnexpectedAdmissionError";
    pod.ready = false;
    cluster.Live(120);
  }
  ASSERT_NE(Find("bad"), nullptr);
  EXPECT_TRUE(Find("bad")->avoided);
  EXPECT_EQ(cluster.status().failures, 0u);
  EXPECT_EQ(cluster.status().unexplained, 3u);
}

TEST_F(NodesTest, ANodeThatTakesEveryPodAlthoughItIsAvoidedIsNotFedWithoutPause) {
  FailOn("bad", "job-w3");
  for (int second = 0; second < 600; ++second) {
    cluster.Act(cluster.leader);
    cluster.RunPods();
    for (const std::string& name : cluster.Workers()) {
      if (cluster.pods.at(name).number > 3) FailOn("bad", name);
    }
    cluster.Advance(1);
  }
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_GE(Find("bad")->failures, 5u);
  EXPECT_LE(Find("bad")->failures, 20u) << "1, 2, 4 ... 60 seconds apart";
}

TEST_F(NodesTest, WhatWorkersDoOnABadNodeKeepsNoTrainerWaiting) {
  FailOn("bad", "job-w3");
  cluster.status().nodes = {{.name = "bad",
                             .hostname = "bad",
                             .failures = 9,
                             .lastFailureTime = cluster.now,
                             .avoided = true}};
  cluster.LoseNodeOf("job-trainer-1");
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().trainer.term, 2u) << "it has waited on no bad node";
}

TEST_F(NodesTest, AnHourAfterItsLastFailureANodeIsTriedAgain) {
  cluster.black_hole = "hole";
  cluster.black_hole_ends.reason = "StartError";
  cluster.LoseNodeOf("job-w0");
  cluster.Live(60);
  ASSERT_THAT(cluster.status().nodes, SizeIs(1));
  const WallTime due = cluster.status().nodes[0].lastFailureTime + seconds(3600);
  cluster.now = due - seconds(1);
  EXPECT_EQ(cluster.Act(cluster.leader).look_again, due);
  EXPECT_THAT(cluster.status().nodes, SizeIs(1));
  cluster.now = due;
  cluster.Act(cluster.leader);
  EXPECT_THAT(cluster.status().nodes, IsEmpty());
}

TEST_F(NodesTest, OfManyNodesThoseWithTheNewestFailuresAreRemembered) {
  cluster.spec().failurePolicy = {.maxFailures = 1000, .windowSeconds = 60};
  for (int i = 0; i < 40; ++i) {
    FailOn("n" + std::to_string(i), cluster.Workers().back());
    cluster.Live(75);
  }
  EXPECT_THAT(cluster.status().nodes, SizeIs(api::kNodeStatusMax));
  EXPECT_EQ(Find("n7"), nullptr);
  EXPECT_NE(Find("n8"), nullptr);
  EXPECT_NE(Find("n39"), nullptr);
}

TEST_F(NodesTest, TheSchedulersNameOfANodeIsItsLabel) {
  cluster.nodes.at("node-of-job-w0").hostname = "ip-10-0-0-7";
  cluster.End("job-w0", 1);
  cluster.End("job-w1", 1);
  cluster.Live(60);
  EXPECT_EQ(Find("node-of-job-w0")->hostname, "ip-10-0-0-7");
  EXPECT_EQ(Find("node-of-job-w1")->hostname, "node-of-job-w1") << "it has no such label";
}

TEST_F(NodesTest, ATrainersNodeCountsAsWell) {
  FailOn("bad", "job-trainer-1", 139);
  cluster.Live(60);
  FailOn("bad", "job-trainer-2", 139);
  cluster.Live(60);
  FailOn("bad", "job-trainer-3", 139);
  cluster.Live(60);
  EXPECT_TRUE(Find("bad")->avoided);
  EXPECT_THAT(cluster.status().failureTimes, SizeIs(3));
  FailOn("bad", "job-trainer-4", 139);
  cluster.Live(60);
  EXPECT_THAT(cluster.status().failureTimes, SizeIs(4)) << "no trainer works elsewhere";
}

}  // namespace
}  // namespace swarm::plan
