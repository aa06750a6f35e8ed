#include "worker/protocol/ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace swarm::protocol {
namespace {

const WorkerId kA("a"), kB("b");
const StageIndex kStage(0), kNext(1);

Attempt At(std::uint64_t n) { return {Term(1), n}; }

TaskKey Key(std::uint64_t m, std::uint64_t n, StageIndex stage = kStage) {
  return {Generation(0), Step(0), Microbatch(m), stage, At(n)};
}

void IssueAndFold(Ledger& ledger, std::uint64_t m, StageIndex stage, const WorkerId& worker,
                  std::uint64_t n, double loss = 0) {
  ledger.Issue(Microbatch(m), stage, worker, At(n));
  ASSERT_TRUE(ledger.MarkFolded(Key(m, n, stage), worker, loss));
}

std::vector<Microbatch> List(std::initializer_list<std::uint64_t> values) {
  std::vector<Microbatch> microbatches;
  for (const std::uint64_t value : values) microbatches.emplace_back(value);
  return microbatches;
}

TEST(LedgerTest, AReportOfAnotherAttemptOrWorkerChangesNothing) {
  Ledger ledger(1, 1);
  ledger.Issue(Microbatch(0), kStage, kA, At(2));
  EXPECT_FALSE(ledger.MarkFolded(Key(0, 1), kA, 0));
  EXPECT_FALSE(ledger.MarkFolded(Key(0, 2), kB, 0));
  EXPECT_FALSE(ledger.MarkFolded(Key(7, 2), kA, 0));
  EXPECT_FALSE(ledger.MarkFolded(Key(0, 2, StageIndex(7)), kA, 0));
  EXPECT_FALSE(ledger.MarkForwarded(Key(0, 1), kA));
  EXPECT_FALSE(ledger.cell(Microbatch(0), kStage).forwarded);
  EXPECT_FALSE(ledger.StageComplete(kStage));
}

TEST(LedgerTest, ADoubledReportCountsOnce) {
  Ledger ledger(2, 1);
  IssueAndFold(ledger, 0, kStage, kA, 1);
  ledger.Issue(Microbatch(1), kStage, kB, At(2));
  EXPECT_FALSE(ledger.MarkFolded(Key(0, 1), kA, 0));
  EXPECT_FALSE(ledger.StageComplete(kStage));
}

TEST(LedgerTest, WhoHasFoldedHasForwarded) {
  Ledger ledger(1, 1);
  IssueAndFold(ledger, 0, kStage, kA, 1);
  EXPECT_TRUE(ledger.cell(Microbatch(0), kStage).forwarded);
}

TEST(LedgerTest, ClaimsAreDisjointAndCoverEverything) {
  Ledger ledger(3, 1);
  for (std::uint64_t m = 0; m < 3; ++m) IssueAndFold(ledger, m, kStage, m == 1 ? kB : kA, m);
  ASSERT_TRUE(ledger.StageComplete(kStage));
  const auto claims = ledger.Claims(kStage, {kA, kB});
  EXPECT_EQ(claims[0].claims.microbatches, List({0, 2}));
  EXPECT_EQ(claims[1].claims.microbatches, List({1}));
}

TEST(LedgerTest, AMicrobatchIsFreshThenBrokenWhileItsCellsAreIssued) {
  Ledger ledger(1, 2);
  EXPECT_TRUE(ledger.fresh().contains(Microbatch(0)));
  ledger.Issue(Microbatch(0), kStage, kA, At(1));
  EXPECT_FALSE(ledger.fresh().contains(Microbatch(0)));
  EXPECT_TRUE(ledger.broken().contains(Microbatch(0)));
  ledger.Issue(Microbatch(0), kNext, kB, At(2));
  EXPECT_TRUE(ledger.broken().empty());
  ledger.Close(Microbatch(0), kNext);
  EXPECT_TRUE(ledger.broken().contains(Microbatch(0)));
  ledger.Close(Microbatch(0), kStage);
  EXPECT_TRUE(ledger.fresh().contains(Microbatch(0)));
  EXPECT_TRUE(ledger.broken().empty());
}

TEST(LedgerTest, WhatALostWorkerHadIsMissingWhetherOpenOrFolded) {
  Ledger ledger(3, 1);
  IssueAndFold(ledger, 0, kStage, kA, 1);
  ledger.Issue(Microbatch(1), kStage, kA, At(2));
  IssueAndFold(ledger, 2, kStage, kB, 3);
  EXPECT_TRUE(ledger.HasOpen(kA));
  ledger.Lose(kA);
  EXPECT_FALSE(ledger.HasOpen(kA));
  EXPECT_EQ(ledger.fresh(), (std::set{Microbatch(0), Microbatch(1)}));
  EXPECT_EQ(ledger.ClaimsOf(kStage, kB).microbatches, List({2}));
}

TEST(LedgerTest, AStageIsCompleteAgainOnlyWhenWhatWasLostIsFoldedAgain) {
  Ledger ledger(2, 1);
  IssueAndFold(ledger, 0, kStage, kA, 1);
  IssueAndFold(ledger, 1, kStage, kB, 2);
  ASSERT_TRUE(ledger.StageComplete(kStage));
  ledger.Lose(kA);
  EXPECT_FALSE(ledger.StageComplete(kStage));
  EXPECT_FALSE(ledger.MarkFolded(Key(0, 1), kA, 0));  // a late report of an evicted worker
  IssueAndFold(ledger, 0, kStage, kB, 3);
  EXPECT_TRUE(ledger.StageComplete(kStage));
}

TEST(LedgerTest, TheHeirHasWhatTheDonorHadFoldedAndNothingElse) {
  Ledger ledger(3, 1);
  IssueAndFold(ledger, 0, kStage, kA, 1);
  IssueAndFold(ledger, 1, kStage, kB, 2);
  ledger.Issue(Microbatch(2), kStage, kA, At(3));
  ledger.HandOver(kA, kB);
  EXPECT_EQ(ledger.ClaimsOf(kStage, kB).microbatches, List({0, 1}));
  EXPECT_TRUE(ledger.HasOpen(kA));
}

TEST(LedgerTest, EachExecutionThatDoesNotCountIsNamed) {
  Ledger ledger(3, 1);
  IssueAndFold(ledger, 0, kStage, kA, 1);
  ledger.Issue(Microbatch(1), kStage, kA, At(2));
  ledger.Issue(Microbatch(2), kStage, kB, At(3));
  EXPECT_TRUE(ledger.redone().empty());
  ledger.Lose(kA);
  ledger.Close(Microbatch(2), kStage);
  EXPECT_EQ(ledger.redone(), (std::vector<Redone>{{kA, kStage, Microbatch(1), /*folded=*/false},
                                                  {kA, kStage, Microbatch(0), /*folded=*/true},
                                                  {kB, kStage, Microbatch(2), /*folded=*/false}}));
  ledger.Close(Microbatch(2), kStage);
  EXPECT_EQ(ledger.redone().size(), 3u) << "the cell was missing already";
  IssueAndFold(ledger, 0, kStage, kB, 4);
  ledger.HandOver(kB, kA);
  EXPECT_EQ(ledger.redone().size(), 3u) << "what is handed over counts";
}

TEST(LedgerTest, ASuccessorAdoptsWhatIsFoldedWithItsLoss) {
  Ledger ledger(2, 2);
  EXPECT_TRUE(ledger.Adopt(kNext, kA, {Microbatch(1), At(7), 2.5}));
  EXPECT_EQ(ledger.cell(Microbatch(1), kNext).attempt, At(7));
  EXPECT_EQ(ledger.Losses(), (std::vector<double>{0, 2.5}));
  EXPECT_TRUE(ledger.broken().contains(Microbatch(1)));
  EXPECT_TRUE(ledger.Adopt(kNext, kA, {Microbatch(1), At(7), 2.5}));  // reported twice
  EXPECT_FALSE(ledger.Adopt(kNext, kB, {Microbatch(1), At(8), 2.5}));
  EXPECT_EQ(ledger.cell(Microbatch(1), kNext).worker, kA);
  EXPECT_FALSE(ledger.Adopt(StageIndex(2), kA, {Microbatch(0), At(1), 0}));
  EXPECT_FALSE(ledger.Adopt(kStage, kA, {Microbatch(2), At(1), 0}));
}

TEST(LedgerTest, TheWorkersFoldSetHasTheLastWord) {
  Ledger ledger(2, 1);
  IssueAndFold(ledger, 0, kStage, kA, 0);
  ledger.Issue(Microbatch(1), kStage, kA, At(1));
  EXPECT_TRUE(ledger.Reconcile(kA, {kStage, List({0, 1})}));
  EXPECT_TRUE(ledger.StageComplete(kStage));
  EXPECT_TRUE(ledger.Reconcile(kA, {kStage, List({1})}));
  EXPECT_FALSE(ledger.StageComplete(kStage));
  EXPECT_TRUE(ledger.fresh().contains(Microbatch(0)));
}

TEST(LedgerTest, TwoWorkersThatFoldedTheSameMicrobatchAreFound) {
  Ledger ledger(1, 1);
  IssueAndFold(ledger, 0, kStage, kA, 0);
  EXPECT_FALSE(ledger.Reconcile(kB, {kStage, List({0})}));
  EXPECT_EQ(ledger.cell(Microbatch(0), kStage).worker, kA);
}

TEST(LedgerTest, AFoldOfWhichTheTrainerKnowsNothingCannotStayInTheSum) {
  Ledger ledger(2, 1);
  IssueAndFold(ledger, 0, kStage, kA, 0);
  EXPECT_FALSE(ledger.Reconcile(kA, {kStage, List({0, 1})}));
}

TEST(LedgerTest, AWorkerFeedsAnOpenCellBelowItsOwn) {
  Ledger ledger(1, 2);
  ledger.Issue(Microbatch(0), kStage, kA, At(1));
  IssueAndFold(ledger, 0, kNext, kB, 2);
  EXPECT_TRUE(ledger.Feeds(kNext, kB)) << "its gradient may be on the way";
  EXPECT_FALSE(ledger.Feeds(kStage, kA));
  ASSERT_TRUE(ledger.MarkFolded(Key(0, 1), kA, 0));
  EXPECT_FALSE(ledger.Feeds(kNext, kB));
}

/// The accounts of the ledger, counted anew from its cells.
void ExpectAccountsOfCells(const Ledger& ledger, const std::vector<WorkerId>& workers) {
  using State = Ledger::Cell::State;
  std::set<Microbatch> fresh, broken;
  for (std::uint64_t m = 0; m < ledger.microbatches(); ++m) {
    const auto missing = static_cast<std::uint64_t>(
        std::ranges::count(ledger.row(Microbatch(m)), State::kMissing, &Ledger::Cell::state));
    if (missing == ledger.stages()) fresh.insert(Microbatch(m));
    if (missing > 0 && missing < ledger.stages()) broken.insert(Microbatch(m));
  }
  RC_ASSERT(ledger.fresh() == fresh);
  RC_ASSERT(ledger.broken() == broken);
  for (const WorkerId& worker : workers) {
    bool open = false;
    for (std::uint64_t s = 0; s < ledger.stages(); ++s) {
      ClaimSet claims{StageIndex(s), {}};
      bool feeds = false;
      for (std::uint64_t m = 0; m < ledger.microbatches(); ++m) {
        const Ledger::Row& row = ledger.row(Microbatch(m));
        if (row[s].worker != worker) continue;
        open |= row[s].state == State::kOpen;
        feeds |= s > 0 && row[s - 1].state == State::kOpen;
        if (row[s].state == State::kFolded) claims.microbatches.push_back(Microbatch(m));
      }
      RC_ASSERT(ledger.ClaimsOf(StageIndex(s), worker) == claims);
      RC_ASSERT(ledger.HasFolded(StageIndex(s), worker) == !claims.microbatches.empty());
      RC_ASSERT(ledger.Feeds(StageIndex(s), worker) == feeds);
    }
    RC_ASSERT(ledger.HasOpen(worker) == open);
  }
}

TEST(LedgerPropertyTest, ItsAccountsAreThoseOfItsCells) {
  EXPECT_TRUE(rc::check("after any sequence of changes", [] {
    const std::vector<WorkerId> workers{kA, kB, WorkerId("c")};
    const auto microbatches = *rc::gen::inRange<std::uint64_t>(1, 6);
    const auto stages = *rc::gen::inRange<std::uint64_t>(1, 4);
    Ledger ledger(microbatches, stages);
    const auto changes = *rc::gen::inRange<std::uint64_t>(0, 40);
    for (std::uint64_t n = 1; n <= changes; ++n) {
      const Microbatch m(*rc::gen::inRange<std::uint64_t>(0, microbatches));
      const StageIndex s(*rc::gen::inRange<std::uint64_t>(0, stages));
      const WorkerId worker = *rc::gen::elementOf(workers);
      const Ledger::Cell cell = ledger.cell(m, s);
      switch (*rc::gen::inRange(0, 8)) {
        case 0:
        case 1:
        case 2:
          if (cell.state == Ledger::Cell::State::kMissing) ledger.Issue(m, s, worker, At(n));
          break;
        case 3:
          ledger.MarkFolded({Generation(0), Step(0), m, s, cell.attempt}, cell.worker, 1);
          break;
        case 4:
          ledger.Close(m, s);
          break;
        case 5:
          ledger.Lose(worker);
          break;
        case 6:
          ledger.HandOver(worker, *rc::gen::elementOf(workers));
          break;
        case 7:
          if (*rc::gen::arbitrary<bool>()) {
            ledger.Adopt(s, worker, {m, At(n), 1});
          } else {
            ledger.Reconcile(worker, {s, {m}});
          }
          break;
      }
      ExpectAccountsOfCells(ledger, workers);
    }
  }));
}

TEST(LedgerDeathTest, ACellThatIsNotMissingIsNotIssued) {
  Ledger ledger(1, 1);
  ledger.Issue(Microbatch(0), kStage, kA, At(1));
  EXPECT_DEATH(ledger.Issue(Microbatch(0), kStage, kB, At(2)), "issued twice");
}

}  // namespace
}  // namespace swarm::protocol
