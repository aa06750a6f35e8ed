// A run of real processes computes what one process computes.
#include "base/metrics/testing/scrape.h"
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;

class SystemRunTest : public SystemTest {
 protected:
  std::vector<std::pair<std::uint64_t, double>> ValidationLosses(const std::string& folder) {
    std::vector<std::pair<std::uint64_t, double>> losses;
    for (const auto& event : ReadLines(folder + "/events.jsonl")) {
      if (event.at("kind") == "Validation") losses.emplace_back(event.at("step"), event.at("loss"));
    }
    return losses;
  }
};

class SystemRunInBothStepModes : public SystemRunTest,
                                 public testing::WithParamInterface<api::StepMode> {};

TEST_P(SystemRunInBothStepModes, AnUnevenSwarmHasTheLossesOfOneProcess) {
  std::ofstream(Path("validation.txt")) << std::string(500, 'w') << Content("text.txt").substr(99);
  job_.spec.data.validationUri = Path("validation.txt");
  job_.spec.training.validationIntervalSteps = 8;
  job_.spec.training.validationSequences = 6;
  job_.spec.training.stepMode = GetParam();
  job_.spec.schedule.type = api::ScheduleType::kCosine;
  StartRun({"--workers", "0=2,1=1,2=1", "--json"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();

  const auto expected = ValidationLosses(Path("reference"));
  const auto losses = ValidationLosses(Out());
  ASSERT_EQ(expected.size(), 3u);  // after 8, 16 and, at the end, 20 steps
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(losses[i].first, expected[i].first);
    EXPECT_NEAR(losses[i].second, expected[i].second, 1e-5 * expected[i].second);
  }

  std::istringstream lines(Output());
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line, nullptr, false);
    EXPECT_FALSE(last.is_discarded()) << line;
  }
  EXPECT_EQ(last["result"], "Succeeded");
  EXPECT_EQ(last["step"], 20);
  EXPECT_FALSE(std::filesystem::exists(Path("out/tls"))) << "keys do not outlive the run";
  EXPECT_EQ(Events("CheckpointWritten").back().at("text"), "version 20");
  EXPECT_THAT(Programs(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(, SystemRunInBothStepModes,
                         testing::Values(api::StepMode::kSync, api::StepMode::kDelayed),
                         [](const auto& info) {
                           return info.param == api::StepMode::kSync ? "Sync" : "Delayed";
                         });

TEST_F(SystemRunTest, WorkersThatSharePodsHaveTheLossesOfOneProcess) {
  StartRun({"--workers", "0=2,1=1,2=1", "--devices", "cpu,cpu"});
  AwaitSteps(3);
  const auto programs = Programs();
  for (const char* name : {"worker-0", "worker-0-0", "worker-0-1", "worker-1-0", "worker-1-1"}) {
    EXPECT_TRUE(programs.contains(name)) << name;
  }
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();
  EXPECT_THAT(Programs(), testing::IsEmpty());
}

TEST_F(SystemRunTest, WorkersOfTwoRegionsHaveTheLossesOfOneProcess) {
  StartRun({"--workers", "0=4,1=2,2=1", "--regions", "eu,us"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();
}

/// What workers have exchanged, by their metrics.
struct Exchanged {
  double across = 0;  ///< between regions
  double all = 0;
};

class RegionsTest : public SystemRunTest {
 protected:
  static constexpr int kWorkers = 4;

  void StartInTwoRegions(const std::vector<std::string>& more = {}) {
    job_.spec.pipeline.stages = 1;
    job_.spec.training.maxSteps = kNeverReached;
    std::vector<std::string> words{"--workers", "0=4", "--regions", "eu,us"};
    words.insert(words.end(), more.begin(), more.end());
    StartRun(words);
    AwaitSteps(5);
  }

  Exchanged Scrape() {
    Exchanged exchanged;
    for (int i = 0; i < kWorkers; ++i) {
      const std::string address = Content("out/metrics/worker-" + std::to_string(i));
      std::istringstream lines(metrics::Scrape(address.substr(0, address.find('\n'))));
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("swarmjob_worker_region_bytes_total{")) continue;
        const double bytes = std::stod(line.substr(line.rfind(' ')));
        exchanged.all += bytes;
        const bool to_eu = line.find("destination_region=\"eu\"") != line.npos;
        const bool from_eu = line.find("source_region=\"eu\"") != line.npos;
        exchanged.across += to_eu != from_eu ? bytes : 0;
      }
    }
    return exchanged;
  }

  /// Of "eu" and "us", as the trainer says; 0 before it does.
  double Told() {
    std::istringstream lines(Output());
    double bytes = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto said = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!said.is_object() || !said.contains("traffic")) continue;
      EXPECT_EQ(said["traffic"].size(), 1u);
      EXPECT_EQ(said["traffic"][0]["between"], nlohmann::json({"eu", "us"}));
      bytes = said["traffic"][0]["bytes"];
    }
    return bytes;
  }

  void End() {
    Signal("swarmctl", SIGINT);
    ExitCode();
  }
};

TEST_F(RegionsTest, WorkersOfTwoRegionsSumWithinEachBeforeAByteCrosses) {
  StartInTwoRegions();
  const Exchanged exchanged = Scrape();
  // Each element crosses twice, and six times it goes from one worker to another. Flat, four of the
  // six would cross. The sum that is being made may be half sent.
  EXPECT_GT(exchanged.across, 0);
  EXPECT_LT(exchanged.across, 0.45 * exchanged.all);
  End();
}

TEST_F(RegionsTest, TheTrainerTellsEachByteBetweenRegionsOnce) {
  StartInTwoRegions({"--json"});
  const double before = Scrape().across;
  Await("what was exchanged", [&] { return Told() >= before; });
  const double told = Told();
  EXPECT_LE(told, Scrape().across);
  EXPECT_GT(before, 0);
  End();
}

TEST_F(SystemRunTest, LambHasTheLossesOfOneProcessAndATiedHead) {
  job_.spec.optimizer.type = api::OptimizerType::kLAMB;
  job_.spec.optimizer.learningRate = 0.02;
  job_.spec.model.config.tie_word_embeddings = true;
  StartRun({"--workers", "0=1,1=1,2=2", "--plaintext"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();
  EXPECT_FALSE(std::filesystem::exists(Path("out/tls")));
}

TEST_F(SystemRunTest, HalfPrecisionHalvesTheBytesAndLearns) {
  job_.spec.training.precision = api::Precision::kBF16;
  job_.spec.pipeline.boundary.codec = api::BoundaryCodec::kBF16;
  StartRun();
  ASSERT_EQ(ExitCode(), 0) << Output();
  const auto losses = Losses(Out());
  ASSERT_EQ(losses.size(), 20u);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  // 2 boundaries, there and back, sequences of 16 tokens, width 32, 2 bytes a number.
  EXPECT_EQ(ReadLines(Out() + "/steps.jsonl").back().at("boundary_bytes"),
            2 * 2 * job_.spec.training.globalBatchSize * 16 * 32 * 2);
  EXPECT_THAT(Output(), HasSubstr("Succeeded after"));
}

}  // namespace
}  // namespace swarm::tests
