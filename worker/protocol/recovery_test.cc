#include "worker/protocol/recovery.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

const RowName kName{Term(3), Generation(1), Step(5), Microbatch(2), Version(5)};

/// The row of one microbatch in a pipeline: "s0", "s1", ... work on stage s. Their replacements are
/// "n0", "n1", ...
class RecoveryTest : public testing::Test {
 protected:
  explicit RecoveryTest(std::uint64_t stages = 4) : ledger_(3, stages) {
    for (std::uint64_t s = 0; s < stages; ++s) Issue(s, Old(s));
  }
  static WorkerId Old(std::uint64_t stage) { return WorkerId("s" + std::to_string(stage)); }
  static WorkerId New(std::uint64_t stage) { return WorkerId("n" + std::to_string(stage)); }

  void Issue(std::uint64_t stage, const WorkerId& worker) {
    ledger_.Issue(kName.microbatch, StageIndex(stage), worker, {kName.term, ++attempts_});
  }
  TaskKey Key(std::uint64_t stage) const {
    return {kName.generation, kName.step, kName.microbatch, StageIndex(stage),
            row()[stage].attempt};
  }
  void Forwarded(std::uint64_t stage) {
    ASSERT_TRUE(ledger_.MarkForwarded(Key(stage), row()[stage].worker));
  }
  void Folded(std::uint64_t stage) {
    ASSERT_TRUE(ledger_.MarkFolded(Key(stage), row()[stage].worker, 0));
  }
  void Lose(std::uint64_t stage) { ledger_.Close(kName.microbatch, StageIndex(stage)); }
  /// The passes that mend the row: all missing cells go to new workers.
  std::vector<PassOrders> Repair() {
    const auto runs = FindMissingRuns(row());
    for (const StageRun& run : runs) {
      for (std::uint64_t s = run.begin; s < run.end; ++s) Issue(s, New(s));
    }
    std::vector<PassOrders> passes;
    for (const StageRun& run : runs) passes.push_back(PlanPass(kName, row(), run));
    return passes;
  }
  const Ledger::Row& row() const { return ledger_.row(kName.microbatch); }
  static const Ledger::Row& Untouched() {
    static const Ledger kLedger(1, 4);
    return kLedger.row(Microbatch(0));
  }

  Ledger ledger_;
  std::uint64_t attempts_ = 0;
};

using Runs = std::vector<StageRun>;

TEST_F(RecoveryTest, NeighboursThatAreMissingFormOneRun) {
  EXPECT_EQ(FindMissingRuns(row()), Runs{});
  Lose(1);
  EXPECT_EQ(FindMissingRuns(row()), (Runs{{1, 2}}));
  Lose(3);
  EXPECT_EQ(FindMissingRuns(row()), (Runs{{1, 2}, {3, 4}}));
  Lose(2);
  EXPECT_EQ(FindMissingRuns(row()), (Runs{{1, 4}}));
  EXPECT_EQ(FindMissingRuns(Untouched()), (Runs{{0, 4}}));
}

TEST_F(RecoveryTest, AFreshMicrobatchGoesThroughAllStagesFromTheTrainer) {
  for (std::uint64_t s = 0; s < 4; ++s) Lose(s);
  const auto passes = Repair();
  ASSERT_EQ(passes.size(), 1u);
  const PassOrders& pass = passes[0];
  EXPECT_FALSE(pass.holder.has_value());
  EXPECT_FALSE(pass.returner.has_value());
  EXPECT_EQ(pass.frame.key, Key(0));
  EXPECT_EQ(pass.frame.version, kName.version);
  EXPECT_EQ(pass.frame.first, StageIndex(0));
  EXPECT_EQ(pass.frame.end, StageIndex(4));
  EXPECT_TRUE(pass.frame.upstream.worker.empty());
  for (std::uint64_t s = 0; s < 4; ++s) {
    EXPECT_EQ(pass.frame.hops[s], (Hop{New(s), row()[s].attempt, true}));
  }
}

