// Workers whose stages do not fit into their memory, one of which is killed: losses and gradient
// norms are those of one process that has all in memory, to the last bit.
#include "api/format/enum_names.h"
#include "tests/swarm/local_swarm.h"
#include "worker/model/stage.h"
#include "worker/stage/load.h"

namespace swarm::tests {
namespace {

class SwapTest : public ::testing::TestWithParam<api::StepMode> {
 protected:
  SwapTest() : job_(TinyJob(folder_)) {
    job_.spec.training.stepMode = GetParam();
    job_.spec.training.maxSteps = 20;
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.pipeline.stages = 2;
    // Its rates do not depend on maxSteps, which a resumed run changes.
    job_.spec.schedule.type = api::ScheduleType::kInverseSquareRoot;
  }

  /// In memory for two layers; a stage has three or four, and the embedding or the head.
  void Swap() {
    job_.spec.pipeline.residency = api::Residency::kSwap;
    job_.spec.pipeline.memory = {.host = 320'000, .scratch = folder_.path().string()};
  }

  TemporaryFolder folder_;
  api::SwarmJob job_;
};

TEST_P(SwapTest, AKilledWorkerOfASwarmThatSwapsChangesNoBit) {
  job_.spec.checkpoint.uri = folder_ / "checkpoints-alone";
  ASSERT_TRUE(trainer::TrainReference({.job = job_, .out_dir = folder_ / "alone"}).ok());

  Swap();
  const std::string out = folder_ / "out";
  job_.spec.checkpoint.uri = folder_ / "checkpoints";
  net::LoopbackNetwork network;
  auto trainer = StartTrainer(network, {.job = job_, .replicas = {2, 2}, .out_dir = out});
  ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
  std::vector<std::unique_ptr<stage::Worker>> workers;
  const auto start = [&] {
    auto worker =
        StartWorker(network, {.id = protocol::WorkerId("w" + std::to_string(workers.size()))});
    ASSERT_TRUE(worker.ok()) << worker.status().ToString();
    workers.push_back(std::move(*worker));
  };
  for (int i = 0; i < 4; ++i) start();

  AwaitSteps(out, 4);
  workers[1].reset();
  start();  // and copies the state of one that swaps
  for (auto& worker : workers) {
    if (worker == nullptr) continue;
    EXPECT_TRUE(worker->Wait().ok());
    worker.reset();
  }
  const trainer::Outcome outcome = (*trainer)->Wait();
  EXPECT_TRUE(outcome.succeeded) << outcome.reason;
  EXPECT_EQ(StepBits(out), StepBits(folder_ / "alone"));
}

TEST_P(SwapTest, ARunThatSwapsGoesOnFromACheckpointOfOneThatDoesNot) {
  job_.spec.checkpoint.uri = folder_ / "checkpoints-alone";
  ASSERT_TRUE(trainer::TrainReference({.job = job_, .out_dir = folder_ / "alone"}).ok());

  const std::string out = folder_ / "out";
  job_.spec.checkpoint.uri = folder_ / "checkpoints";
  job_.spec.training.maxSteps = 9;
  ASSERT_TRUE(RunSwarm(job_, {1, 1}, out).succeeded);
  Swap();
  job_.spec.training.maxSteps = 20;
  const auto outcome = RunSwarm(job_, {1, 1}, out, /*resume=*/true);
  EXPECT_TRUE(outcome.succeeded) << outcome.reason;
  EXPECT_EQ(StepBits(out), StepBits(folder_ / "alone"));
}

/// Its stages collect the microbatches of a step, which pass them together.
TEST_P(SwapTest, OneProcessThatSwapsChangesNoBit) {
  for (const std::uint64_t stages : {1, 2}) {
    job_.spec.pipeline.stages = stages;
    job_.spec.pipeline.residency = api::Residency::kResident;
    const std::string alone = folder_ / ("alone-" + std::to_string(stages));
    job_.spec.checkpoint.uri = alone + "-checkpoints";
    ASSERT_TRUE(trainer::TrainReference({.job = job_, .out_dir = alone}).ok());
    Swap();
    const std::string swapped = folder_ / ("swapped-" + std::to_string(stages));
    job_.spec.checkpoint.uri = swapped + "-checkpoints";
    ASSERT_TRUE(trainer::TrainReference({.job = job_, .out_dir = swapped}).ok());
    EXPECT_EQ(StepBits(swapped), StepBits(alone)) << stages << " stages";
  }
}

/// On a CPU segments are computed in the memory of the host, so the lower limit counts.
TEST(SwapLimitTest, SegmentsTakeNoMoreThanTheLimitOfWhereTheyAreComputed) {
  const TemporaryFolder folder;
  api::SwarmJob job = TinyJob(folder);
  job.spec.pipeline.stages = 1;
  job.spec.pipeline.residency = api::Residency::kSwap;
  const auto describe = [&](std::uint64_t host, std::uint64_t device) {
    job.spec.pipeline.memory = {.host = host, .device = device, .scratch = folder.path().string()};
    const auto options = stage::OptionsOnDevice(job, 0, 1, 1, "cpu");
    EXPECT_TRUE(options.ok()) << options.status().ToString();
    const auto stage = model::Stage::Create(*options);
    EXPECT_TRUE(stage.ok()) << stage.status().ToString();
    return (*stage)->DescribeMemory();
  };
  constexpr std::uint64_t kMuch = 1 << 30, kLittle = 320'000;
  EXPECT_EQ(describe(kMuch, kLittle), describe(kLittle, 0));
  EXPECT_EQ(describe(kLittle, kMuch), describe(kLittle, 0));
  EXPECT_NE(describe(kMuch, 0), describe(kLittle, 0));
}

INSTANTIATE_TEST_SUITE_P(Modes, SwapTest,
                         ::testing::Values(api::StepMode::kSync, api::StepMode::kDelayed),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(SwapLimitTest, WorkersThatShareAMachineShareItsMemory) {
  api::SwarmJob job;
  stage::FillInHostMemory(1 << 30, &job);
  EXPECT_EQ(job.spec.pipeline.memory.host, 0u) << "the stage is not swapped";
  job.spec.pipeline.residency = api::Residency::kSwap;
  api::SwarmJob said = job;
  stage::FillInHostMemory(1 << 30, &job);
  EXPECT_EQ(job.spec.pipeline.memory.host, 1u << 29);
  said.spec.pipeline.memory.host = 1 << 20;
  stage::FillInHostMemory(1 << 30, &said);
  EXPECT_EQ(said.spec.pipeline.memory.host, 1u << 20);
}

}  // namespace
}  // namespace swarm::tests
