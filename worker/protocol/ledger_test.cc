#include "worker/protocol/ledger.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

const WorkerId kA("a"), kB("b");
const StageIndex kStage(0);
Attempt At(std::uint64_t n) { return {Term(1), n}; }

TEST(LedgerTest, AReportOfAnotherAttemptOrWorkerChangesNothing) {
  Ledger ledger(1, 1);
  ledger.Issue(Microbatch(0), kStage, kA, At(2));
  EXPECT_FALSE(ledger.MarkFolded(Microbatch(0), kStage, kA, At(1)));
  EXPECT_FALSE(ledger.MarkFolded(Microbatch(0), kStage, kB, At(2)));
  EXPECT_FALSE(ledger.MarkFolded(Microbatch(7), kStage, kA, At(2)));
  EXPECT_FALSE(ledger.StageComplete(kStage));
}

TEST(LedgerTest, ADoubledReportCountsOnce) {
  Ledger ledger(2, 1);
  ledger.Issue(Microbatch(0), kStage, kA, At(1));
  ledger.Issue(Microbatch(1), kStage, kB, At(2));
  EXPECT_TRUE(ledger.MarkFolded(Microbatch(0), kStage, kA, At(1)));
  EXPECT_FALSE(ledger.MarkFolded(Microbatch(0), kStage, kA, At(1)));
  EXPECT_FALSE(ledger.StageComplete(kStage));
}

TEST(LedgerTest, ClaimsAreDisjointAndCoverEverything) {
  Ledger ledger(3, 1);
  for (int m = 0; m < 3; ++m) {
    const WorkerId& worker = m == 1 ? kB : kA;
    ledger.Issue(Microbatch(m), kStage, worker, At(m));
    ASSERT_TRUE(ledger.MarkFolded(Microbatch(m), kStage, worker, At(m)));
  }
  ASSERT_TRUE(ledger.StageComplete(kStage));
  const auto claims = ledger.Claims(kStage, {kA, kB});
  EXPECT_EQ(claims[0].claims.microbatches, (std::vector{Microbatch(0), Microbatch(2)}));
  EXPECT_EQ(claims[1].claims.microbatches, (std::vector{Microbatch(1)}));
}

TEST(LedgerTest, TheWorkersFoldSetHasTheLastWord) {
  Ledger ledger(2, 1);
  for (int m = 0; m < 2; ++m) ledger.Issue(Microbatch(m), kStage, kA, At(m));
  ASSERT_TRUE(ledger.MarkFolded(Microbatch(0), kStage, kA, At(0)));
  EXPECT_TRUE(ledger.Reconcile(kA, {kStage, {Microbatch(0), Microbatch(1)}}));
  EXPECT_TRUE(ledger.StageComplete(kStage));
  EXPECT_TRUE(ledger.Reconcile(kA, {kStage, {Microbatch(1)}}));
  EXPECT_FALSE(ledger.StageComplete(kStage));
}

TEST(LedgerTest, TwoWorkersThatFoldedTheSameMicrobatchAreFound) {
  Ledger ledger(1, 1);
  ledger.Issue(Microbatch(0), kStage, kA, At(0));
  ASSERT_TRUE(ledger.MarkFolded(Microbatch(0), kStage, kA, At(0)));
  EXPECT_FALSE(ledger.Reconcile(kB, {kStage, {Microbatch(0)}}));
}

}  // namespace
}  // namespace swarm::protocol
