#include "worker/protocol/coordinator/step/checkpoints.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

using std::chrono::seconds;

class CheckpointsTest : public testing::Test {
 protected:
  using PartSizes = std::vector<std::vector<std::uint64_t>>;
  static CoordinatorOptions Options(PartSizes part_sizes) {
    CoordinatorOptions options;
    options.replicas = {2, 1};
    options.max_steps = 10;
    options.checkpoint_interval_steps = 4;
    options.checkpoint_uri = "checkpoints";
    options.last_checkpoint_patience = seconds(60);
    options.part_sizes = std::move(part_sizes);
    return options;
  }
  explicit CheckpointsTest(PartSizes part_sizes = {})
      : job_(Options(std::move(part_sizes)), Timepoint()) {
    for (const auto& [name, stage] : {std::pair{"a1", 0}, {"a2", 0}, {"b1", 1}}) {
      members_.Become(members_.Add({.id = WorkerId(name)}), Role::kReady, StageIndex(stage));
    }
  }
  /// The workers that are told to write when the job comes to this version. All but `late` have
  /// reported their states of it.
  std::set<std::string> WritersOf(std::uint64_t version, const std::string& late = {}) {
    job_.version = Version(version);
    for (auto& [id, worker] : members_.all()) {
      if (id.value != late) members_.SetVersion(worker, job_.version);
    }
    Turn turn{now_};
    checkpoints_.OnNewVersion(turn);
    return ToldBy(turn);
  }
  std::set<std::string> Retry() {
    Turn turn{now_};
    checkpoints_.Request(turn);
    return ToldBy(turn);
  }
  static std::set<std::string> ToldBy(const Turn& turn) {
    std::set<std::string> writers;
    for (const Order& order : turn.orders) {
      if (const auto* tell = std::get_if<order::Tell>(&order)) writers.insert(tell->to.value);
    }
    return writers;
  }
  Turn Write(const std::string& name, std::uint64_t stage, std::uint64_t version,
             const std::string& error = {}) {
    Turn turn{now_};
    checkpoints_.OnWritten(
        WorkerId(name), {job_.generation, Version(version), StageIndex(stage), error, {{}}}, turn);
    return turn;
  }

  /// Time passes, and is noticed. Returns what follows.
  Turn Pass(Duration duration) {
    Turn turn{now_ += duration};
    checkpoints_.Check(turn);
    return turn;
  }

  Timepoint now_{seconds(1000)};
  Job job_;
  Members members_{&job_};
  Checkpoints checkpoints_{&job_, &members_};
};

TEST_F(CheckpointsTest, ReplicasTakeTurns) {
  EXPECT_EQ(WritersOf(3), (std::set<std::string>{}));
  EXPECT_EQ(WritersOf(4), (std::set<std::string>{"a1", "b1"}));
  checkpoints_.Cancel();
  members_.Erase(WorkerId("a1"));
  EXPECT_EQ(WritersOf(8), (std::set<std::string>{"a2", "b1"}));
}

TEST_F(CheckpointsTest, ItIsPublishedWhenAllStagesHaveWritten) {
  (void)WritersOf(4);
  EXPECT_TRUE(Write("a1", 0, 4).orders.empty());
  const Turn last = Write("b1", 1, 4);
  ASSERT_EQ(last.orders.size(), 1u);
  EXPECT_EQ(std::get<order::PublishCheckpoint>(last.orders[0]).files.size(), 2u);
  Turn turn{now_};
  checkpoints_.OnPublished(Version(4), "", turn);
  EXPECT_EQ(checkpoints_.status().version, Version(4));
  EXPECT_FALSE(checkpoints_.IsWriting());
}

TEST_F(CheckpointsTest, ItIsPublishedWhenAllReplicasHaveReportedTheirStates) {
  (void)WritersOf(4, "a2");
  (void)Write("a1", 0, 4);
  EXPECT_TRUE(Write("b1", 1, 4).orders.empty());
  EXPECT_TRUE(Pass(seconds(1)).orders.empty());
  members_.SetVersion(members_.At(WorkerId("a2")), Version(4));
  const Turn last = Pass(seconds(1));
  ASSERT_EQ(last.orders.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<order::PublishCheckpoint>(last.orders[0]));
  EXPECT_TRUE(Pass(seconds(1)).orders.empty()) << "once";
}

TEST_F(CheckpointsTest, WhatReplicasWithUnlikeStatesHaveWrittenIsNotUsed) {
  (void)WritersOf(4, "a2");
  (void)Write("a1", 0, 4);
  Turn turn{now_};
  checkpoints_.Distrust(Version(3), turn);
  EXPECT_TRUE(checkpoints_.IsWriting()) << "of another version";
  checkpoints_.Distrust(Version(4), turn);
  EXPECT_FALSE(checkpoints_.IsWriting());
  members_.SetVersion(members_.At(WorkerId("a2")), Version(4));
  EXPECT_TRUE(Write("b1", 1, 4).orders.empty());
}

