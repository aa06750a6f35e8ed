// When a satellite takes a job for gone.
#include "operator/satellite/sweep.h"

#include <gmock/gmock.h>

namespace swarm::satellite {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class SweepTest : public testing::Test {
 protected:
  static Timepoint At(Duration time) { return Timepoint() + time; }
  Sweep sweep_{{}, At(seconds(0))};
};

TEST_F(SweepTest, AJobThatHomeLacksForAWhileIsGone) {
  sweep_.Hear({"a"}, At(seconds(10)));
  EXPECT_THAT(sweep_.Gone({"a", "b"}, At(seconds(11))), IsEmpty());
  sweep_.Hear({"a"}, At(seconds(40)));
  EXPECT_THAT(sweep_.Gone({"a", "b"}, At(seconds(40))), IsEmpty()) << "29 s";
  sweep_.Hear({"a"}, At(seconds(41)));
  EXPECT_THAT(sweep_.Gone({"a", "b"}, At(seconds(41))), ElementsAre("b"));
}

TEST_F(SweepTest, AnOutpostMayBeThereBeforeHomeNamesItsJob) {
  sweep_.Hear({"a"}, At(seconds(10)));
  EXPECT_THAT(sweep_.Gone({"a", "new"}, At(seconds(11))), IsEmpty());
  sweep_.Hear({"a", "new"}, At(seconds(20)));
  EXPECT_THAT(sweep_.Gone({"a", "new"}, At(seconds(21))), IsEmpty());
  sweep_.Hear({"a"}, At(seconds(50)));
  EXPECT_THAT(sweep_.Gone({"a", "new"}, At(seconds(51))), IsEmpty()) << "the time begins anew";
}

TEST_F(SweepTest, ASilentHomeLosesNothingForALongTime) {
  EXPECT_THAT(sweep_.Gone({"a"}, At(hours(1))), IsEmpty()) << "home has said nothing yet";
  sweep_.Hear({"b"}, At(hours(1)));
  EXPECT_THAT(sweep_.Gone({"a"}, At(hours(1))), IsEmpty());
  EXPECT_THAT(sweep_.Gone({"a"}, At(hours(2))), IsEmpty())
      << "home has not said again that a is gone";
}

TEST_F(SweepTest, AHomeThatIsGoneForGoodLeavesNothing) {
  sweep_.Hear({"a"}, At(hours(1)));
  EXPECT_THAT(sweep_.Gone({"a"}, At(hours(24))), IsEmpty());
  EXPECT_THAT(sweep_.Gone({"a"}, At(hours(25))), ElementsAre("a"));
}

}  // namespace
}  // namespace swarm::satellite
