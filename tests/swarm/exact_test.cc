// With exact accumulation every partition of the microbatches gives the same bits: losses, gradient
// norms and final state of a swarm are those of one process, to the last byte.
#include <gmock/gmock.h>

#include "tests/swarm/local_swarm.h"
#include "worker/state/checkpoint.h"

namespace swarm::tests {
namespace {

struct Case {
  std::string name;
  api::StepMode mode;
  api::OptimizerType optimizer;
  bool tied = false;
  api::BoundaryCodec codec = api::BoundaryCodec::kNone;
};

/// What must not depend on who has computed what.
struct Trajectory {
  std::vector<std::string> steps;         ///< loss and norm, as they stand in steps.jsonl
  std::map<std::string, Digest> tensors;  ///< of the final checkpoint
  bool operator==(const Trajectory&) const = default;
};

class ExactTest : public ::testing::TestWithParam<Case> {
 protected:
  api::SwarmJob Job(std::uint64_t stages) {
    api::SwarmJob job = TinyJob(folder_);
    job.spec.training.maxSteps = 12;
    job.spec.training.accumulation = api::Accumulation::kExact;
    job.spec.training.stepMode = GetParam().mode;
    job.spec.optimizer.type = GetParam().optimizer;
    job.spec.model.config.tie_word_embeddings = GetParam().tied;
    job.spec.pipeline.boundary.codec = GetParam().codec;
    job.spec.pipeline.stages = stages;
    return job;
  }
  Trajectory Read(const api::SwarmJob& job, const std::string& out) {
    Trajectory result;
    for (const auto& line : ReadLines(out + "/steps.jsonl")) {
      result.steps.push_back(line.at("loss").dump() + " " + line.at("grad_norm").dump());
    }
    auto storage = state::Storage::Open(job.spec.checkpoint.uri);
    EXPECT_TRUE(storage.ok());
    auto manifest = state::FindLatest(**storage);
    EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
    EXPECT_EQ(manifest->version.value, job.spec.training.maxSteps);
    for (const auto& file : manifest->files) result.tensors[file.name] = file.digest;
    return result;
  }
  Trajectory Reference(std::uint64_t stages) {
    api::SwarmJob job = Job(stages);
    const std::string out = folder_.path() + "/reference" + std::to_string(stages);
    job.spec.checkpoint.uri = out + "/checkpoints";
    const Status status = trainer::TrainReference({.job = job, .out_dir = out});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return Read(job, out);
  }
  Trajectory Swarm(const std::vector<std::uint64_t>& replicas) {
    api::SwarmJob job = Job(replicas.size());
    const std::string out = folder_.path() + "/swarm" + std::to_string(++runs_);
    job.spec.checkpoint.uri = out + "/checkpoints";
    const auto outcome = RunSwarm(job, replicas, out);
    EXPECT_TRUE(outcome.succeeded) << outcome.reason;
    return Read(job, out);
  }
  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_P(ExactTest, EveryNumberOfReplicasGivesTheBitsOfOneProcess) {
  const std::vector<std::vector<std::uint64_t>> layouts{{1}, {3}, {2, 1, 3}};
  std::map<std::uint64_t, Trajectory> references;
  for (const auto& replicas : layouts) {
    SCOPED_TRACE(::testing::PrintToString(replicas));
    const std::uint64_t stages = replicas.size();
    if (!references.contains(stages)) references[stages] = Reference(stages);
    const Trajectory& expected = references[stages];
    const Trajectory actual = Swarm(replicas);
    EXPECT_EQ(expected.steps.size(), 12u);
    EXPECT_EQ(actual.steps, expected.steps);
    EXPECT_EQ(actual.tensors, expected.tensors);
  }
  // A boundary without a lossy codec is exact as well: then neither do cuts change a bit.
  if (GetParam().codec != api::BoundaryCodec::kNone) return;
  for (const auto& [stages, reference] : references) {
    EXPECT_EQ(reference.steps, references.at(1).steps) << stages << " stages";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, ExactTest,
    ::testing::Values(Case{"SyncAdamW", api::StepMode::kSync, api::OptimizerType::kAdamW},
                      Case{"DelayedLamb", api::StepMode::kDelayed, api::OptimizerType::kLAMB},
                      Case{"DelayedTied", api::StepMode::kDelayed, api::OptimizerType::kAdamW,
                           true},
                      Case{"SyncTiedBFloat16", api::StepMode::kSync, api::OptimizerType::kAdamW,
                           true, api::BoundaryCodec::kBF16}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace swarm::tests
