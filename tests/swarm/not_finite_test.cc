// A microbatch whose activations are not finite costs its step, and nothing else, whatever crosses
// the boundaries.
#include <cstring>
#include <limits>
#include <set>

#include "tests/swarm/local_swarm.h"

namespace swarm::tests {
namespace {

constexpr std::int64_t kRareId = 63;

/// A copy of the fixture's model in which the embedding of kRareId is infinite.
void WriteModel(const std::string& folder) {
  std::filesystem::copy(std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/llama_grouped", folder);
  std::fstream file(folder + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  std::string text(header_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(header_bytes));
  const auto table = nlohmann::json::parse(text).at("model.embed_tokens.weight");
  const auto width = table.at("shape").at(1).get<std::size_t>();
  const std::vector<float> row(width, std::numeric_limits<float>::infinity());
  const std::size_t row_bytes = width * sizeof(float);
  file.seekp(static_cast<std::streamoff>(sizeof header_bytes + header_bytes +
                                         table.at("data_offsets").at(0).get<std::size_t>() +
                                         kRareId * row_bytes));
  file.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row_bytes));
  ASSERT_TRUE(file.good());
}

/// Token ids of which one in four hundred is kRareId.
void WriteIds(const std::string& path) {
  std::string ids(2 * 4000, '\0');
  for (std::size_t i = 0; i < 4000; ++i) {
    ids[2 * i] =
        static_cast<char>(i % 400 == 123 ? kRareId : static_cast<std::int64_t>(i * i % 61));
  }
  std::ofstream(path, std::ios::binary) << ids;
}

std::set<std::size_t> Skipped(const std::vector<std::string>& steps) {
  std::set<std::size_t> skipped;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    if (steps[step].starts_with("null")) skipped.insert(step);
  }
  return skipped;
}

TEST(NotFiniteTest, ItsStepIsSkippedWithEveryCodecAsInOneProcess) {
  TemporaryFolder folder;
  WriteModel(folder / "model");
  WriteIds(folder / "ids.bin");
  api::SwarmJob job = TinyJob(folder);
  job.spec.model = {.uri = folder / "model", .init = api::ModelInit::kPretrained};
  job.spec.data.uri = folder / "ids.bin";
  job.spec.training.maxSteps = 20;
  job.spec.training.accumulation = api::Accumulation::kExact;
  job.spec.pipeline.stages = 3;
  std::set<std::size_t> expected;
  for (const auto codec : {api::BoundaryCodec::kNone, api::BoundaryCodec::kBF16,
                           api::BoundaryCodec::kInt8, api::BoundaryCodec::kInt8Dynamic}) {
    SCOPED_TRACE(static_cast<int>(codec));
    job.spec.pipeline.boundary = {.codec = codec, .blockSize = 16};
    const std::string out = folder / std::to_string(static_cast<int>(codec));
    const Status status = trainer::TrainReference({.job = job, .out_dir = out + "-reference"});
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto outcome = RunSwarm(job, {2, 1, 1}, out);
    ASSERT_TRUE(outcome.succeeded) << outcome.reason;
    const std::vector<std::string> steps = StepBits(out);
    EXPECT_EQ(steps, StepBits(out + "-reference"));
    if (codec == api::BoundaryCodec::kNone) {
      expected = Skipped(steps);
      EXPECT_GT(expected.size(), 0u);
      EXPECT_LT(expected.size(), 15u);
    }
    EXPECT_EQ(Skipped(steps), expected);
  }
}

}  // namespace
}  // namespace swarm::tests
