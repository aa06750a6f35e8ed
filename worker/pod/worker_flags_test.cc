#include "worker/pod/worker_flags.h"

#include <gtest/gtest.h>

namespace swarm::pod {
namespace {

WorkerFlags Pod() {
  return {.listen = "0.0.0.0:7000",
          .advertise = "10.0.0.7:7000",
          .metrics_listen = "0.0.0.0:9090",
          .plaintext = true,
          .id = "job-w3",
          .trainer = "trainer:7000",
          .devices = {"cuda:0", "cuda:1", "cpu"}};
}

TEST(PodFlagsTest, EachWorkerHasADeviceANameAndPortsOfItsOwn) {
  WorkerFlags expected = Pod();
  expected.id = "job-w3-1";
  expected.pod = "job-w3";
  expected.devices.clear();
  expected.device = "cuda:1";
  expected.listen = "0.0.0.0:7001";
  expected.advertise = "10.0.0.7:7001";
  expected.metrics_listen = "127.0.0.1:9092";
  expected.memory = 100;
  EXPECT_EQ(WorkerOf(Pod(), 1, 300), expected);
}

TEST(PodFlagsTest, AGatewayKnowsEachWorkerByANumberBeforeTheName) {
  WorkerFlags pod = Pod();
  EXPECT_EQ(WorkerOf(pod, 1, 300).gateway, "");
  pod.gateway = "west.example:7444/job-w3.job-workers.team.svc";
  EXPECT_EQ(WorkerOf(pod, 0, 300).gateway, pod.gateway);
  EXPECT_EQ(WorkerOf(pod, 2, 300).gateway, "west.example:7444/2.job-w3.job-workers.team.svc");
}

TEST(PodFlagsTest, APortThatTheSystemChoosesStaysSo) {
  WorkerFlags pod = Pod();
  pod.listen = "127.0.0.1:0";
  pod.advertise.clear();
  pod.metrics_listen = "127.0.0.1:0";
  pod.metrics_address_file = "metrics/job-w3";
  pod.profile = "profile/job-w3";
  const WorkerFlags worker = WorkerOf(pod, 2, 0);
  EXPECT_EQ(worker.listen, "127.0.0.1:0");
  EXPECT_EQ(worker.advertise, "");
  EXPECT_EQ(worker.metrics_listen, "127.0.0.1:0");
  EXPECT_EQ(worker.metrics_address_file, "metrics/job-w3-2");
  EXPECT_EQ(worker.profile, "profile/job-w3-2");
}

TEST(PodFlagsTest, WhatTheFlagsSayOfMemoryIsEachWorkers) {
  WorkerFlags pod = Pod();
  pod.memory = 50;
  pod.pod = "a-node";
  EXPECT_EQ(WorkerOf(pod, 0, 300).memory, 50u);
  EXPECT_EQ(WorkerOf(pod, 0, 300).pod, "a-node");
}

TEST(PodFlagsTest, AWorkerIsNoLauncher) {
  const auto read = ParseWorkerFlags(ToArguments(WorkerOf(Pod(), 0, 300)));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->flags, WorkerOf(Pod(), 0, 300));
}

}  // namespace
}  // namespace swarm::pod
