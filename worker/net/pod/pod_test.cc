#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "worker/net/loopback/loopback.h"
#include "worker/net/pod/pod_endpoint.h"
#include "worker/net/testing/recorder.h"

namespace swarm::net {
namespace {

const WorkerId kA("a"), kB("b"), kElsewhere("elsewhere");
constexpr std::size_t kPart = 1u << 20;

Bytes Filled(std::size_t size, char with) { return Bytes::Copy(std::string(size, with)); }

class PodMemoryTest : public testing::Test {
 protected:
  std::shared_ptr<PodMemory> Open(std::size_t worker) {
    return std::move(PodMemory::Open(made_->fd(), worker)).value();
  }

  Timepoint now_{std::chrono::hours(1)};
  const std::shared_ptr<PodMemory> made_ = std::move(PodMemory::Create(2, kPart)).value();
  const std::shared_ptr<PodMemory> a_ = Open(0), b_ = Open(1);
};

TEST_F(PodMemoryTest, WhatOneLendsTheOtherTakes) {
  for (const std::size_t size : {0, 1, 63, 64, 65, 100'000, 900'000}) {
    const Bytes payload = Filled(size, 'x');
    const auto loan = a_->Lend(payload, now_);
    ASSERT_TRUE(loan) << size;
    EXPECT_TRUE(b_->IsLoan(*loan));
    EXPECT_LT(loan->size(), 100u);
    const auto taken = b_->Take(*loan);
    ASSERT_TRUE(taken.ok()) << taken.status().ToString();
    EXPECT_EQ(taken->text(), payload.text());
  }
}

TEST_F(PodMemoryTest, TheRingHoldsAsMuchAsFitsAndGoesOnWhenTheOldestIsTaken) {
  const auto lend = [&](char with) { return a_->Lend(Filled(kPart / 4, with), now_); };
  const auto x = lend('x'), y = lend('y'), z = lend('z');
  ASSERT_TRUE(x && y && z);
  EXPECT_FALSE(lend('n')) << "blocks have headers, so four quarters do not fit";
  ASSERT_TRUE(b_->Take(*y).ok());
  EXPECT_FALSE(lend('n')) << "the oldest is still there";
  ASSERT_TRUE(b_->Take(*x).ok());
  const auto v = lend('v'), w = lend('w');
  ASSERT_TRUE(v && w);
  EXPECT_FALSE(lend('n'));
  for (const auto& [loan, with] : {std::pair(z, 'z'), {v, 'v'}, {w, 'w'}}) {
    const auto taken = b_->Take(*loan);
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ(taken->text(), std::string(kPart / 4, with));
  }
  EXPECT_TRUE(a_->Lend(Filled(kPart * 3 / 4, 'e'), now_));
}

TEST_F(PodMemoryTest, WhatIsNotSentIsFreeAtOnce) {
  for (int i = 0; i < 100; ++i) {
    const auto loan = a_->Lend(Filled(kPart / 2, 'x'), now_);
    ASSERT_TRUE(loan);
    a_->TakeBack(*loan);
  }
}

TEST_F(PodMemoryTest, WhatNobodyTakesIsWrittenOverInTheEndAndALateReaderFindsOut) {
  const auto lost = a_->Lend(Filled(kPart / 2, 'x'), now_);
  EXPECT_FALSE(a_->Lend(Filled(kPart / 2, 'y'), now_ + PodMemory::kLoanMax / 2));
  const auto next = a_->Lend(Filled(kPart / 2, 'y'), now_ + PodMemory::kLoanMax);
  ASSERT_TRUE(next);
  EXPECT_EQ(b_->Take(*lost).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(b_->Take(*next).ok());
}

TEST_F(PodMemoryTest, AnotherProcessInheritsIt) {
  const auto loan = a_->Lend(Filled(100'000, 'x'), now_);
  const pid_t child = fork();
  if (child == 0) {
    const auto inherited = PodMemory::Open(made_->fd(), 1);
    const auto taken = inherited.ok() ? (*inherited)->Take(*loan) : inherited.status();
    _exit(taken.ok() && taken->text() == std::string(100'000, 'x') ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(a_->Lend(Filled(kPart - 1000, 'y'), now_)) << "the block was taken there";
}

TEST_F(PodMemoryTest, OtherBytesAreNoLoansAndOtherDescriptorsNoMemory) {
  const auto loan = a_->Lend(Filled(1000, 'x'), now_);
  const auto other = std::move(PodMemory::Create(2, kPart)).value();
  EXPECT_FALSE(other->IsLoan(*loan)) << "of another pod";
  EXPECT_FALSE(b_->IsLoan(Filled(loan->size(), 'x')));
  EXPECT_FALSE(b_->IsLoan(loan->Slice(0, loan->size() - 1)));
  EXPECT_FALSE(b_->IsLoan({}));
  EXPECT_EQ(PodMemory::Open(made_->fd(), 2).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PodMemory::Open(0, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PodMemory::Open(-1, 0).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PodMemoryTest, ADescriptionOfWhatLiesOutsideIsRefused) {
  const auto loan = a_->Lend(Filled(1000, 'x'), now_);
  for (const std::size_t field : {2, 3, 4}) {  // worker, begin, bytes
    std::string text(loan->text());
    const std::uint64_t far = ~std::uint64_t{0} << 6;
    std::memcpy(text.data() + field * 8, &far, sizeof far);
    ASSERT_TRUE(b_->IsLoan(Bytes::Copy(text)));
    EXPECT_EQ(b_->Take(Bytes::Copy(text)).status().code(), StatusCode::kDataLoss);
  }
}

/// Endpoints of which two are in one pod.
class PodEndpointTest : public testing::Test {
 protected:
  std::unique_ptr<Endpoint> Make(const WorkerId& self, std::size_t worker, Recorder* recorder) {
    const auto make = [&](EndpointHandler* handler) {
      return network_.CreateEndpoint(self, handler);
    };
    auto memory = PodMemory::Open(memory_->fd(), worker);
    return std::move(PodEndpoint::Create(*memory, {kA, kB}, recorder, make)).value();
  }
  void Send(Endpoint& from, const WorkerId& to, Bytes payload) {
    ASSERT_TRUE(from.Send(to, Lane::kData, {protocol::ReduceChunk{}, std::move(payload)}).ok());
  }

  LoopbackNetwork network_;
  const std::shared_ptr<PodMemory> memory_ = std::move(PodMemory::Create(2, kPart)).value();
  Recorder a_heard_, b_heard_, elsewhere_heard_;
  const std::unique_ptr<Endpoint> a_ = Make(kA, 0, &a_heard_), b_ = Make(kB, 1, &b_heard_);
  const std::unique_ptr<Endpoint> elsewhere_ =
      std::move(network_.CreateEndpoint(kElsewhere, &elsewhere_heard_)).value();
};

TEST_F(PodEndpointTest, LargePayloadsWithinThePodGoThroughTheMemoryAndOthersDoNot) {
  a_->Connect(kB, b_->addresses());
  a_->Connect(kElsewhere, elsewhere_->addresses());
  ASSERT_TRUE(a_heard_.WaitForEvent("up b"));
  ASSERT_TRUE(a_heard_.WaitForEvent("up elsewhere"));
  const Bytes large = Filled(100'000, 'x'), small = Filled(100, 'y');
  Send(*a_, kElsewhere, large);
  Send(*a_, kB, large);
  Send(*a_, kB, small);
  Send(*a_, kB, Filled(2 * kPart, 'z'));  // has no room in the memory
  ASSERT_TRUE(b_heard_.WaitForMessages(3));
  ASSERT_TRUE(elsewhere_heard_.WaitForMessages(1));
  EXPECT_EQ(elsewhere_heard_.arrivals()[0].envelope.payload.data(), large.data())
      << "the loopback hands over the very bytes";
  EXPECT_EQ(b_heard_.arrivals()[0].envelope.payload.text(), large.text());
  EXPECT_NE(b_heard_.arrivals()[0].envelope.payload.data(), large.data());
  EXPECT_EQ(b_heard_.arrivals()[1].envelope.payload.data(), small.data());
  EXPECT_EQ(b_heard_.arrivals()[2].envelope.payload.size(), 2 * kPart);
  EXPECT_EQ(a_->traffic().bytes_sent,
            elsewhere_->traffic().bytes_received + b_->traffic().bytes_received);
}

TEST_F(PodEndpointTest, APayloadThatIsNotThereAnyMoreIsAMessageLost) {
  a_->Connect(kB, b_->addresses());
  ASSERT_TRUE(a_heard_.WaitForEvent("up b"));
  const auto memory = std::move(PodMemory::Open(memory_->fd(), 0)).value();
  const auto lost = memory->Lend(Filled(kPart / 2, 'x'), Timepoint());
  ASSERT_TRUE(memory->Lend(Filled(kPart / 2, 'y'), Timepoint() + PodMemory::kLoanMax));
  Send(*a_, kB, *lost);
  Send(*a_, kB, Filled(10, 'z'));
  ASSERT_TRUE(b_heard_.WaitForMessages(1));
  EXPECT_EQ(b_heard_.arrivals()[0].envelope.payload.size(), 10u);
  EXPECT_EQ(b_->traffic().messages_refused, 1u);
}

}  // namespace
}  // namespace swarm::net
