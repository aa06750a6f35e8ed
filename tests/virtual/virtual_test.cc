// The real shells of trainer and workers under drawn faults, in virtual time: their outboxes, loops,
// sums and order of compute. tests/simulation has the decisions alone, and so many more histories.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/swarm/local_swarm.h"
#include "tests/virtual/virtual_swarm.h"
#include "worker/trainer/job_data.h"

namespace swarm::tests {
namespace {

using protocol::WorkerId;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

api::SwarmJob ToyJob(const TemporaryFolder& folder, api::StepMode mode) {
  api::SwarmJob job = TinyJob(folder);
  job.spec.training.maxSteps = 30;
  job.spec.training.globalBatchSize = 8;
  job.spec.training.stepMode = mode;
  job.spec.checkpoint.intervalSteps = 10;
  job.spec.checkpoint.uri = (folder.path() / "checkpoints").string();
  return job;
}

/// The losses of the job by one stage after the other, without protocol, threads or network.
std::vector<double> ExpectedLosses(const api::SwarmJob& job, std::uint64_t stages,
                                   ToyStage::Size size) {
  std::vector<std::unique_ptr<ToyStage>> toys;
  for (std::uint64_t s = 0; s < stages; ++s) {
    toys.push_back(std::make_unique<ToyStage>(stage::OptionsOf(job, s, stages, 1, "cpu"), size,
                                              [] { return Duration(); }));
    toys.back()->InitRandom(job.spec.training.seed);
  }
  const auto data = trainer::JobData::Open(job, seconds(1));
  EXPECT_TRUE(data.ok()) << data.status().ToString();
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < job.spec.training.maxSteps; ++step) {
    const bool delayed = job.spec.training.stepMode == api::StepMode::kDelayed;
    const model::Version version(delayed && step > 0 ? step - 1 : step);
    double sum = 0;
    for (std::uint64_t m = 0; m < job.microbatches(); ++m) {
      protocol::TaskKey key;
      key.step = protocol::Step(step);
      key.microbatch = protocol::Microbatch(m);
      const auto ids = (*data)->Await((*data)->Draw(step, m)).value();
      const model::TokenBatch tokens{(*data)->sequences(), (*data)->tokens_per_sequence(), ids};
      Bytes crosses;
      for (auto& toy : toys) {
        const auto result = toy->Forward(key, version, tokens, crosses, true);
        EXPECT_TRUE(result.ok()) << result.status().ToString();
        crosses = result->boundary;
        sum += result->loss;
      }
      crosses = {};
      for (auto toy = toys.rbegin(); toy != toys.rend(); ++toy) {
        crosses = (*toy)->Backward(key, crosses).value();
        EXPECT_TRUE((*toy)->Fold(key).ok());
      }
    }
    losses.push_back(sum / static_cast<double>(job.microbatches()));
    for (auto& toy : toys) {
      const Bytes own = toy->Accumulator(protocol::Step(step), 0).elements;
      EXPECT_TRUE(toy->Apply(std::span(&own, 1), 1, 0, false).ok());
      toy->ReleaseStep(protocol::Step(step));
    }
  }
  return losses;
}

/// A fault that the swarm's seed draws.
void DrawFault(VirtualSwarm& swarm) {
  const auto worker = [&] { return swarm.names()[swarm.Draw(swarm.names().size())]; };
  const auto moment = [&] { return swarm.Draw(milliseconds(0), seconds(10)); };
  const auto anyone = [&] { return swarm.Draw(6) == 0 ? trainer::kTrainerId : worker(); };
  switch (swarm.Draw(6)) {
    case 0: return swarm.Kill(worker(), moment());
    case 1: return swarm.Freeze(worker(), moment());
    case 2: return swarm.Part(worker(), anyone(), 3 * moment());
    case 3: return swarm.Leave(worker(), moment());
    case 4: return swarm.Part(worker(), anyone(), milliseconds(1));
    default: return swarm.Draw(2) == 0 ? swarm.KillTrainer(moment())
                                       : swarm.Freeze(trainer::kTrainerId, moment());
  }
}

void DrawFaults(VirtualSwarm& swarm) {
  const std::uint64_t faults = 1 + swarm.Draw(8);
  for (std::uint64_t i = 0; i < faults; ++i) {
    swarm.After(swarm.Draw(milliseconds(0), seconds(20)), [&swarm] { DrawFault(swarm); });
  }
}

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}
/// The seeds of a sweep.
std::uint64_t First() { return FromEnvironment("SWARM_FIRST_SEED", 1); }
std::uint64_t Count() { return FromEnvironment("SWARM_SEEDS", 20); }

