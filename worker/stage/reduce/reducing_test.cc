#include "worker/stage/reduce/reducing.h"

#include <gtest/gtest.h>

#include "worker/net/loopback/loopback.h"
#include "worker/net/testing/recorder.h"

namespace swarm::stage {
namespace {

using protocol::Attempt;
using protocol::Generation;
using protocol::Reduce;
using protocol::ReduceChunk;
using protocol::Step;
using protocol::Term;
using protocol::WorkerId;

const WorkerId kA("a"), kB("b"), kC("c");

/// The part of worker a in sums with b and c.
class ReducingTest : public testing::Test {
 protected:
  ReducingTest()
      : network_(),
        endpoint_(*network_.CreateEndpoint(kA, &at_a_)),
        reducing_(
            kA, /*threads=*/2, &metrics_, &account_, [](ReducedSum) {},
            [](const protocol::Awaiting&) {},
            [](const Status& why) { ADD_FAILURE() << why.ToString(); }) {
    reducing_.Attach(endpoint_.get());
  }
  ~ReducingTest() override { reducing_.Stop(); }

  static Reduce SumOf(std::vector<WorkerId> participants, std::uint64_t k) {
    return {.term = Term(1),
            .generation = Generation(1),
            .k = Attempt{Term(1), k},
            .participants = std::move(participants)};
  }
  void Begin(const Reduce& reduce) {
    const std::vector<float> values(3'000'000, 1);  // some chunks for each
    const Bytes own = Bytes::Copy(values.data(), values.size() * sizeof(float));
    const model::GradientSum sum{own, checkpoint::ElementType::kF32, {}};
    reducing_.Begin(reduce, nullptr, 0, [sum] { return sum; }, api::ReduceCodec::kNone);
  }
  std::uint64_t Refused(const std::string& reason) {
    reducing_.CountWaiting();  // behind what was posted
    const auto counts = metrics_.refused.Read();
    const auto found = counts.find(reason);
    return found == counts.end() ? 0 : found->second;
  }

  net::Recorder at_a_;
  net::LoopbackNetwork network_;
  std::unique_ptr<net::Endpoint> endpoint_;
  WorkerMetrics metrics_;
  MemoryAccount account_;
  Reducing reducing_;
};

TEST_F(ReducingTest, NothingWaitsForAPeerThatIsGone) {
  Begin(SumOf({kA, kB}, 1));
  EXPECT_GT(reducing_.CountWaiting(), 0u) << "b is not there yet";
  reducing_.Forget(kB);
  EXPECT_EQ(reducing_.CountWaiting(), 0u);
  // The news that b is gone can overtake a sum with b.
  Begin(SumOf({kA, kB, kC}, 2));
  const std::size_t for_c = reducing_.CountWaiting();
  reducing_.Forget(kC);
  EXPECT_GT(for_c, 0u);
  EXPECT_EQ(reducing_.CountWaiting(), 0u);
  reducing_.Expect(kB);
  Begin(SumOf({kA, kB}, 3));
  EXPECT_GT(reducing_.CountWaiting(), 0u);
}

TEST_F(ReducingTest, WhatWaitsOfASumThatIsOverIsForgotten) {
  Begin(SumOf({kA, kB, kC}, 1));
  const std::size_t of_three = reducing_.CountWaiting();
  Begin(SumOf({kA, kB}, 2));
  const std::size_t of_two = reducing_.CountWaiting();
  EXPECT_GT(of_two, 0u);
  EXPECT_LT(of_two, of_three);
  reducing_.Abandon(Generation(1), Step(0));
  EXPECT_EQ(reducing_.CountWaiting(), 0u);
  Begin(SumOf({kA, kB}, 3));
  reducing_.ForgetBefore(Generation(2)).wait();
  EXPECT_EQ(reducing_.CountWaiting(), 0u);
}

TEST_F(ReducingTest, AChunkOfAnEarlierAttemptIsNotKept) {
  Begin(SumOf({kA, kB}, 2));
  ReduceChunk chunk{.generation = Generation(1), .k = Attempt{Term(1), 1}};
  reducing_.OnChunk(kB, chunk, Bytes::Copy("abcd"));
  EXPECT_EQ(Refused("late chunk"), 1u);
  chunk.k.n = 3;  // the peer has heard of the next one first
  reducing_.OnChunk(kB, chunk, Bytes::Copy("abcd"));
  EXPECT_EQ(Refused("late chunk"), 1u);
  reducing_.ForgetBefore(Generation(2)).wait();
  reducing_.OnChunk(kB, chunk, Bytes::Copy("abcd"));
  EXPECT_EQ(Refused("late chunk"), 2u);
}

TEST_F(ReducingTest, OfSumsThatHaveNotBegunHereOnlyTheLastAttemptIsKept) {
  ReduceChunk chunk{.generation = Generation(1), .k = Attempt{Term(1), 1}};
  const Bytes mebibyte = Bytes::Wrap(&chunk, GroupReduce::kChunkBytes, nullptr);  // nobody reads it
  for (std::uint64_t k = 1; k <= 100;
       ++k) {  // asked again and again, while this worker stands still
    chunk.k.n = k;
    for (int i = 0; i < 16; ++i) reducing_.OnChunk(kB, chunk, mebibyte);
    EXPECT_EQ(Refused("too many early chunks"), 0u);
    EXPECT_EQ(account_.bytes(MemoryKind::kEarlyChunks), GroupReduce::kEarlyBytes);
  }
  chunk.k.n = 99;
  reducing_.OnChunk(kB, chunk, mebibyte);
  EXPECT_EQ(Refused("late chunk"), 1u);
  reducing_.Release(Generation(1), Step(0));
  (void)reducing_.CountWaiting();
  EXPECT_EQ(account_.bytes(MemoryKind::kEarlyChunks), 0u);
}

TEST_F(ReducingTest, APeerThatSendsMoreThanItMayIsRefused) {
  ReduceChunk chunk{.generation = Generation(1), .k = Attempt{Term(1), 1}};
  const Bytes mebibyte = Bytes::Wrap(&chunk, GroupReduce::kChunkBytes, nullptr);
  for (int i = 0; i < 1000; ++i) reducing_.OnChunk(kB, chunk, mebibyte);
  EXPECT_GT(Refused("too many early chunks"), 700u);
  EXPECT_EQ(account_.bytes(MemoryKind::kEarlyChunks), 4 * GroupReduce::kEarlyBytes);
}

}  // namespace
}  // namespace swarm::stage