TEST_F(RecoveryTest, WhoIsLostInForwardIsReplacedAndTheWayGoesOn) {
  Forwarded(0);
  Forwarded(1);
  Lose(2);
  const PassOrders pass = Repair().at(0);
  EXPECT_EQ(pass.holder, Old(1));
  EXPECT_EQ(pass.resend.term, kName.term);
  EXPECT_EQ(pass.resend.source, Key(1));
  EXPECT_EQ(pass.resend.frame.key, Key(2));
  EXPECT_EQ(pass.frame.first, StageIndex(2));
  // Stage 3 has not reported that it has its input: it may have to get it.
  EXPECT_EQ(pass.frame.end, StageIndex(4));
  // Stage 1 waits for its gradient, which the new worker will have.
  EXPECT_EQ(pass.frame.upstream, (Hop{Old(1), row()[1].attempt, true}));
  // And the new worker waits for that of stage 3.
  EXPECT_EQ(pass.returner, Old(3));
  EXPECT_EQ(pass.redirect.source, Key(3));
  EXPECT_EQ(pass.redirect.to, New(2));
  EXPECT_EQ(pass.redirect.target, Key(2));
}

TEST_F(RecoveryTest, WhoIsLostInBackwardIsReplacedBetweenItsNeighboursOnly) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  Folded(3);
  Lose(2);
  const PassOrders pass = Repair().at(0);
  EXPECT_EQ(pass.holder, Old(1));
  EXPECT_EQ(pass.frame.end, StageIndex(3));  // stage 3 has had its input
  EXPECT_EQ(pass.frame.upstream.worker, Old(1));
  EXPECT_EQ(pass.returner, Old(3));  // it has folded, and its gradient is retained
  EXPECT_EQ(pass.redirect.source, Key(3));
}

TEST_F(RecoveryTest, WhoIsLostAfterTheFoldIsReplacedAndNobodyGetsItsGradientAgain) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  for (std::uint64_t s = 4; s-- > 0;) Folded(s);
  Lose(2);
  const PassOrders pass = Repair().at(0);
  EXPECT_EQ(pass.holder, Old(1));
  EXPECT_EQ(pass.frame.end, StageIndex(3));
  EXPECT_TRUE(pass.frame.upstream.worker.empty());  // stage 1 has folded: a second would be wrong
  EXPECT_EQ(pass.returner, Old(3));
}

TEST_F(RecoveryTest, TheFirstStageIsSentItsTokensByTheTrainer) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  Lose(0);
  const PassOrders pass = Repair().at(0);
  EXPECT_FALSE(pass.holder.has_value());
  EXPECT_EQ(pass.frame.key, Key(0));
  EXPECT_EQ(pass.frame.end, StageIndex(1));
  EXPECT_TRUE(pass.frame.upstream.worker.empty());
  EXPECT_EQ(pass.returner, Old(1));
}

TEST_F(RecoveryTest, TheLastStageNeedsNobodysGradient) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  Lose(3);
  const PassOrders pass = Repair().at(0);
  EXPECT_EQ(pass.holder, Old(2));
  EXPECT_FALSE(pass.returner.has_value());
  EXPECT_EQ(pass.frame.end, StageIndex(4));
  EXPECT_EQ(pass.frame.upstream.worker, Old(2));
}

TEST_F(RecoveryTest, StagesThatAreLostTogetherAreOnePass) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  Folded(3);
  Lose(1);
  Lose(2);
  const auto passes = Repair();
  ASSERT_EQ(passes.size(), 1u);
  EXPECT_EQ(passes[0].holder, Old(0));
  EXPECT_EQ(passes[0].frame.key, Key(1));
  EXPECT_EQ(passes[0].frame.first, StageIndex(1));
  EXPECT_EQ(passes[0].frame.end, StageIndex(3));
  EXPECT_EQ(passes[0].redirect.to, New(2));  // the gradient enters at the pass's last stage
  EXPECT_EQ(passes[0].redirect.target, Key(2));
}

TEST_F(RecoveryTest, SeveralRunsAreSeveralPassesThatNameEachOthersWorkers) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  Lose(0);
  Lose(2);
  const auto passes = Repair();
  ASSERT_EQ(passes.size(), 2u);
  EXPECT_EQ(passes[0].frame.end, StageIndex(1));
  EXPECT_EQ(passes[0].returner, Old(1));
  EXPECT_EQ(passes[1].holder, Old(1));
  EXPECT_EQ(passes[1].frame.upstream.worker, Old(1));
  for (const PassOrders& pass : passes) {
    EXPECT_EQ(pass.frame.hops[0].worker, New(0));
    EXPECT_EQ(pass.frame.hops[2].worker, New(2));
  }
}

