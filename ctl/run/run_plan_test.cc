#include "ctl/run/run_plan.h"

#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

RunPlan PlanOf() {
  RunPlan plan;
  plan.out = "out/x";
  plan.layout = {2, 1, 3};
  plan.threads_per_worker = 4;
  plan.memory = 6 << 20;
  plan.job_uid = "uid";
  return plan;
}

const IdentityFiles kIdentity{"tls/ca.crt", "tls/a.crt", "tls/a.key"};

TEST(RunPlanTest, ATrainerIsToldWhereItReadsAndWrites) {
  EXPECT_EQ(TrainerFlags(PlanOf(), kIdentity, 1, ""),
            (WorkerFlags{.role = WorkerRole::kTrainer,
                         .listen = "127.0.0.1:0",
                         .metrics_listen = "127.0.0.1:0",
                         .metrics_address_file = "out/x/metrics/trainer",
                         .job_uid = "uid",
                         .tls_ca = "tls/ca.crt",
                         .tls_cert = "tls/a.crt",
                         .tls_key = "tls/a.key",
                         .job = "out/x/job.json",
                         .out = "out/x",
                         .address_file = "out/x/trainer.address",
                         .layout = {2, 1, 3},
                         .term = 1}));
}

TEST(RunPlanTest, ATrainerThatIsStartedAgainListensWhereItWas) {
  RunPlan plan = PlanOf();
  plan.resume = true;
  const WorkerFlags flags = TrainerFlags(plan, std::nullopt, 2, "127.0.0.1:4711");
  EXPECT_EQ(flags.listen, "127.0.0.1:4711");
  EXPECT_EQ(flags.term, 2u);
  EXPECT_TRUE(flags.plaintext);
  EXPECT_TRUE(flags.resume);
}

TEST(RunPlanTest, TheTrainerServesThePageWhereItIsWanted) {
  RunPlan plan = PlanOf();
  EXPECT_EQ(TrainerFlags(plan, std::nullopt, 1, "").page_address_file, "");
  plan.page = "127.0.0.1:0";
  const WorkerFlags flags = TrainerFlags(plan, std::nullopt, 1, "");
  EXPECT_EQ(flags.page, "127.0.0.1:0");
  EXPECT_EQ(flags.page_address_file, "out/x/page.address");
}

TEST(RunPlanTest, WithoutMovesTheTrainerBalancesNothing) {
  RunPlan plan = PlanOf();
  plan.moves = false;
  EXPECT_EQ(TrainerFlags(plan, std::nullopt, 1, "").balance, protocol::BalancePolicy::kNone);
}

TEST(RunPlanTest, WorkersOfAProfileWriteAFileEach) {
  RunPlan plan = PlanOf();
  EXPECT_EQ(StageFlags(plan, std::nullopt, "worker-5", {}, "").profile, "");
  plan.profile = true;
  EXPECT_EQ(StageFlags(plan, std::nullopt, "worker-5", {}, "").profile, "out/x/profile/worker-5");
}

TEST(RunPlanTest, AWorkerIsToldItsNameAndItsTrainer) {
  EXPECT_EQ(StageFlags(PlanOf(), std::nullopt, "worker-5", {}, "127.0.0.1:4711"),
            (WorkerFlags{.role = WorkerRole::kStage,
                         .listen = "127.0.0.1:0",
                         .metrics_listen = "127.0.0.1:0",
                         .metrics_address_file = "out/x/metrics/worker-5",
                         .job_uid = "uid",
                         .plaintext = true,
                         .id = "worker-5",
                         .trainer = "127.0.0.1:4711",
                         .threads = 4,
                         .memory = 1 << 20}));
}

TEST(RunPlanTest, ProgramsFollowTheRulesOfADisturbedNetwork) {
  RunPlan plan = PlanOf();
  plan.follow_chaos = true;
  EXPECT_EQ(StageFlags(plan, std::nullopt, "worker-5", {}, "host:1").chaos_file,
            "out/x/chaos.rules");
  EXPECT_EQ(TrainerFlags(plan, std::nullopt, 1, "").chaos_file, "out/x/chaos.rules");
}

