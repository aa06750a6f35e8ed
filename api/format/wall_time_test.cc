#include "api/format/wall_time.h"

#include <gtest/gtest.h>

namespace swarm::api {
namespace {

WallTime At(std::int64_t seconds) { return WallTime(std::chrono::seconds(seconds)); }

TEST(WallTimeTest, IsWrittenAndReadAsKubernetesDoes) {
  EXPECT_EQ(FormatTime(At(0)), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatTime(At(951'827'696)), "2000-02-29T12:34:56Z");
  EXPECT_EQ(ParseTime("2000-02-29T12:34:56Z"), At(951'827'696));
  EXPECT_EQ(ParseTime("9999-12-31T23:59:59Z"), At(253'402'300'799));
}

TEST(WallTimeTest, AnOffsetIsAppliedAndAFractionDropped) {
  EXPECT_EQ(ParseTime("2000-02-29T14:34:56+02:00"), At(951'827'696));
  EXPECT_EQ(ParseTime("2000-02-29T12:04:56-00:30"), At(951'827'696));
  EXPECT_EQ(ParseTime("2000-02-29T12:34:56.999999Z"), At(951'827'696));
}

TEST(WallTimeTest, AnythingElseIsNone) {
  for (const char* text :
       {"", "now", "2000-02-30T00:00:00Z", "2000-13-01T00:00:00Z", "2000-02-29", "2000-2-9T0:0:0Z",
        "2000-02-29T24:00:00Z", "2000-02-29T12:60:00Z", "2000-02-29T12:34:56", "2000-02-29T12:34Z",
        "2000-02-29T12:34:56.Z", "2000-02-29T12:34:56Z ", "2000-02-29 12:34:56Z",
        "2000-02-29T12:34:56+2:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00",
        "-200-02-29T12:34:56Z", "2000-02-29T12:34:56+99:00"}) {
    EXPECT_EQ(ParseTime(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace swarm::api
