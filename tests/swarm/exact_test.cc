// With exact accumulation every partition of the microbatches gives the same bits: losses, gradient
// norms and final state of a swarm are those of one process, to the last byte.
#include <mutex>

#include "tests/swarm/local_swarm.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/device/testing/fake_device.h"

namespace swarm::tests {
namespace {

/// Of a run: a basis is refreshed twice in them, and one wrong bit in the first is in all that
/// follow.
constexpr std::uint64_t kSteps = 8;

struct Case {
  std::string name;
  api::StepMode mode;
  api::OptimizerType optimizer;
  bool tied = false;
  api::Boundary boundary;
  api::ModelFamily family = api::ModelFamily::kLlama;
  api::Precision precision = api::Precision::kFP32;
};

/// What must not depend on which worker computed what.
struct Trajectory {
  std::vector<std::string> steps;         ///< as StepBits gives them
  std::map<std::string, Digest> tensors;  ///< of the final checkpoint, by name
  bool operator==(const Trajectory&) const = default;
};

class ExactTest : public ::testing::TestWithParam<Case> {
 protected:
  api::SwarmJob Job(std::uint64_t stages) {
    api::SwarmJob job = TinyJob(folder_);
    job.spec.training.maxSteps = kSteps;
    job.spec.training.accumulation = api::Accumulation::kExact;
    job.spec.training.stepMode = GetParam().mode;
    job.spec.optimizer.type = GetParam().optimizer;
    job.spec.training.precision = GetParam().precision;
    MakeFamily(GetParam().family, job.spec.model.config);
    job.spec.model.config.tie_word_embeddings = GetParam().tied;
    job.spec.pipeline.boundary = GetParam().boundary;
    job.spec.pipeline.stages = stages;
    return job;
  }
  Trajectory Read(const api::SwarmJob& job, const std::string& out) {
    Trajectory result{.steps = StepBits(out), .tensors = {}};
    auto storage = storage::Storage::Open(job.spec.checkpoint.uri);
    EXPECT_TRUE(storage.ok());
    auto manifest = checkpoint::FindLatest(**storage);
    EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
    EXPECT_EQ(manifest->version.value, job.spec.training.maxSteps);
    const std::string folder =
        checkpoint::CheckpointId{manifest->generation, manifest->version}.Folder();
    auto reader = checkpoint::CheckpointReader::Open(job.spec.checkpoint.uri + "/" + folder);
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    for (const auto& [name, file] : manifest->tensors) {
      result.tensors[name] = ComputeDigest((*reader)->Lookup(name)->data.span());
    }
    return result;
  }
  Trajectory Reference(std::uint64_t stages) {
    api::SwarmJob job = Job(stages);
    const std::string out = folder_ / ("reference" + std::to_string(stages));
    job.spec.checkpoint.uri = out + "/checkpoints";
    const Status status = trainer::TrainReference({.job = job, .out_dir = out});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return Read(job, out);
  }
  Trajectory Swarm(const std::vector<std::uint64_t>& replicas,
                   api::ShardUpdate divided = api::ShardUpdate::kNone, std::uint64_t pod_size = 1,
                   const stage::CreateStage& create = model::Stage::Create) {
    api::SwarmJob job = Job(replicas.size());
    job.spec.pipeline.shardUpdate = divided;
    const std::string out = folder_ / ("swarm" + std::to_string(++runs_));
    job.spec.checkpoint.uri = out + "/checkpoints";
    const auto outcome = RunSwarm(job, replicas, out, /*resume=*/false, pod_size, create);
    EXPECT_TRUE(outcome.succeeded) << outcome.reason;
    return Read(job, out);
  }
  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_P(ExactTest, EveryNumberOfReplicasGivesTheBitsOfOneProcess) {
  const std::vector<std::vector<std::uint64_t>> layouts{{1}, {3}, {1, 2}, {2, 1, 3}};
  std::map<std::uint64_t, Trajectory> references;
  for (const auto& replicas : layouts) {
    SCOPED_TRACE(::testing::PrintToString(replicas));
    const std::uint64_t stages = replicas.size();
    if (!references.contains(stages)) references[stages] = Reference(stages);
    const Trajectory& expected = references[stages];
    const Trajectory actual = Swarm(replicas);
    EXPECT_EQ(expected.steps.size(), kSteps);
    EXPECT_EQ(actual.steps, expected.steps);
    EXPECT_EQ(actual.tensors, expected.tensors);
  }
  // A boundary without a lossy codec is exact as well: then neither do cuts change a bit.
  if (GetParam().boundary.codec != api::BoundaryCodec::kNone) return;
  for (const auto& [stages, reference] : references) {
    EXPECT_EQ(reference.steps, references.at(1).steps) << stages << " stages";
  }
}

TEST_P(ExactTest, WhereTheReplicasOfAPodSumFirstTheBitsAreThoseOfOneProcess) {
  const Trajectory expected = Reference(2);
  const Trajectory actual = Swarm({5, 3}, api::ShardUpdate::kNone, /*pod_size=*/2);
  EXPECT_EQ(actual.steps, expected.steps);
  EXPECT_EQ(actual.tensors, expected.tensors);
}

TEST_P(ExactTest, WhereTwoReplicasUpdateEachTensorTheBitsAreThoseOfOneProcess) {
  for (const auto& replicas : std::vector<std::vector<std::uint64_t>>{{4}, {3, 1, 5}}) {
    SCOPED_TRACE(::testing::PrintToString(replicas));
    const Trajectory expected = Reference(replicas.size());
    const Trajectory actual = Swarm(replicas, api::ShardUpdate::kMoments);
    EXPECT_EQ(actual.steps, expected.steps);
    EXPECT_EQ(actual.tensors, expected.tensors);
  }
}

TEST_P(ExactTest, WhereDevicesAreLateAndHaveTheStateTheBitsAreThoseOfOneProcess) {
  std::mutex mutex;
  std::vector<std::shared_ptr<device::FakeDevice>> devices;
  const auto on_a_late_device = [&](model::StageOptions options) {
    options.residency = api::Residency::kResident;
    const std::lock_guard lock(mutex);
    devices.push_back(std::make_shared<device::FakeDevice>(devices.size()));
    options.streams = devices.back();
    return model::Stage::Create(options);
  };
  const Trajectory expected = Reference(2);
  const auto divided = GetParam().mode == api::StepMode::kDelayed ? api::ShardUpdate::kMoments
                                                                  : api::ShardUpdate::kNone;
  const Trajectory actual = Swarm({3, 1}, divided, /*pod_size=*/1, on_a_late_device);
  EXPECT_EQ(actual.steps, expected.steps);
  EXPECT_EQ(actual.tensors, expected.tensors);
  EXPECT_EQ(devices.size(), 4u);
  for (const auto& device : devices) {
    EXPECT_EQ(device->Violations(), std::vector<std::string>());
  }
}

/// Copies the checkpoint of version 1, of one stage, with all exponents set to `exponent`.
void CopyCheckpoint(const std::string& from, const std::string& to, std::int64_t exponent) {
  const std::string folder = checkpoint::CheckpointId{{}, protocol::Version(1)}.Folder();
  auto reader = checkpoint::CheckpointReader::Open(from + "/" + folder);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  std::vector<checkpoint::NamedTensor> tensors;
  for (const auto& [name, file] : (*reader)->manifest().tensors) {
    tensors.push_back(*(*reader)->Lookup(name));
    if (!name.starts_with("optimizer.scale.")) continue;
    tensors.back().data = Bytes::Copy(&exponent, sizeof exponent);
  }
  auto storage = storage::Storage::Open(to);
  auto files = checkpoint::WriteStageFiles(**storage, folder, 0, 1, tensors);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  checkpoint::Manifest manifest = (*reader)->manifest();
  manifest.files = *files;
  ASSERT_TRUE(checkpoint::PublishManifest(**storage, manifest).ok());
}

TEST(ExactReferenceTest, AStepThatIsOutOfRangeIsRepeatedWithRoomForIt) {
  TemporaryFolder folder;
  api::SwarmJob job = TinyJob(folder);
  job.spec.training.accumulation = api::Accumulation::kExact;
  const auto train = [&](const std::string& name, std::uint64_t steps, std::uint64_t stages) {
    job.spec.training.maxSteps = steps;
    job.spec.pipeline.stages = stages;
    job.spec.checkpoint.uri = folder / ("checkpoints-" + name);
    const std::string out = folder / name;
    const Status status = trainer::TrainReference({.job = job, .out_dir = out, .resume = true});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return ReadLines(out + "/steps.jsonl");
  };
  train("first", 1, 1);
  const std::string first = job.spec.checkpoint.uri;
  const auto expected = train("first", 4, 1);
  ASSERT_EQ(expected.size(), 4u);
  for (const std::uint64_t stages : {1, 3}) {
    const std::string name = "narrow" + std::to_string(stages);
    CopyCheckpoint(first, folder / ("checkpoints-" + name), 140);  // room for 2^-82
    const auto lines = train(name, 4, stages);
    ASSERT_EQ(lines.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const double loss = lines[i].at("loss");
      EXPECT_NEAR(loss, expected[i + 1].at("loss"), 1e-5 * loss);
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Jobs, ExactTest,
    ::testing::Values(Case{"SyncAdamW", api::StepMode::kSync, api::OptimizerType::kAdamW},
                      Case{"DelayedTied", api::StepMode::kDelayed, api::OptimizerType::kAdamW,
                           true},
                      Case{"SyncTiedBFloat16",
                           api::StepMode::kSync,
                           api::OptimizerType::kAdamW,
                           true,
                           {.codec = api::BoundaryCodec::kBF16}},
                      Case{"DelayedInt8",
                           api::StepMode::kDelayed,
                           api::OptimizerType::kAdamW,
                           false,
                           {.codec = api::BoundaryCodec::kInt8}},
                      Case{"SyncAnchoredInt8",
                           api::StepMode::kSync,
                           api::OptimizerType::kLAMB,
                           false,
                           {.codec = api::BoundaryCodec::kAnchored,
                            .coefficients = api::NumberCodec::kInt8,
                            .rank = 4,
                            .anchorTokens = 2}},
                      Case{"SyncQwen3SubspaceLamb",
                           api::StepMode::kSync,
                           api::OptimizerType::kLAMB,
                           true,
                           {.codec = api::BoundaryCodec::kSubspace, .rank = 8, .refreshSteps = 3},
                           api::ModelFamily::kQwen3},
                      Case{"DelayedSubspaceBinary16",
                           api::StepMode::kDelayed,
                           api::OptimizerType::kAdamW,
                           true,
                           {.codec = api::BoundaryCodec::kSubspace, .rank = 8, .refreshSteps = 3},
                           api::ModelFamily::kLlama,
                           api::Precision::kFP16}),
    NameOf);
// make test-heavy
INSTANTIATE_TEST_SUITE_P(
    MoreJobs, ExactTest,
    ::testing::Values(Case{"DelayedLamb", api::StepMode::kDelayed, api::OptimizerType::kLAMB},
                      Case{"DelayedSubspace",
                           api::StepMode::kDelayed,
                           api::OptimizerType::kAdamW,
                           true,
                           {.codec = api::BoundaryCodec::kSubspace, .rank = 8, .refreshSteps = 3}},
                      Case{"SyncSubspaceLamb",
                           api::StepMode::kSync,
                           api::OptimizerType::kLAMB,
                           false,
                           {.codec = api::BoundaryCodec::kSubspace, .rank = 8, .refreshSteps = 2}},
                      Case{"SyncTiedQwen2",
                           api::StepMode::kSync,
                           api::OptimizerType::kAdamW,
                           true,
                           {},
                           api::ModelFamily::kQwen2},
                      Case{"DelayedSmolLM3",
                           api::StepMode::kDelayed,
                           api::OptimizerType::kAdamW,
                           true,
                           {},
                           api::ModelFamily::kSmolLM3},
                      Case{"SyncGemma2Binary16",
                           api::StepMode::kSync,
                           api::OptimizerType::kAdamW,
                           true,
                           {},
                           api::ModelFamily::kGemma2,
                           api::Precision::kFP16}),
    NameOf);

}  // namespace
}  // namespace swarm::tests
