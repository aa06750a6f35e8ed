#include "worker/protocol/reachability/link_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

using testing::ElementsAre;

const WorkerId kB("b"), kC("c"), kTrainer("trainer");

class LinkReportsTest : public testing::Test {
 protected:
  LinkReportsTest() {
    Roster roster;
    for (const char* id : {"a", "b", "c"}) roster.members.Own().push_back({.id = WorkerId(id)});
    reports_.OnRoster(roster);
  }
  std::vector<MeasuredLink> After(Duration passed, const std::map<WorkerId, Link>& seen) {
    now_ += passed;
    const auto report = reports_.OnLook(seen, now_);
    return report ? report->links : std::vector<MeasuredLink>();
  }

  LinkReports reports_;
  Timepoint now_{std::chrono::hours(1)};
};

TEST_F(LinkReportsTest, OnlyNewsIsReportedAndNotTooOften) {
  const Link slow{0.1, 1e6}, slower{0.1, 0.9e6}, slowest{0.1, 0.5e6};
  EXPECT_THAT(After({}, {{kB, slow}, {kTrainer, slow}}), ElementsAre(MeasuredLink{"b", slow}));
  EXPECT_THAT(After(LinkReports::kInterval / 2, {{kB, slowest}}), ElementsAre()) << "soon";
  EXPECT_THAT(After(LinkReports::kInterval, {{kB, slower}}), ElementsAre()) << "by a tenth";
  EXPECT_THAT(After({}, {{kB, slowest}, {kC, slow}}),
              ElementsAre(MeasuredLink{"b", slowest}, MeasuredLink{"c", slow}));
}

TEST_F(LinkReportsTest, ShortRoundTripsAreAlike) {
  After({}, {{kB, {0.0002, 0}}});
  EXPECT_THAT(After(LinkReports::kInterval, {{kB, {0.0008, 0}}}), ElementsAre());
  EXPECT_THAT(After(LinkReports::kInterval, {{kB, {0.008, 0}}}),
              ElementsAre(MeasuredLink{"b", {0.008, 0}}));
}

TEST_F(LinkReportsTest, EverythingIsSaidAgainForATrainerThatIsNew) {
  const Link link{0.1, 1e6};
  After({}, {{kB, link}});
  EXPECT_THAT(After(LinkReports::kRepeat, {{kB, link}}), ElementsAre(MeasuredLink{"b", link}));
}

TEST_F(LinkReportsTest, InALargeSwarmWorkersOfARegionAreOnePlace) {
  Roster roster;
  for (int i = 0; i < 100; ++i) {
    roster.members.Own().push_back({.id = WorkerId(std::to_string(i)), .region = i < 50 ? "eu" : "us"});
  }
  reports_.OnRoster(roster);
  EXPECT_THAT(After({}, {{WorkerId("60"), {0.1, 0}}, {WorkerId("61"), {0.2, 3e6}}}),
              ElementsAre(MeasuredLink{"us", {(0.1 + 0.2) / 2, 3e6}}));
}

}  // namespace
}  // namespace swarm::protocol
