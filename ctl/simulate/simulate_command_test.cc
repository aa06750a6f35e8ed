#include "ctl/simulate/simulate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/testing/temporary_folder.h"

namespace swarm::ctl {
namespace {

using testing::HasSubstr;

class SimulateCommandTest : public testing::Test {
 protected:
  SimulateCommandTest() {
    options_.trace = (folder_.path() / "trace.csv").string();
    options_.stages = 2;
    options_.state_load_seconds = 10;
    Write(
        "0,add,a\n0,add,b\n0,add,c\n0,add,d\n0,add,e\n900000,remove,b\n1000000,remove,a\n"
        "2000000,add,f\n");
  }
  void Write(const std::string& trace) { ASSERT_TRUE(WriteFile(options_.trace, trace).ok()); }
  ExitCode Run() { return SimulateTrace(options_, out_, err_); }

  TemporaryFolder folder_;
  SimulateOptions options_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(SimulateCommandTest, PrintsTheChosenPolicyAndAllOthersAsJson) {
  options_.json = true;
  options_.policy = "Periodic";
  options_.runs = 3;
  ASSERT_EQ(Run(), ExitCode::kOk);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["policy"], "Periodic");
  EXPECT_EQ(json["efficiency"], json["policies"]["Periodic"]["efficiency"]);
  for (const char* policy : {"Moves", "Copies"}) {
    EXPECT_GE(json["policies"][policy]["efficiency"], json["policies"]["None"]["efficiency"]);
    EXPECT_LE(json["policies"][policy]["efficiency"], json["attainable_efficiency"]);
  }
  EXPECT_EQ(json["losses"], 2);
  EXPECT_EQ(json["joins"], 1);
  EXPECT_EQ(json["seconds"], 2000);
}

TEST_F(SimulateCommandTest, TheDefaultPolicyIsWhatWorkersDo) {
  options_.json = true;
  ASSERT_EQ(Run(), ExitCode::kOk);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["policy"], "Moves");
  EXPECT_EQ(json["efficiency"], json["policies"]["Moves"]["efficiency"]);
  EXPECT_EQ(json["fetches"], 0);
  EXPECT_GT(json["policies"]["Copies"]["fetches"], 0);
}

TEST_F(SimulateCommandTest, WithoutMemoryForThemCopiesIsMoves) {
  options_.json = true;
  options_.copies = 0;
  ASSERT_EQ(Run(), ExitCode::kOk);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["policies"]["Copies"], json["policies"]["Moves"]);
}

TEST_F(SimulateCommandTest, PrintsATableForPeople) {
  ASSERT_EQ(Run(), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr("5 workers at first, 2 departures, 1 joins; 2 stages, 10 s"));
  EXPECT_THAT(out_.str(), HasSubstr("\nCopies  "));
  EXPECT_THAT(out_.str(), HasSubstr("\nMoves  "));
  EXPECT_THAT(out_.str(), HasSubstr("\nbound  "));
}

TEST_F(SimulateCommandTest, SaysWhatIsWrongWithATrace) {
  Write("0,add,a\n1000,vanish,a\n");
  EXPECT_EQ(Run(), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("trace.csv: line 2: expected MILLISECONDS,add|remove,NODE"));
  options_.trace = (folder_.path() / "missing.csv").string();
  EXPECT_EQ(Run(), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("missing.csv"));
}

TEST_F(SimulateCommandTest, NeedsACostForEachStage) {
  options_.stage_costs = {1, 2, 3};
  EXPECT_EQ(Run(), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("--stage-costs has 3 values for 2 stages"));
}

}  // namespace
}  // namespace swarm::ctl
