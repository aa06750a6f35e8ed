#include "worker/trainer/log/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/chained_line.h"
#include "base/testing/temporary_folder.h"

namespace swarm::trainer {
namespace {

using nlohmann::json;
using protocol::Attempt;
using protocol::Participant;
using testing::ElementsAre;

class RunLogTest : public testing::Test {
 protected:
  std::unique_ptr<RunLog> Open(std::uint64_t first_step) {
    auto log = RunLog::Open(folder_.path().string(), first_step);
    EXPECT_TRUE(log.ok()) << log.status().message();
    return *std::move(log);
  }
  static protocol::CommitRecord RecordOf(std::uint64_t step, std::uint64_t term = 1) {
    protocol::CommitRecord record{.generation = protocol::Generation(0),
                                  .step = protocol::Step(step)};
    record.groups.push_back({protocol::GroupIndex(0), Attempt{protocol::Term(term), 7}, {}, 0});
    return record;
  }
  static Participant Claim(const std::string& worker, std::uint64_t microbatch) {
    return {protocol::WorkerId(worker),
            {protocol::StageIndex(0), {protocol::Microbatch(microbatch)}}};
  }
  std::vector<json> Lines(const std::string& name) const {
    std::ifstream in(folder_ / name);
    std::vector<json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<std::uint64_t> LedgerSteps() const {
    std::vector<std::uint64_t> steps;
    for (const json& line : Lines("ledger.jsonl")) steps.push_back(line.at("step"));
    return steps;
  }

  TemporaryFolder folder_;
};

TEST_F(RunLogTest, TheLedgerNamesWhoContributedWhatToTheSumThatCounts) {
  Open(0)->Ledger({RecordOf(0), {{Claim("worker-0", 1), Claim("worker-2", 0)}}});
  const json line = Lines("ledger.jsonl").at(0);
  EXPECT_EQ(line.at("groups").at(0), json::parse(R"({"group":0,"k":[1,7],"participants":[
                {"worker":"worker-0","stage":0,"microbatches":[1]},
                {"worker":"worker-2","stage":0,"microbatches":[0]}]})"));
  EXPECT_FALSE(line.contains("adopted"));
}

TEST_F(RunLogTest, TheLedgerNamesWhatWasDoneAgain) {
  using protocol::Microbatch;
  const protocol::StageIndex stage(0);
  const protocol::WorkerId lost("worker-1");
  Open(0)->Ledger({RecordOf(0),
                   {{Claim("worker-0", 1), Claim("worker-2", 0)}},
                   {{lost, stage, Microbatch(1), /*folded=*/true},
                    {lost, stage, Microbatch(0), /*folded=*/false},
                    {protocol::WorkerId("worker-0"), stage, Microbatch(0), /*folded=*/false}}});
  EXPECT_EQ(Lines("ledger.jsonl").at(0).at("redone"), json::parse(R"([
                {"worker":"worker-0","stage":0,"retried":[0],"replayed":[]},
                {"worker":"worker-1","stage":0,"retried":[0],"replayed":[1]}])"));
}

TEST_F(RunLogTest, AStepThatTheTrainerBeforeHasDecidedIsAdoptedWithoutClaims) {
  const auto log = Open(0);
  log->Ledger({RecordOf(0), {{Claim("worker-0", 0)}}});
  const auto successor = Open(RunLog::kKeepAll);
  successor->Ledger({RecordOf(0, 2), {}});
  successor->Ledger({RecordOf(1, 2), {}});
  const auto lines = Lines("ledger.jsonl");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("groups").at(0).at("k"), json::parse("[1,7]"));  // as it was
  EXPECT_TRUE(lines[1].at("adopted"));
  EXPECT_FALSE(lines[1].at("groups").at(0).contains("participants"));
}

TEST_F(RunLogTest, AJobThatGoesBackCutsTheLedgerAsItCutsTheSteps) {
  const auto log = Open(0);
  for (std::uint64_t step = 0; step < 4; ++step) {
    log->Step({.record = RecordOf(step)});
    log->Ledger({RecordOf(step), {{Claim("worker-0", 0)}}});
  }
  ASSERT_TRUE(log->CutTo(2).ok());
  EXPECT_THAT(LedgerSteps(), ElementsAre(0, 1));
  EXPECT_EQ(Lines("steps.jsonl").size(), 2U);
  log->Ledger({RecordOf(2), {{Claim("worker-1", 0)}}});
  EXPECT_THAT(LedgerSteps(), ElementsAre(0, 1, 2));
}

TEST_F(RunLogTest, TheLinesOfTheLedgerAreChainedOverTrainersAndCuts) {
  const auto log = Open(0);
  for (std::uint64_t step = 0; step < 4; ++step) {
    log->Ledger({RecordOf(step), {{Claim("worker-0", 0)}}});
  }
  ASSERT_TRUE(log->CutTo(2).ok());
  log->Ledger({RecordOf(2), {{Claim("worker-1", 0)}}});
  Open(RunLog::kKeepAll)->Ledger({RecordOf(3, 2), {}});
  std::ifstream in(folder_ / "ledger.jsonl");
  std::string before;
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    EXPECT_TRUE(ChainHolds(line, before)) << line;
    before = ChainDigest(line);
  }
  EXPECT_EQ(lines, 4U);
}