TEST_F(RecoveryTest, AnOutputThatIsGoneIsComputedAgainWithoutContributing) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  Lose(2);
  const PassOrders pass = Repair().at(0);
  const Attempt again{kName.term, 99};
  const PassOrders more =
      PlanForwardAgain(kName, row(), pass.resend.source, pass.frame, Old(1), again);
  EXPECT_EQ(more.frame.key.stage, StageIndex(1));
  EXPECT_EQ(more.frame.key.attempt, again);
  EXPECT_EQ(more.frame.hops[1], (Hop{Old(1), again, false}));
  // Below `first` no graph is kept, and from there on it is the pass that was planned.
  EXPECT_EQ(more.frame.first, pass.frame.first);
  EXPECT_EQ(more.frame.end, pass.frame.end);
  EXPECT_EQ(more.frame.upstream, pass.frame.upstream);
  EXPECT_EQ(more.frame.hops[2], pass.frame.hops[2]);
  // Its own input is with stage 0.
  EXPECT_EQ(more.holder, Old(0));
  EXPECT_EQ(more.resend.source, Key(0));
  EXPECT_FALSE(more.returner.has_value());  // asked when the pass began
}

TEST_F(RecoveryTest, WhereEverythingIsGoneTheTokensSuffice) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  Lose(2);
  PassOrders pass = Repair().at(0);
  pass = PlanForwardAgain(kName, row(), pass.resend.source, pass.frame, Old(1), {kName.term, 98});
  pass = PlanForwardAgain(kName, row(), pass.resend.source, pass.frame, Old(0), {kName.term, 99});
  EXPECT_FALSE(pass.holder.has_value());
  EXPECT_EQ(pass.frame.key.stage, StageIndex(0));
  EXPECT_FALSE(pass.frame.hops[0].fold);
  EXPECT_FALSE(pass.frame.hops[1].fold);
  EXPECT_TRUE(pass.frame.hops[2].fold);
  EXPECT_EQ(pass.frame.first, StageIndex(2));
}

TEST_F(RecoveryTest, AGradientThatIsGoneIsComputedAgainByAStageThatDoesNotFoldTwice) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  for (std::uint64_t s = 4; s-- > 0;) Folded(s);
  Lose(1);
  const PassOrders pass = Repair().at(0);
  const Attempt again{kName.term, 99};
  const PassOrders more = PlanBackwardAgain(kName, row(), pass.redirect.source, pass.redirect.to,
                                            pass.redirect.target, Old(2), again);
  EXPECT_EQ(more.frame.key.stage, StageIndex(2));
  EXPECT_EQ(more.frame.key.attempt, again);
  EXPECT_EQ(more.frame.hops[2], (Hop{Old(2), again, false}));
  EXPECT_EQ(more.frame.first, StageIndex(2));  // it needs a graph there
  EXPECT_EQ(more.frame.end, StageIndex(3));
  EXPECT_EQ(more.frame.upstream.worker, New(1));
  EXPECT_EQ(more.frame.upstream.attempt, row()[1].attempt);
  // Its input comes from the worker that computes stage 1 now, its gradient from stage 3.
  EXPECT_EQ(more.holder, New(1));
  EXPECT_EQ(more.resend.source, Key(1));
  EXPECT_EQ(more.returner, Old(3));
  EXPECT_EQ(more.redirect.to, Old(2));
  EXPECT_EQ(more.redirect.target, more.frame.key);
}

TEST_F(RecoveryTest, TheBlockerIsTheFirstWhoseForwardIsNotDone) {
  EXPECT_EQ(FindBlocker(row()), StageIndex(0));
  Forwarded(0);
  Forwarded(1);
  EXPECT_EQ(FindBlocker(row()), StageIndex(2));
}

TEST_F(RecoveryTest, TheBlockerInBackwardIsTheHighestThatHasNotFolded) {
  for (std::uint64_t s = 0; s < 4; ++s) Forwarded(s);
  EXPECT_EQ(FindBlocker(row()), StageIndex(3));
  Folded(3);
  Folded(2);
  EXPECT_EQ(FindBlocker(row()), StageIndex(1));
}

TEST_F(RecoveryTest, NobodyBlocksARowInWhichNothingIsOpen) {
  for (std::uint64_t s = 0; s < 4; ++s) Folded(s);
  EXPECT_EQ(FindBlocker(row()), std::nullopt);
  EXPECT_EQ(FindBlocker(Untouched()), std::nullopt);
}

}  // namespace
}  // namespace swarm::protocol
