// Workers with late devices that hold the state: one is killed, one leaves, and the device of one
// falls off. The others go on with the bits of one undisturbed process, and no device keeps memory.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "tests/swarm/local_swarm.h"
#include "worker/device/testing/fake_device.h"

namespace swarm::tests {
namespace {

using device::FakeDevice;

class DeviceFaultsTest : public ::testing::Test {
 protected:
  struct Served {
    std::unique_ptr<stage::Worker> worker;
    std::uint64_t stage = 0;
    std::shared_ptr<FakeDevice> device;
  };

  DeviceFaultsTest() : job_(TinyJob(folder_)) {
    job_.spec.training.maxSteps = 40;
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.training.stepMode = api::StepMode::kDelayed;
    job_.spec.pipeline.stages = 2;
  }

  /// Starts w0, w1, ..., each with a device of its own.
  void StartWorkers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const protocol::WorkerId id("w" + std::to_string(i));
      const auto create = [this, i](model::StageOptions options) {
        options.residency = api::Residency::kResident;
        const auto device = std::make_shared<FakeDevice>(i);
        options.streams = device;
        const std::lock_guard lock(mutex_);
        served_.at(i).stage = options.stage;
        served_.at(i).device = device;
        return model::Stage::Create(options);
      };
      {
        const std::lock_guard lock(mutex_);
        served_[i] = {};
      }
      auto worker = StartWorker(network_, {.id = id, .create_stage = create});
      ASSERT_TRUE(worker.ok()) << worker.status().ToString();
      served_[i].worker = std::move(*worker);
    }
  }
  /// A worker of the stage that has met no fault.
  Served& Next(std::uint64_t stage) {
    for (auto& [i, served] : served_) {
      if (served.stage == stage && touched_.insert(i).second) return served;
    }
    ADD_FAILURE() << "no worker of stage " << stage << " is left";
    return served_.begin()->second;
  }

  TemporaryFolder folder_;
  api::SwarmJob job_;
  net::LoopbackNetwork network_;
  std::mutex mutex_;
  std::map<std::size_t, Served> served_;
  std::set<std::size_t> touched_;
};

TEST_F(DeviceFaultsTest, WhateverEndsTheOthersGoOnAndNoMemoryIsLeft) {
  job_.spec.checkpoint.uri = folder_ / "checkpoints-alone";
  ASSERT_TRUE(trainer::TrainReference({.job = job_, .out_dir = folder_ / "alone"}).ok());

  const std::string out = folder_ / "out";
  job_.spec.checkpoint.uri = folder_ / "checkpoints";
  auto trainer = StartTrainer(network_, {.job = job_, .replicas = {3, 2}, .out_dir = out});
  ASSERT_TRUE(trainer.ok()) << trainer.status().ToString();
  StartWorkers(5);

  AwaitSteps(out, 5);
  Served& killed = Next(0);
  killed.worker.reset();
  AwaitSteps(out, 12);
  Served& leaves = Next(1);
  leaves.worker->Leave(std::chrono::seconds(30));
  EXPECT_TRUE(leaves.worker->Wait().ok());
  leaves.worker.reset();
  AwaitSteps(out, 19);
  Served& breaks = Next(0);
  breaks.device->Break(Internal("the device has fallen off"));
  const Status why = breaks.worker->Wait();
  EXPECT_THAT(why.message(), ::testing::HasSubstr("the device has fallen off"));
  breaks.worker.reset();

  for (auto& [i, served] : served_) {
    if (served.worker == nullptr) continue;
    EXPECT_TRUE(served.worker->Wait().ok());
    served.worker.reset();
  }
  const trainer::Outcome outcome = (*trainer)->Wait();
  EXPECT_TRUE(outcome.succeeded) << outcome.reason;
  EXPECT_EQ(StepBits(out), StepBits(folder_ / "alone"));
  for (const auto& [i, served] : served_) {
    EXPECT_EQ(served.device->CountPieces(), 0u) << "worker " << i;
    EXPECT_THAT(served.device->Violations(), ::testing::IsEmpty()) << "worker " << i;
  }
}

}  // namespace
}  // namespace swarm::tests
