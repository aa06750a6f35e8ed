#include "worker/protocol/messages/retired.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

const Retired kRetired{"tiny-w", 5, {1, 3}};

TEST(RetiredTest, ANumberBelowTheBoundIsRetiredUnlessItIsExcepted) {
  for (const char* id : {"tiny-w0", "tiny-w2", "tiny-w4", "tiny-w4-1"}) {
    EXPECT_TRUE(kRetired.Has(WorkerId(id))) << id;
  }
  for (const char* id : {"tiny-w1", "tiny-w3", "tiny-w3-0", "tiny-w5", "tiny-w40"}) {
    EXPECT_FALSE(kRetired.Has(WorkerId(id))) << id;
  }
  EXPECT_EQ(kRetired.count(), 3u);
}

TEST(RetiredTest, OtherNamesAreNot) {
  for (const char* id : {"tiny-w", "tiny-wx", "tiny-w-0", "tiny-trainer-0", "other-w0", "joined-0",
                         "trainer", "operator", ""}) {
    EXPECT_FALSE(kRetired.Has(WorkerId(id))) << id;
    EXPECT_FALSE(Retired().Has(WorkerId(id))) << id;
  }
}

TEST(RetiredTest, TheListThatCountsMoreIsKept) {
  Retired known;
  EXPECT_FALSE(known.Learn({"tiny-w", 3, {0, 1, 2}})) << "it retires nobody";
  EXPECT_TRUE(known.Learn(kRetired));
  EXPECT_FALSE(known.Learn({"tiny-w", 4, {1, 3}})) << "an old one";
  EXPECT_FALSE(known.Learn(kRetired));
  EXPECT_EQ(known, kRetired);
  EXPECT_TRUE(known.Learn({"tiny-w", 5, {3}}));
  EXPECT_TRUE(known.Has(WorkerId("tiny-w1")));
}

}  // namespace
}  // namespace swarm::protocol