TEST_F(RunLogTest, AnEventSaysAtWhichVersionItWasAlsoAfterACut) {
  const auto log = Open(0);
  log->Event(protocol::EventKind::kTrainingStarted, "");
  for (std::uint64_t step = 0; step < 4; ++step) log->Step({.record = RecordOf(step)});
  log->Event(protocol::EventKind::kWorkerLost, "worker-1");
  ASSERT_TRUE(log->CutTo(2).ok());
  log->Event(protocol::EventKind::kRolledBack, "");
  Open(RunLog::kKeepAll)->Event(protocol::EventKind::kTookOver, "");
  std::vector<std::uint64_t> versions;
  for (const json& line : Lines("events.jsonl")) versions.push_back(line.at("version"));
  EXPECT_THAT(versions, ElementsAre(0, 4, 2, 2));
}

TEST_F(RunLogTest, AnEventHasTheKeysOfTheFieldsThatItHas) {
  const auto log = Open(0);
  log->Event(protocol::EventKind::kStopping, "after step 4");
  log->Event(protocol::EventKind::kWorkerLost, "worker-1 of stage 2: gone",
             {.worker = protocol::WorkerId("worker-1"),
              .stage = protocol::StageIndex(2),
              .cause = "Disconnected",
              .seconds = 1.5});
  const auto lines = Lines("events.jsonl");
  for (const char* key : {"worker", "stage", "cause", "seconds"}) {
    EXPECT_FALSE(lines.at(0).contains(key)) << key;
  }
  EXPECT_EQ(lines.at(1).at("worker"), "worker-1");
  EXPECT_EQ(lines.at(1).at("stage"), 2);
  EXPECT_EQ(lines.at(1).at("cause"), "Disconnected");
  EXPECT_EQ(lines.at(1).at("seconds"), 1.5);
}

TEST_F(RunLogTest, AStepHasWhatItTookAtEachStage) {
  const auto log = Open(0);
  log->Step({.record = RecordOf(0)});
  log->Step({.record = RecordOf(1),
             .times = {{.workers = 2, .task_seconds = 3, .busy_seconds = 4, .reduce_seconds = 1}}});
  const auto lines = Lines("steps.jsonl");
  EXPECT_FALSE(lines.at(0).contains("stages")) << "nobody has measured it";
  EXPECT_EQ(lines.at(1).at("stages"), json::parse(R"([{"workers": 2, "task_seconds": 3.0,
                                          "busy_seconds": 4.0, "reduce_seconds": 1.0}])"));
}

TEST_F(RunLogTest, WorkIsTracedOnlyOnDemand) {
  protocol::Progress progress;
  progress.reports.push_back(
      {.key = {.step = protocol::Step(3), .microbatch = protocol::Microbatch(5)},
       .event = protocol::TaskReport::Event::kFolded});
  const auto log = Open(0);
  log->Progress("worker-1", progress);
  ASSERT_TRUE(log->TraceProgress().ok());
  log->Progress("worker-1", progress);
  const auto lines = Lines("progress.jsonl");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].at("event"), "Folded");
  EXPECT_EQ(lines[0].at("microbatch"), 5);
  EXPECT_EQ(lines[0].at("worker"), "worker-1");
}

}  // namespace
}  // namespace swarm::trainer
