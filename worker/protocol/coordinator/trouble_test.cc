#include "worker/protocol/coordinator/trouble.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

const WorkerId kA("a"), kB("b"), kC("c");

TEST(TroubleTest, OneBadDeviceMayFailAgainAndAgain) {
  Trouble trouble;
  for (std::uint64_t version = 1; version < 1000; ++version) {
    EXPECT_FALSE(trouble.Note(kA, Version(version)));
  }
}

TEST(TroubleTest, TheSameAtThreeWorkersIsNoFaultOfADevice) {
  Trouble trouble;
  EXPECT_FALSE(trouble.Note(kA, Version(10)));
  EXPECT_FALSE(trouble.Note(kB, Version(20)));
  EXPECT_TRUE(trouble.Note(kC, Version(30)));
}

TEST(TroubleTest, WhatHappenedLongAgoHasAnotherCause) {
  Trouble trouble;
  EXPECT_FALSE(trouble.Note(kA, Version(10)));
  EXPECT_FALSE(trouble.Note(kB, Version(20)));
  EXPECT_FALSE(trouble.Note(kC, Version(110)));
}

TEST(TroubleTest, ThreeTimesWithoutACommitIsTheEnd) {
  Trouble trouble;
  EXPECT_FALSE(trouble.Note(kA, Version(10)));
  EXPECT_FALSE(trouble.Note(kA, Version(10)));
  EXPECT_TRUE(trouble.Note(kA, Version(10)));
}

TEST(TroubleTest, AReturnToACheckpointIsNoCommit) {
  Trouble trouble;
  EXPECT_FALSE(trouble.Note(kA, Version(15)));
  EXPECT_FALSE(trouble.Note(kA, Version(12)));
  EXPECT_TRUE(trouble.Note(kA, Version(10)));
}

}  // namespace
}  // namespace swarm::protocol