class VirtualSwarmTest : public ::testing::TestWithParam<api::StepMode> {
 protected:
  VirtualSwarmTest() { spdlog::set_level(spdlog::level::off); }
  ~VirtualSwarmTest() override { spdlog::set_level(spdlog::level::info); }

  /// A job and a swarm that the seed draws: one to four stages of one to four replicas. Some have
  /// sums of several chunks, some connections that take little at a time. In some, two
  /// replicas update each tensor.
  VirtualOptions Options(std::uint64_t seed, const TemporaryFolder& folder) {
    Rng rng(Mix(~seed));
    VirtualOptions options{.seed = seed,
                           .job = ToyJob(folder, GetParam()),
                           .replicas = {},
                           .out_dir = (folder.path() / "out").string(),
                           .size = {}};
    options.job.spec.training.globalBatchSize = 2 + rng.Below(12);
    options.balance =
        rng.Below(2) == 0 ? protocol::BalancePolicy::kNone : protocol::BalancePolicy::kEvent;
    for (std::uint64_t s = 1 + rng.Below(4); s > 0; --s) {
      options.replicas.push_back(1 + rng.Below(4));
    }
    if (rng.Below(10) == 0) options.size.parameters = 700'000;
    if (rng.Below(3) == 0) options.data_window_bytes = 1024;
    if (rng.Below(2) == 0) options.job.spec.pipeline.shardUpdate = api::ShardUpdate::kMoments;
    return options;
  }
  /// `faults` arranges what happens.
  void ExpectTheLossesOfNoFaults(std::uint64_t seed,
                                 const std::function<void(VirtualSwarm&)>& faults) {
    const TemporaryFolder folder;
    const VirtualOptions options = Options(seed, folder);
    const auto expected = ExpectedLosses(options.job, options.replicas.size(), options.size);
    VirtualSwarm swarm(options);
    faults(swarm);
    const trainer::Outcome outcome = swarm.Run(std::chrono::hours(2));
    EXPECT_TRUE(outcome.succeeded) << outcome.reason;
    EXPECT_EQ(Losses(options.out_dir), expected);
    ExpectExactlyOnce(options.out_dir, options.job, options.replicas.size());
    if (!HasFailure()) return;
    std::cout << "seed " << seed << ":\n";
    for (const std::string& line : swarm.story()) std::cout << "  " << line << "\n";
    for (const auto& event : ReadLines(options.out_dir + "/events.jsonl")) {
      std::cout << "  " << event << "\n";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, VirtualSwarmTest,
                         ::testing::Values(api::StepMode::kSync, api::StepMode::kDelayed),
                         [](const auto& mode) {
                           return mode.param == api::StepMode::kSync ? "Sync" : "Delayed";
                         });

TEST_P(VirtualSwarmTest, AnUndisturbedSwarmHasTheLossesOfOneStageAfterTheOther) {
  ExpectTheLossesOfNoFaults(1, [](VirtualSwarm&) {});
}

TEST_P(VirtualSwarmTest, DrawnFaultsChangeNoLoss) {
  for (std::uint64_t seed = First(); seed < First() + Count() && !HasFailure(); ++seed) {
    ExpectTheLossesOfNoFaults(seed, DrawFaults);
  }
}

TEST_P(VirtualSwarmTest, TheSameSeedIsTheSameRun) {
  std::array<std::vector<std::string>, 2> seen;
  for (std::vector<std::string>& run : seen) {
    const TemporaryFolder folder;
    const VirtualOptions options = Options(5, folder);
    VirtualSwarm swarm(options);
    DrawFaults(swarm);
    EXPECT_TRUE(swarm.Run(std::chrono::hours(2)).succeeded);
    run = swarm.story();
    for (const auto& line : ReadLines(options.out_dir + "/steps.jsonl")) {
      run.push_back(line.at("seconds").dump());
    }
  }
  EXPECT_EQ(seen[0], seen[1]);
}

}  // namespace
}  // namespace swarm::tests
