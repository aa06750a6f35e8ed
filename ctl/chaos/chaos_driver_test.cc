#include "ctl/chaos/chaos_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/testing/temporary_folder.h"

namespace swarm::ctl {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Records what the driver asks for.
class RecordedPrograms {
 public:
  ProgramControl Control() {
    return {.living = [this] { return living; },
            .signal =
                [this](const std::string& name, int signal) {
                  return Do(name, "signal " + name + " " + std::to_string(signal));
                },
            .slow =
                [this](const std::string& name, double factor) {
                  return Do(name, "slow " + name + " " + std::to_string(factor));
                },
            .terminate =
                [this](const std::string& name, Duration grace) {
                  (void)Do(name, "terminate " + name + " " + std::to_string(ToSeconds(grace)));
                },
            .join = [this] { return Do("", "join"); }};
  }

  std::vector<LivingProgram> living = {{"trainer", true}, {"worker-0"}, {"worker-1"}};
  std::string gone = "none";
  std::vector<std::string> deeds;

 private:
  Status Do(const std::string& name, const std::string& deed) {
    if (name == gone) return NotFound(name + " does not run");
    deeds.push_back(deed);
    return Status();
  }
};

class ChaosDriverTest : public testing::Test {
 protected:
  void Load(const std::string& script) {
    auto lines = ParseChaos(script);
    ASSERT_TRUE(lines.ok()) << lines.status().ToString();
    driver_.emplace(
        *std::move(lines),
        ChaosDriver::Options{.rules_file = folder_.path() / "rules",
                             .record_file = folder_.path() / "record",
                             .tell = [this](const std::string& text) { told_.push_back(text); }},
        programs_.Control());
    ASSERT_TRUE(driver_->Prepare().ok());
  }
  void Act(Duration since_start, std::uint64_t steps = 0,
           const protocol::JobStatus* said = nullptr) {
    driver_->Act(since_start, steps, said);
  }
  std::string Content(const char* name) { return ReadFile(folder_.path() / name).value(); }

  TemporaryFolder folder_;
  RecordedPrograms programs_;
  std::optional<ChaosDriver> driver_;
  std::vector<std::string> told_;
};

TEST_F(ChaosDriverTest, SignalsAndSlownessGoToThePrograms) {
  Load(
      "kill worker-0 at 1s; stop worker-1 at 1s for 1s; slow worker-1 by 4 at 1s for 1s;"
      "drain worker-1 grace 2s at 1s; join 2 at 1s");
  Act(seconds(1));
  EXPECT_THAT(programs_.deeds,
              ElementsAre("signal worker-0 9", "signal worker-1 19", "slow worker-1 4.000000",
                          "terminate worker-1 2.000000", "join", "join"));
  programs_.deeds.clear();
  Act(seconds(2));
  EXPECT_THAT(programs_.deeds, ElementsAre("signal worker-1 18", "slow worker-1 1.000000"));
}

TEST_F(ChaosDriverTest, CutsAndDelaysAreRulesForAsLongAsTheyLast) {
  Load(
      "cut worker-0 from worker-1 at 1s for 1s; delay worker-0 by 50ms at 1s for 2s;"
      "cut all to trainer at 1s for 3s");
  EXPECT_EQ(Content("rules"), "");
  Act(seconds(1));
  EXPECT_EQ(Content("rules"),
            "cut worker-0 worker-1\ncut worker-1 worker-0\ndelay worker-0 * 50\n"
            "delay * worker-0 50\ncut * trainer\n");
  Act(seconds(2));
  EXPECT_EQ(Content("rules"), "delay worker-0 * 50\ndelay * worker-0 50\ncut * trainer\n");
  Act(seconds(5));
  EXPECT_EQ(Content("rules"), "");
}

TEST_F(ChaosDriverTest, AWorkerErrsForAsLongAsThatLasts) {
  Load("corrupt worker-1 at 1s for 1s");
  Act(seconds(1));
  EXPECT_EQ(Content("rules"), "corrupt worker-1\n");
  Act(seconds(2));
  EXPECT_EQ(Content("rules"), "");
}

TEST_F(ChaosDriverTest, EachFaultIsToldAndRecorded) {
  Load("kill worker-0 at step 7");
  Act(seconds(3), 8);
  EXPECT_THAT(told_, ElementsAre("Chaos: kill worker-0, step 8"));
  const auto line = nlohmann::json::parse(Content("record"));
  EXPECT_EQ(line.at("fault"), "kill");
  EXPECT_EQ(line.at("target"), "worker-0");
  EXPECT_EQ(line.at("step"), 8);
  EXPECT_EQ(line.at("seconds"), 3.0);
  EXPECT_GT(line.at("time"), 1.7e9);
  EXPECT_FALSE(line.contains("error"));
}

TEST_F(ChaosDriverTest, WhatCannotBeDoneIsToldUnlessItIsTheEndOfAFault) {
  Load("stop worker-0 at 1s for 1s; kill worker-1 at 3s");
  Act(seconds(1));
  programs_.gone = "worker-0";
  Act(seconds(2));
  programs_.gone = "worker-1";
  Act(seconds(3));
  EXPECT_THAT(told_,
              ElementsAre("Chaos: stop worker-0, step 0",
                          "Chaos: kill worker-1, step 0; impossible: worker-1 does not run"));
}

TEST_F(ChaosDriverTest, StagesAreAsTheTrainerSays) {
  Load("kill any of stage 1 at 1s");
  Act(seconds(1));
  EXPECT_THAT(programs_.deeds, IsEmpty());
  protocol::JobStatus said;
  said.stages.push_back({protocol::StageIndex(1), {{.id = protocol::WorkerId("worker-1")}}});
  Act(seconds(2), 0, &said);
  EXPECT_THAT(programs_.deeds, ElementsAre("signal worker-1 9"));
}

TEST_F(ChaosDriverTest, WhoIsHeldInAPhaseGoesOnSoonAfterTheFault) {
  Load("kill worker-0 at reduce of step 7; cut worker-1 at commit of step 9");
  EXPECT_EQ(Content("rules"), "hold worker-0 reduce 7\nhold worker-1 commit 9\n");
  Act(seconds(1), 8);
  EXPECT_THAT(programs_.deeds, IsEmpty());
  const std::string held = chaos::HeldFile((folder_.path() / "rules").string(), "worker-0");
  ASSERT_TRUE(WriteFile(held, "hold worker-0 reduce 7\n").ok());
  Act(seconds(2), 8);
  EXPECT_THAT(programs_.deeds, ElementsAre("signal worker-0 9"));
  EXPECT_THAT(Content("rules"), HasSubstr("hold worker-0"));
  const auto line = nlohmann::json::parse(Content("record"));
  EXPECT_EQ(line.at("held"), nlohmann::json({{"worker", "worker-0"}, {"phase", "reduce"}}));
  Act(seconds(3), 8);
  EXPECT_EQ(Content("rules"), "hold worker-1 commit 9\n");
  driver_->End();
  EXPECT_EQ(Content("rules"), "");
}

TEST_F(ChaosDriverTest, AtTheEndAllThatLastsIsUndone) {
  Load("stop worker-0 at 1s; cut worker-1 at 1s");
  Act(seconds(1));
  programs_.deeds.clear();
  driver_->End();
  EXPECT_THAT(programs_.deeds, testing::Contains("signal worker-0 18"));
  EXPECT_EQ(Content("rules"), "");
}

}  // namespace
}  // namespace swarm::ctl
