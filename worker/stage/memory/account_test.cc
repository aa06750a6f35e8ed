#include "worker/stage/memory/account.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <variant>

#include "worker/protocol/replica/replica.h"
#include "worker/stage/payloads.h"

namespace swarm::stage {
namespace {

using protocol::Forward;
using protocol::Microbatch;
using protocol::Step;
using protocol::Version;
using protocol::WorkerId;

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::uint64_t kBoundary = 2048ull * 4096 * sizeof(float);  // 2048 tokens of width 4096

/// Bytes that nobody reads.
Bytes Untouched(std::uint64_t size) {
  static const std::byte nothing{};
  return Bytes::Wrap(&nothing, size, nullptr);
}

TEST(MemoryAccountTest, TheSharesAreTogetherTheBudget) {
  for (const std::uint64_t budget : {std::uint64_t{0}, std::uint64_t{33}, 16 * kGiB}) {
    const MemoryShares shares = DivideBudget(budget);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), budget);
  }
}

TEST(MemoryAccountTest, ABudgetThatNobodyToldIsWhatTheMachineHasBesideTheState) {
  EXPECT_EQ(DefaultBudget(64 * kGiB, 24 * kGiB), 30 * kGiB);
  EXPECT_EQ(DefaultBudget(8 * kGiB, 24 * kGiB), 0u);
}

TEST(MemoryAccountTest, AChargeCountsAsLongAsItLivesWhoeverHoldsIt) {
  MemoryAccount account;
  {
    MemoryCharge first(&account, MemoryKind::kOutbox, 10);
    MemoryCharge second(&account, MemoryKind::kCopies, 5);
    EXPECT_EQ(account.total(), 15u);
    second = std::move(first);
    EXPECT_EQ(account.bytes(MemoryKind::kOutbox), 10u);
    MemoryCharge third = std::move(second);
    EXPECT_EQ(account.bytes(MemoryKind::kOutbox), 10u);
  }
  EXPECT_EQ(account.total(), 0u);
}

/// A replica of the middle stage of three and its payloads, of 2048 tokens of width 4096, with a
/// budget of 4 GiB: shares of 384 MiB, which are twelve activations, for inputs and for what is
/// retained.
class LargeStageTest : public testing::Test {
 protected:
  LargeStageTest() {
    account_.SetBudget(4 * kGiB);
    replica_.emplace(
        protocol::ReplicaOptions{.self = {.id = WorkerId("self"), .stage = protocol::StageIndex(1)},
                                 .stages = 3,
                                 .groups = {protocol::GroupIndex(1)},
                                 .term = protocol::Term(1),
                                 .parked_bytes_max = account_.share(MemoryKind::kInputs),
                                 .retained_bytes_max = account_.share(MemoryKind::kRetained)});
  }
  static Forward Frame(std::uint64_t m, std::uint64_t step) {
    const auto attempt = [](std::uint64_t n) { return protocol::Attempt{protocol::Term(1), n}; };
    Forward frame;
    frame.key = {{}, Step(step), Microbatch(m), protocol::StageIndex(1), attempt(1)};
    frame.version = Version(step);
    frame.hops = {{WorkerId("below"), attempt(2)},
                  {WorkerId("self"), attempt(1)},
                  {WorkerId("above"), attempt(3)}};
    frame.end = protocol::StageIndex(3);
    return frame;
  }
  void Carry(const protocol::Actions& actions) {
    for (const protocol::Action& action : actions) {
      if (const auto* release = std::get_if<protocol::action::ReleaseRetained>(&action)) {
        if (release->gradient) payloads_.DropReturned(release->key);
        if (!release->gradient) payloads_.DropOutput(release->key);
      } else if (const auto* fold = std::get_if<protocol::action::FoldGradients>(&action)) {
        payloads_.DropInput(fold->key);
      } else if (const auto* refuse = std::get_if<protocol::action::Refuse>(&action)) {
        payloads_.DropInput(refuse->key);
        ++refused_;
      }
    }
  }
  void Come(const Forward& frame) {
    ASSERT_TRUE(payloads_.AddInput(frame, Untouched(kBoundary)));
    Carry(replica_->OnForward(WorkerId("below"), frame, kBoundary));
  }
  void Execute(const Forward& frame) {
    (void)payloads_.TakeBoundary(frame.key);
    payloads_.NoteGraph(frame.key, kGiB);
    payloads_.KeepOutput(frame.key, Untouched(kBoundary));
    Carry(replica_->OnForwardDone(frame.key, 0, {1, kBoundary}));
    EXPECT_EQ(account_.bytes(MemoryKind::kGraphs), kGiB);
    ASSERT_TRUE(payloads_.AddGradient(frame.key, Untouched(kBoundary)));
    Carry(replica_->OnBackward(WorkerId("above"), {frame.key, frame.version}, kBoundary));
    (void)payloads_.TakeGradient(frame.key);
    payloads_.KeepReturned(frame.key, Untouched(kBoundary));
    Carry(replica_->OnBackwardDone(frame.key, {1, kBoundary}));
  }

  MemoryAccount account_;
  Payloads payloads_{&account_};
  std::optional<protocol::Replica> replica_;
  std::uint64_t refused_ = 0;
};

TEST_F(LargeStageTest, AHundredMicrobatchesAreComputedWithinTheSharesOfTheBudget) {
  for (std::uint64_t m = 0; m < 100; ++m) {
    const Forward frame = Frame(m, 0);
    Come(frame);
    EXPECT_EQ(account_.bytes(MemoryKind::kInputs), kBoundary);
    Execute(frame);
    EXPECT_LE(account_.bytes(MemoryKind::kRetained), account_.share(MemoryKind::kRetained));
    EXPECT_EQ(account_.bytes(MemoryKind::kGraphs), 0u);
    EXPECT_EQ(account_.bytes(MemoryKind::kInputs), 0u);
  }
  EXPECT_EQ(refused_, 0u);
  EXPECT_EQ(account_.bytes(MemoryKind::kRetained), 12 * kBoundary);
  payloads_.DropUpTo(Step(0));  // the commit
  EXPECT_EQ(account_.total(), 0u);
}

TEST_F(LargeStageTest, OfAThousandFramesThatComeTooEarlyTwelveWait) {
  for (std::uint64_t m = 0; m < 1000; ++m) Come(Frame(m, 1));
  EXPECT_EQ(account_.bytes(MemoryKind::kInputs), 12 * kBoundary);
  EXPECT_EQ(replica_->parked_bytes(), 12 * kBoundary);
  EXPECT_EQ(refused_, 988u);
  EXPECT_LE(account_.total(), 4 * kGiB);
}

}  // namespace
}  // namespace swarm::stage
