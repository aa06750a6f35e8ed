#include "worker/device/stream_clocks.h"

#include <gtest/gtest.h>

namespace swarm::device {
namespace {

constexpr Slot kSlot = 1;
const Access kReads{.reads = {kSlot}, .writes = {}};
const Access kWrites{.reads = {}, .writes = {kSlot}};

TEST(StreamClocksTest, OneStreamNeedsNoEvents) {
  StreamClocks clocks;
  for (const Access& access : {kWrites, kReads, kWrites, kReads}) {
    EXPECT_TRUE(clocks.Run(Stream::kCompute, access).ok());
  }
}

TEST(StreamClocksTest, AReadWaitsForTheWriteOfAnotherStream) {
  StreamClocks clocks;
  ASSERT_TRUE(clocks.Run(Stream::kIn, kWrites).ok());
  StreamClocks careless = clocks;
  const Status early = careless.Run(Stream::kCompute, kReads);
  EXPECT_EQ(early.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(early.message(), "compute reads memory 1, and does not wait until in has written it");
  clocks.Wait(Stream::kCompute, clocks.Record(Stream::kIn));
  EXPECT_TRUE(clocks.Run(Stream::kCompute, kReads).ok());
}

TEST(StreamClocksTest, AWriteWaitsForAllReadsSinceTheLastWrite) {
  StreamClocks clocks;
  ASSERT_TRUE(clocks.Run(Stream::kCompute, kWrites).ok());
  const auto written = clocks.Record(Stream::kCompute);
  clocks.Wait(Stream::kIn, written);
  clocks.Wait(Stream::kOut, written);
  ASSERT_TRUE(clocks.Run(Stream::kIn, kReads).ok());
  ASSERT_TRUE(clocks.Run(Stream::kOut, kReads).ok());
  clocks.Wait(Stream::kCompute, clocks.Record(Stream::kIn));
  StreamClocks careless = clocks;
  EXPECT_EQ(careless.Run(Stream::kCompute, kWrites).message(),
            "compute writes memory 1, and does not wait until out has read it");
  clocks.Wait(Stream::kCompute, clocks.Record(Stream::kOut));
  EXPECT_TRUE(clocks.Run(Stream::kCompute, kWrites).ok());
}

TEST(StreamClocksTest, AnEventIsOfTheWorkBeforeIt) {
  StreamClocks clocks;
  const auto early = clocks.Record(Stream::kIn);
  ASSERT_TRUE(clocks.Run(Stream::kIn, kWrites).ok());
  clocks.Wait(Stream::kCompute, early);
  EXPECT_FALSE(clocks.Run(Stream::kCompute, kReads).ok());
}

TEST(StreamClocksTest, AStreamKnowsWhatAnotherHasWaitedFor) {
  StreamClocks clocks;
  ASSERT_TRUE(clocks.Run(Stream::kIn, kWrites).ok());
  clocks.Wait(Stream::kCompute, clocks.Record(Stream::kIn));
  clocks.Wait(Stream::kOut, clocks.Record(Stream::kCompute));
  EXPECT_TRUE(clocks.Run(Stream::kOut, kReads).ok());
}

TEST(StreamClocksTest, WorkComesBehindWhatTheHostHasDone) {
  StreamClocks clocks;
  ASSERT_TRUE(clocks.RunOnHost(kWrites).ok());
  EXPECT_TRUE(clocks.Run(Stream::kIn, kReads).ok());
}

TEST(StreamClocksTest, TheHostLearnsWhatIsDoneByEvents) {
  StreamClocks clocks;
  ASSERT_TRUE(clocks.Run(Stream::kOut, kWrites).ok());
  StreamClocks careless = clocks;
  EXPECT_EQ(careless.RunOnHost(kReads).message(),
            "the host reads memory 1, and does not wait until out has written it");
  EXPECT_EQ(careless.Forget(kSlot).code(), StatusCode::kFailedPrecondition);
  clocks.WaitOnHost(clocks.Record(Stream::kOut));
  EXPECT_TRUE(clocks.RunOnHost(kReads).ok());
  EXPECT_TRUE(clocks.Forget(kSlot).ok());
}

}  // namespace
}  // namespace swarm::device
