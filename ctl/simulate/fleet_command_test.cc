#include "ctl/simulate/fleet_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "ctl/simulate/fleet_file.h"

namespace swarm::ctl {
namespace {

using testing::HasSubstr;

constexpr const char* kFleet = R"(
job: {stages: 2, microbatches: 16, sequenceLength: 512, parameters: [1.0e+6, 2.0e+6], hiddenSize: 64, replicas: [1, 3], inFlightMax: 8}
groups:
  - {name: t4, count: 3, region: eu, teraflops: 0.01, uploadMbps: 80, lossesPerHour: 10, returnSeconds: 5}
  - {name: traced, region: us, microbatchSeconds: [0.5, 1], trace: nodes.csv}
links:
  - {between: [eu, "*"], roundTripMs: 80, mbps: 200}
seconds: 120
warmUpSeconds: 20
)";

class FleetCommandTest : public testing::Test {
 protected:
  FleetCommandTest() {
    Write("fleet.yaml", kFleet);
    Write("nodes.csv", "0,add,x\n30000,add,y\n60000,remove,x\n");
    options_.fleet = Path("fleet.yaml");
  }
  std::string Path(const std::string& name) { return (folder_.path() / name).string(); }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFile(Path(name), text).ok());
  }
  ExitCode Run() { return RunFleet(options_, out_, err_); }

  TemporaryFolder folder_;
  FleetOptions options_;
  std::ostringstream out_, err_;
};

TEST_F(FleetCommandTest, ReadsUnitsDefaultsAndTraces) {
  const auto fleet = ReadFleet(options_.fleet);
  ASSERT_TRUE(fleet.ok()) << api::ToString(fleet.errors());
  EXPECT_TRUE(fleet->job.delayed);
  EXPECT_THAT(fleet->job.token_flops, testing::ElementsAre(6e6, 12e6));
  EXPECT_THAT(ReplicasAtStart(*fleet), testing::ElementsAre(1, 3));
  EXPECT_EQ(fleet->job.in_flight_max, 8u);
  EXPECT_EQ(fleet->job.boundary_bytes, 512 * 64 * 2);
  EXPECT_EQ(fleet->job.StateBytes(1), 24e6);
  EXPECT_EQ(fleet->groups[0].machines.upload, 1e7);
  EXPECT_EQ(MicrobatchSeconds(fleet->job, fleet->groups[0], 1), 12e6 * 512 / 1e10);
  EXPECT_EQ(MicrobatchSeconds(fleet->job, fleet->groups[1], 1), 1);
  EXPECT_EQ(fleet->groups[1].trace.events.size(), 3u);
  EXPECT_EQ(fleet->links[0].round_trip_seconds, 0.08);
  EXPECT_EQ(fleet->links[0].rate, 2.5e7);
}

TEST_F(FleetCommandTest, TheFleetsOfTheBenchmarksAreUnderstood) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SWARM_SOURCE_DIR "/bench/fleet")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const auto fleet = ReadFleet(entry.path());
    EXPECT_TRUE(fleet.ok()) << entry.path() << "\n" << api::ToString(fleet.errors());
  }
  EXPECT_GE(files, 3);
}

TEST_F(FleetCommandTest, PrintsATableForPeople) {
  ASSERT_EQ(Run(), ExitCode::kOk) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("\ngoodput  "));
  EXPECT_THAT(out_.str(), HasSubstr("\nbytes, activations  "));
  EXPECT_THAT(out_.str(), HasSubstr("  measured here  "));
}

TEST_F(FleetCommandTest, TheJsonOfASeedIsTheSameButForWhatIsMeasured) {
  options_.json = true;
  ASSERT_EQ(Run(), ExitCode::kOk) << err_.str();
  auto one = nlohmann::json::parse(out_.str());
  out_.str("");
  ASSERT_EQ(Run(), ExitCode::kOk);
  auto again = nlohmann::json::parse(out_.str());
  EXPECT_GT(one["tokensPerSecond"], 0);
  EXPECT_GT(one["measured"]["messageSeconds"], 0);
  EXPECT_EQ(one["timeline"].size(), 240u);
  one.erase("measured");
  again.erase("measured");
  EXPECT_EQ(one, again);
}

TEST_F(FleetCommandTest, DrawsAPicture) {
  options_.plot = Path("plot.svg");
  ASSERT_EQ(Run(), ExitCode::kOk) << err_.str();
  const auto svg = ReadFile(options_.plot);
  ASSERT_TRUE(svg.ok());
  EXPECT_THAT(*svg, testing::StartsWith("<svg "));
  EXPECT_THAT(*svg, HasSubstr(">tokens a second</text>"));
  EXPECT_THAT(*svg, HasSubstr("<polyline "));
  EXPECT_THAT(*svg, testing::EndsWith("</svg>\n"));
}

TEST_F(FleetCommandTest, WritesWhatTheTrainerSays) {
  options_.events = Path("events.jsonl");
  ASSERT_EQ(Run(), ExitCode::kOk) << err_.str();
  const auto lines = ReadFile(options_.events);
  ASSERT_TRUE(lines.ok());
  EXPECT_THAT(*lines, HasSubstr("\"kind\":\"TrainingStarted\""));
  EXPECT_THAT(*lines, HasSubstr("\"kind\":\"WorkerLost\""));
}

TEST_F(FleetCommandTest, NamesAllErrorsOfAFile) {
  Write("fleet.yaml", R"(
job: {stages: 2, microbatch: 16, sequenceLength: 512, parameters: 1.0e+6}
groups: [{name: t4, count: many}]
)");
  EXPECT_EQ(Run(), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("job.microbatch: unknown field; did you mean microbatches?"));
  EXPECT_THAT(err_.str(), HasSubstr("groups[0].count"));
}

TEST_F(FleetCommandTest, NamesWhatCannotBe) {
  Write("fleet.yaml", R"(
job: {stages: 4, microbatches: 16, sequenceLength: 512, parameters: [1.0e+6, 1.0e+6], replicas: [1, 2]}
groups: [{name: t4, count: 3, microbatchSeconds: 1, teraflops: 1}]
)");
  EXPECT_EQ(Run(), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("job.parameters: has 2 values"));
  EXPECT_THAT(err_.str(), HasSubstr("job.replicas: do not spread the machines"));
  EXPECT_THAT(err_.str(), HasSubstr("either teraflops or microbatchSeconds"));
  EXPECT_THAT(err_.str(), HasSubstr("have 3 machines at the beginning"));
}

TEST_F(FleetCommandTest, SaysWhichTraceIsWrong) {
  Write("nodes.csv", "0,add,x\n1,vanish,x\n");
  EXPECT_EQ(Run(), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("groups[1].trace: line 2: expected MILLISECONDS"));
}

}  // namespace
}  // namespace swarm::ctl