TEST(RunPlanTest, WorkersAreInTheRegionsInTurns) {
  RunPlan plan = PlanOf();
  EXPECT_EQ(StageFlags(plan, std::nullopt, "worker-1", {}, "host:1").region, "local");
  plan.regions = {"eu", "us", "asia"};
  EXPECT_EQ(StageFlags(plan, std::nullopt, "worker-1", {}, "host:1").region, "us");
  EXPECT_EQ(StageFlags(plan, std::nullopt, "worker-12", {}, "host:1").region, "eu");
}

TEST(RunPlanTest, CountsItsWorkers) {
  EXPECT_EQ(PlanOf().workers(), 6u);
  EXPECT_EQ(PlanOf().pods(), 6u);
  EXPECT_EQ(PlanOf().DevicesOf(5), std::vector<std::string>());
}

TEST(RunPlanTest, ProgramsOfARunThatOthersJoinListenWhereTheyAreReachedAndHearWhoIsRevoked) {
  RunPlan plan = PlanOf();
  plan.trainer_listen = "10.0.0.5:7401";
  plan.worker_listen = "10.0.0.5:0";
  const WorkerFlags trainer = TrainerFlags(plan, kIdentity, 1, "");
  EXPECT_EQ(trainer.listen, "10.0.0.5:7401");
  EXPECT_EQ(trainer.revoked_file, "out/x/tls/revoked");
  const WorkerFlags worker = StageFlags(plan, kIdentity, "worker-0", {}, "10.0.0.5:7401");
  EXPECT_EQ(worker.listen, "10.0.0.5:0");
  EXPECT_EQ(worker.revoked_file, "out/x/tls/revoked");
}

TEST(RunPlanTest, OfWorkersThatStartElsewhereThisMachineHasNeitherProgramsNorMemory) {
  RunPlan plan = PlanOf();
  plan.here = 2;
  EXPECT_EQ(plan.workers(), 6u);
  EXPECT_EQ(plan.pods(), 2u);
  EXPECT_EQ(StageFlags(plan, kIdentity, "worker-0", {}, "host:1").memory, 3u << 20);
  plan.devices = {"cpu", "cpu", "cpu", "cpu"};
  EXPECT_EQ(plan.pods(), 1u);
  EXPECT_EQ(plan.DevicesOf(0).size(), 2u);
  plan.here = 0;
  EXPECT_EQ(plan.pods(), 0u);
}

TEST(RunPlanTest, WorkersSharePodsAndTheLastPodMayBeSmaller) {
  RunPlan plan = PlanOf();
  plan.devices = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
  EXPECT_EQ(plan.pods(), 2u);
  EXPECT_EQ(plan.DevicesOf(0), plan.devices);
  EXPECT_EQ(plan.DevicesOf(1), (std::vector<std::string>{"cuda:0", "cuda:1"}));
  EXPECT_EQ(plan.DevicesOf(2), plan.devices) << "it replaces a pod";
  const WorkerFlags pod = StageFlags(plan, std::nullopt, "worker-0", plan.devices, "host:1");
  EXPECT_EQ(pod.devices, plan.devices);
  EXPECT_EQ(pod.device, "cpu");
  EXPECT_EQ(pod.memory, 1u << 20);
}

TEST(RunPlanTest, AWorkerWithOneDeviceIsAlone) {
  RunPlan plan = PlanOf();
  plan.devices = {"cuda:1"};
  EXPECT_EQ(plan.pods(), 6u);
  const WorkerFlags flags = StageFlags(plan, std::nullopt, "w", plan.DevicesOf(5), "host:1");
  EXPECT_EQ(flags.device, "cuda:1");
  EXPECT_TRUE(flags.devices.empty());
}

}  // namespace
}  // namespace swarm::ctl