TEST_F(CheckpointsTest, AFailureIsToldAndTrainingGoesOn) {
  (void)WritersOf(4);
  const Turn turn = Write("a1", 0, 4, "disk full");
  EXPECT_FALSE(turn.failure);
  EXPECT_TRUE(turn.advance);
  EXPECT_EQ(checkpoints_.status().failures, 1u);
  EXPECT_EQ(checkpoints_.status().error, "a1: disk full");
  EXPECT_FALSE(checkpoints_.IsWriting());
}

TEST_F(CheckpointsTest, AWriterWhoseDiskHangsCostsOneTryAndThenItIsAnothersTurn) {
  EXPECT_EQ(WritersOf(10), (std::set<std::string>{}));  // the last: the coordinator asks for it
  EXPECT_EQ(Retry(), (std::set<std::string>{"a1", "b1"}));
  Write("b1", 1, 10);
  EXPECT_TRUE(Pass(job_.options.patience.checkpoint - seconds(1)).orders.empty());
  EXPECT_TRUE(Pass(seconds(1)).advance);
  EXPECT_FALSE(checkpoints_.IsWriting());
  EXPECT_NE(checkpoints_.status().error.find("stage 0 at a1"), std::string::npos);
  EXPECT_EQ(Retry(), (std::set<std::string>{"a2", "b1"}));
}

TEST_F(CheckpointsTest, AnAnswerThatComesAfterItsDeadlineIsNoneOfTheNextTry) {
  (void)WritersOf(10);
  (void)Retry();
  Pass(job_.options.patience.checkpoint);
  (void)Retry();
  Write("a1", 0, 10, "the disk was full at last");
  EXPECT_TRUE(checkpoints_.IsWriting());
}

class CheckpointsOfPartsTest : public CheckpointsTest {
 protected:
  CheckpointsOfPartsTest() : CheckpointsTest({{5, 5}, {}}) {
    members_.holders().AddWhole(WorkerId("a1"), StageIndex(0));
    members_.holders().AddWhole(WorkerId("a2"), StageIndex(0));
  }
};

TEST_F(CheckpointsOfPartsTest, AnAnswerToAnEarlierRequestForOtherPartsIsNoneOfTheNextTry) {
  EXPECT_EQ(WritersOf(4), (std::set<std::string>{"a1", "b1"}));
  (void)Write("b1", 1, 4);
  CheckpointWritten written{job_.generation, Version(4), StageIndex(0), {}, {{}}};
  Turn turn{now_};
  for (const std::vector<PartName>& moments :
       {std::vector<PartName>(), {{GroupIndex(0), 1}}, {{GroupIndex(0), 0}, {GroupIndex(0), 1}}}) {
    EXPECT_TRUE(turn.orders.empty());
    written.moments = moments;
    written.weights = false;
    checkpoints_.OnWritten(WorkerId("a1"), written, turn);
    EXPECT_TRUE(turn.orders.empty());
    written.weights = true;
    checkpoints_.OnWritten(WorkerId("a1"), written, turn);
  }
  EXPECT_EQ(turn.orders.size(), 1u) << "to publish it";
}

TEST_F(CheckpointsTest, AManifestThatIsNeverPublishedIsGivenUp) {
  (void)WritersOf(4);
  now_ += seconds(500);
  Write("a1", 0, 4);
  Write("b1", 1, 4);
  EXPECT_TRUE(Pass(job_.options.patience.checkpoint - seconds(1)).orders.empty());
  Pass(seconds(1));
  EXPECT_FALSE(checkpoints_.IsWriting());
  EXPECT_NE(checkpoints_.status().error.find("its manifest"), std::string::npos);
}

TEST_F(CheckpointsTest, ALostWriterEndsItWithoutCountingAsAFailure) {
  (void)WritersOf(4);
  Turn turn{now_};
  checkpoints_.Lose(WorkerId("b1"), turn);
  EXPECT_FALSE(checkpoints_.IsWriting());
  EXPECT_EQ(checkpoints_.status().failures, 0u);
}

TEST_F(CheckpointsTest, TheLastOneIsTriedOftenAndLongBeforeTheJobFails) {
  EXPECT_TRUE(WritersOf(10).empty());  // the coordinator asks for it when all else is done
  EXPECT_TRUE(checkpoints_.IsLastMissing());
  const auto fail = [&] { return Write(*Retry().begin(), 0, 10, "disk full").failure.has_value(); };
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(fail()) << "try " << i << " within the patience";
  now_ += seconds(60);
  EXPECT_TRUE(fail());
}

}  // namespace
}  // namespace swarm::protocol
