// Replicas that take steps of their own, one of which is killed: a round counts each microbatch
// once, and all replicas hold the same weights after it.

#include "tests/swarm/local_swarm.h"

namespace swarm::tests {
namespace {

class LocalTest : public ::testing::Test {
 protected:
  LocalTest() : job_(TinyJob(folder_)) {
    job_.spec.training.stepMode = api::StepMode::kLocal;
    job_.spec.training.local = {.innerSteps = 6, .outerLearningRate = 0.7, .outerMomentum = 0.5};
    job_.spec.training.globalBatchSize = 12;
    job_.spec.training.maxSteps = 20;
    job_.spec.schedule.warmupSteps = 0;
  }

  /// Two replicas, of which one is killed after `kill_after` rounds, and another joins; 0: neither.
  void Train(const std::string& out, std::ptrdiff_t kill_after) {
    const std::vector<std::uint64_t> replicas(job_.spec.pipeline.stages, 2);
    job_.spec.checkpoint.uri = out + "/checkpoints";
    net::LoopbackNetwork network;
    auto trainer = StartTrainer(network, {.job = job_, .replicas = replicas, .out_dir = out});
    ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
    std::vector<std::unique_ptr<stage::Worker>> workers;
    const auto start = [&] {
      auto worker =
          StartWorker(network, {.id = protocol::WorkerId("w" + std::to_string(workers.size()))});
      ASSERT_TRUE(worker.ok()) << worker.status().ToString();
      workers.push_back(std::move(*worker));
    };
    for (std::uint64_t i = 0; i < 2 * replicas.size(); ++i) start();
    if (kill_after > 0) {
      AwaitSteps(out, kill_after);
      workers[1].reset();
      start();
    }
    for (auto& worker : workers) {
      if (worker == nullptr) continue;
      EXPECT_TRUE(worker->Wait().ok());
      worker.reset();
    }
    const trainer::Outcome outcome = (*trainer)->Wait();
    EXPECT_TRUE(outcome.succeeded) << outcome.reason;
  }

  TemporaryFolder folder_;
  api::SwarmJob job_;
};

TEST_F(LocalTest, AKilledReplicaCostsNoMicrobatchOfARound) {
  const std::string out = folder_ / "out", calm = folder_ / "calm";
  Train(out, 4);
  ExpectExactlyOnce(out, job_, 1);
  Train(calm, 0);
  const auto losses = Losses(out), expected = Losses(calm);
  ASSERT_EQ(losses.size(), expected.size());
  EXPECT_LT(losses.back(), 0.75 * losses.front()) << "it learns";
  EXPECT_NEAR(losses.back(), expected.back(), 0.2 * expected.back());
}

TEST_F(LocalTest, NeitherDoesOneOfAStageWhereRoundsOverlap) {
  const std::string out = folder_ / "out";
  job_.spec.pipeline.stages = 2;
  job_.spec.training.local.overlap = true;
  Train(out, 4);
  ExpectExactlyOnce(out, job_, 2);
  const auto losses = Losses(out);
  EXPECT_LT(losses.back(), 0.75 * losses.front()) << "it learns";
}

TEST_F(LocalTest, NorDoesOneWhereRoundsExchangeFragments) {
  const std::string out = folder_ / "out";
  job_.spec.pipeline.stages = 1;
  job_.spec.training.local = {.innerSteps = 3,
                              .outerLearningRate = 0.7,
                              .outerMomentum = 0.5,
                              .overlap = true,
                              .fragments = 3};
  job_.spec.training.globalBatchSize = 6;
  job_.spec.training.reduceCodec = api::ReduceCodec::kInt8;
  job_.spec.training.maxSteps = 40;
  Train(out, 10);
  ExpectExactlyOnce(out, job_, 1);
  const auto losses = Losses(out);
  EXPECT_LT(losses.back(), 0.75 * losses.front()) << "it learns";
}

TEST_F(LocalTest, NorDoesOneThatHasTheWholeModelOnItsDisk) {
  const std::string out = folder_ / "out";
  job_.spec.pipeline.stages = 1;
  job_.spec.pipeline.residency = api::Residency::kSwap;
  job_.spec.pipeline.memory = {.host = 320'000, .scratch = folder_.path().string()};
  job_.spec.training.local.innerSteps = 3;
  job_.spec.training.local.microbatches = 2;
  Train(out, 4);
  ExpectExactlyOnce(out, job_, 1);
  const auto losses = Losses(out);
  EXPECT_LT(losses.back(), 0.75 * losses.front()) << "it learns";
}

TEST_F(LocalTest, OneReplicaThatTakesOneStepARoundTrainsAsSyncToTheBit) {
  const std::string out = folder_ / "out", sync = folder_ / "sync";
  job_.spec.pipeline.stages = 1;
  job_.spec.training.globalBatchSize = job_.spec.training.microbatchSize;
  job_.spec.training.local = {.innerSteps = 1, .outerLearningRate = 1, .outerMomentum = 0};
  ASSERT_TRUE(RunSwarm(job_, {1}, out).succeeded);
  job_.spec.training.stepMode = api::StepMode::kSync;
  job_.spec.training.local = {};
  ASSERT_TRUE(trainer::TrainReference({.job = job_, .out_dir = sync}).ok());
  const auto losses = Losses(out);
  ASSERT_EQ(losses.size(), job_.spec.training.maxSteps);
  EXPECT_EQ(losses, Losses(sync));
}

TEST_F(LocalTest, ARunGoesOnFromItsCheckpoint) {
  const std::string out = folder_ / "out";
  job_.spec.checkpoint.uri = folder_ / "checkpoints";
  job_.spec.training.local.overlap = true;
  job_.spec.training.maxSteps = 6;
  ASSERT_TRUE(RunSwarm(job_, {2}, out).succeeded);
  job_.spec.training.maxSteps = 12;
  const auto outcome = RunSwarm(job_, {2}, out, /*resume=*/true);
  EXPECT_TRUE(outcome.succeeded) << outcome.reason;
  const auto losses = Losses(out);
  ASSERT_EQ(losses.size(), 12u);
  EXPECT_LT(losses[6], 1.05 * losses[5]) << "what was learned is not lost";
}

}  // namespace
}  // namespace swarm::tests
