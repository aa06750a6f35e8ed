#include "ctl/run/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace swarm::ctl {
namespace {

using testing::ElementsAre;

RunPlan PlanOf() {
  RunPlan plan;
  plan.out = "out/x";
  plan.layout = {2, 1, 3};
  plan.threads_per_worker = 4;
  plan.job_uid = "uid";
  return plan;
}

const IdentityFiles kIdentity{"tls/ca.crt", "tls/a.crt", "tls/a.key"};

TEST(RunPlanTest, StartsATrainerByTheContract) {
  EXPECT_THAT(TrainerSpec(PlanOf(), kIdentity, 1, "").arguments,
              ElementsAre("--role=trainer", "--job", "out/x/job.json", "--out", "out/x", "--listen",
                          "127.0.0.1:0", "--address-file", "out/x/trainer.address", "--layout",
                          "2,1,3", "--term", "1", "--job-uid", "uid", "--tls-ca", "tls/ca.crt",
                          "--tls-cert", "tls/a.crt", "--tls-key", "tls/a.key", "--metrics-listen",
                          "127.0.0.1:0", "--metrics-address-file", "out/x/metrics/trainer"));
}

TEST(RunPlanTest, ATrainerThatIsStartedAgainListensWhereItWas) {
  RunPlan plan = PlanOf();
  plan.resume = true;
  const auto arguments = TrainerSpec(plan, std::nullopt, 2, "127.0.0.1:4711").arguments;
  EXPECT_EQ(arguments[6], "127.0.0.1:4711");
  EXPECT_EQ(arguments[12], "2");
  EXPECT_EQ(arguments[15], "--plaintext");
  EXPECT_EQ(arguments.back(), "--resume");
}

TEST(RunPlanTest, WhereNobodyMovesTheTrainerIsToldSo) {
  RunPlan plan = PlanOf();
  plan.moves = false;
  const auto arguments = TrainerSpec(plan, std::nullopt, 1, "").arguments;
  EXPECT_EQ(*(arguments.end() - 2), "--balance");
  EXPECT_EQ(arguments.back(), "None");
}

TEST(RunPlanTest, StartsAWorkerByTheContract) {
  const WorkerSpec spec = StageSpec(PlanOf(), std::nullopt, "worker-5", "127.0.0.1:4711");
  EXPECT_EQ(spec.name, "worker-5");
  EXPECT_EQ(spec.role, Role::kStage);
  EXPECT_THAT(spec.arguments,
              ElementsAre("--role=stage", "--id", "worker-5", "--trainer", "127.0.0.1:4711",
                          "--listen", "127.0.0.1:0", "--threads", "4", "--job-uid", "uid",
                          "--plaintext", "--metrics-listen", "127.0.0.1:0",
                          "--metrics-address-file", "out/x/metrics/worker-5"));
}

TEST(RunPlanTest, ProgramsFollowTheRulesOfADisturbedNetwork) {
  RunPlan plan = PlanOf();
  plan.follow_chaos = true;
  for (const WorkerSpec& spec : {StageSpec(plan, std::nullopt, "worker-5", "127.0.0.1:4711"),
                                 TrainerSpec(plan, std::nullopt, 1, "")}) {
    const auto found = std::find(spec.arguments.begin(), spec.arguments.end(), "--chaos-file");
    ASSERT_NE(found, spec.arguments.end());
    EXPECT_EQ(*(found + 1), "out/x/chaos.rules");
  }
}

TEST(RunPlanTest, CountsItsWorkers) { EXPECT_EQ(PlanOf().workers(), 6u); }

}  // namespace
}  // namespace swarm::ctl
