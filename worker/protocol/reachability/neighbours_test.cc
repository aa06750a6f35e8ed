#include "worker/protocol/reachability/neighbours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "worker/protocol/roster.h"

namespace swarm::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const WorkerId kSelf("self"), kB("b"), kC("c");

Roster RosterOf(const std::map<std::string, std::uint64_t>& stages) {
  Roster roster;
  for (const auto& [id, stage] : stages) {
    roster.members.Own().push_back({WorkerId(id), Incarnation(1), StageIndex(stage), "", {}, ""});
  }
  return roster;
}

class NeighboursTest : public testing::Test {
 protected:
  /// Ticks pass in which `heard` send beats. Returns all that came to be due.
  Neighbours::Due Pass(Duration duration, const std::vector<WorkerId>& heard) {
    Neighbours::Due all;
    for (const Timepoint end = now_ + duration; now_ < end;) {
      now_ += milliseconds(250);
      for (const WorkerId& id : heard) neighbours_.OnBeat(id, now_);
      Neighbours::Due due = neighbours_.OnTick(now_);
      all.beats.insert(all.beats.end(), due.beats.begin(), due.beats.end());
      if (due.report) all.report = due.report;
      reports_ += due.report ? 1 : 0;
    }
    return all;
  }

  Timepoint now_{std::chrono::hours(1)};
  Neighbours neighbours_{kSelf};
  int reports_ = 0;
};

TEST_F(NeighboursTest, ANeighbourThatIsNotHeardIsReportedWithinThreeSeconds) {
  neighbours_.OnRoster(RosterOf({{"self", 0}, {"b", 1}, {"c", 1}}), 2, false, now_);
  EXPECT_FALSE(Pass(seconds(10), {kB, kC}).report);
  const auto due = Pass(seconds(3), {kC});
  ASSERT_TRUE(due.report);
  EXPECT_THAT(due.report->peers, ElementsAre(kB));
}

TEST_F(NeighboursTest, OneThatNeverWasHeardIsReportedToo) {
  neighbours_.OnRoster(RosterOf({{"self", 0}, {"b", 1}}), 2, false, now_);
  EXPECT_TRUE(Pass(seconds(3), {}).report);
}

TEST_F(NeighboursTest, TheReportIsRepeatedAndItsEndIsReportedOnce) {
  neighbours_.OnRoster(RosterOf({{"self", 0}, {"b", 1}}), 2, false, now_);
  Pass(seconds(3), {});
  reports_ = 0;
  Pass(seconds(10), {});
  EXPECT_THAT(reports_, testing::AllOf(testing::Ge(9), testing::Le(11)));
  reports_ = 0;
  const auto due = Pass(seconds(10), {kB});
  EXPECT_EQ(reports_, 1);
  EXPECT_THAT(due.report->peers, IsEmpty());
}

TEST_F(NeighboursTest, BeatsGoToEachNeighbourTwiceASecond) {
  neighbours_.OnRoster(RosterOf({{"self", 0}, {"b", 1}, {"c", 0}}), 2, false, now_);
  const auto due = Pass(seconds(10), {kB, kC});
  EXPECT_EQ(std::ranges::count(due.beats, kB), 20);
  EXPECT_EQ(std::ranges::count(due.beats, kC), 20);
}

TEST_F(NeighboursTest, AWorkerThatWasStoppedBlamesNone) {
  neighbours_.OnRoster(RosterOf({{"self", 0}, {"b", 1}}), 2, false, now_);
  Pass(seconds(10), {kB});
  now_ += seconds(60);
  EXPECT_FALSE(Pass(seconds(2), {kB}).report);
}

TEST_F(NeighboursTest, WhoIsNotInTheRosterHasNoNeighbours) {
  neighbours_.OnRoster(RosterOf({{"self", 0}, {"b", 1}}), 2, false, now_);
  neighbours_.OnRoster(RosterOf({{"b", 1}}), 2, false, now_);
  const auto due = Pass(seconds(10), {});
  EXPECT_THAT(due.beats, IsEmpty());
  EXPECT_FALSE(due.report);
}

TEST_F(NeighboursTest, InALargeSwarmTheyAreThePeersInASumAndAFewOfTheStagesBesideIt) {
  std::map<std::string, std::uint64_t> stages{{"self", 1}};
  for (int i = 0; i < 200; ++i) stages["w" + std::to_string(i)] = i % 5;
  neighbours_.OnRoster(RosterOf(stages), 5, false, now_);
  const auto due = Pass(milliseconds(250), {});
  EXPECT_THAT(due.beats.size(), testing::AllOf(testing::Ge(11u + 2 * 5), testing::Le(12u + 2 * 16)))
      << "rows of 5 in columns of 8";
  EXPECT_EQ(Neighbours::BeatInterval(12, 13, false), milliseconds(500));
  EXPECT_EQ(Neighbours::BeatInterval(12, 65, true), seconds(1));
  EXPECT_EQ(Neighbours::BeatInterval(1280, 1281, false), seconds(10));
  EXPECT_EQ(Neighbours::BeatInterval(25, 1024, true), seconds(8));
}

TEST_F(NeighboursTest, InALargeSwarmAFirstBeatMayTakeAsLongAsManyConnections) {
  std::map<std::string, std::uint64_t> stages{{"self", 1}};
  for (int i = 0; i < 200; ++i) stages["w" + std::to_string(i)] = i % 5;
  std::vector<WorkerId> heard = neighbours_.OnRoster(RosterOf(stages), 5, false, now_).came;
  heard.resize(heard.size() / 2 + 1);
  EXPECT_FALSE(Pass(milliseconds(250), heard).report);
  EXPECT_TRUE(Pass(seconds(60), heard).report);
}

TEST_F(NeighboursTest, InALargeSwarmAWorkerThatHearsNearlyNobodyAtFirstDoubtsItself) {
  std::map<std::string, std::uint64_t> stages{{"self", 1}};
  for (int i = 0; i < 200; ++i) stages["w" + std::to_string(i)] = i % 5;
  const auto came = neighbours_.OnRoster(RosterOf(stages), 5, false, now_).came;
  EXPECT_FALSE(Pass(seconds(290), {came[0]}).report);
  const auto due = Pass(seconds(30), {came[0]});
  ASSERT_TRUE(due.report);
  EXPECT_EQ(due.report->peers.size(), came.size() - 1);
}

TEST_F(NeighboursTest, InALargeSwarmConnectionsThatComeOneAfterTheOtherAreWaitedFor) {
  std::map<std::string, std::uint64_t> stages{{"self", 1}};
  for (int i = 0; i < 200; ++i) stages["w" + std::to_string(i)] = i % 5;
  const std::vector<WorkerId> came = neighbours_.OnRoster(RosterOf(stages), 5, false, now_).came;
  std::vector<WorkerId> heard;
  for (const WorkerId& id : came) {
    if (id == came.back()) break;
    heard.push_back(id);
    EXPECT_FALSE(Pass(seconds(6), heard).report) << heard.size();
  }
  const auto due = Pass(seconds(9), heard);
  ASSERT_TRUE(due.report) << "none has come since";
  EXPECT_THAT(due.report->peers, ElementsAre(came.back()));
}

TEST_F(NeighboursTest, InALargeSwarmWhoGetsAMicrobatchIsWatchedForAMinute) {
  std::map<std::string, std::uint64_t> stages{{"self", 1}};
  for (int i = 0; i < 200; ++i) stages["w" + std::to_string(i)] = i % 5;
  std::vector<WorkerId> neighbours = neighbours_.OnRoster(RosterOf(stages), 5, false, now_).came;
  const auto other = std::ranges::find_if(
      stages, [&](const auto& entry) { return entry.second == 4 && entry.first != "self"; });
  const WorkerId far(other->first);
  ASSERT_FALSE(neighbours_.Has(far));
  const WorkerId silent(std::ranges::find_if(stages, [&](const auto& entry) {
                          return entry.second == 4 && entry.first != far.value &&
                                 !neighbours_.Has(WorkerId(entry.first));
                        })->first);
  neighbours_.OnExchange(WorkerId("stranger"), Forward(), now_);
  neighbours_.OnExchange(silent, Fetch(), now_);
  neighbours_.OnExchange(far, Backward(), now_);
  const auto due = Pass(seconds(10), neighbours);
  EXPECT_THAT(due.beats, testing::Contains(far));
  EXPECT_THAT(due.beats, testing::Not(testing::Contains(WorkerId("stranger"))));
  EXPECT_THAT(due.beats, testing::Not(testing::Contains(silent))) << "only a microbatch counts";
  ASSERT_TRUE(due.report);
  EXPECT_THAT(due.report->peers, ElementsAre(far));
  const auto later = Pass(seconds(60), neighbours);
  ASSERT_TRUE(later.report);
  EXPECT_THAT(later.report->peers, IsEmpty()) << "nothing goes there any more";
  EXPECT_THAT(Pass(seconds(5), neighbours).beats, testing::Not(testing::Contains(far)));
}

TEST_F(NeighboursTest, NeighboursAgreeThatTheyAre) {
  std::map<std::string, std::uint64_t> stages;
  for (int i = 0; i < 200; ++i) stages["w" + std::to_string(i)] = i % 5;
  const Roster roster = RosterOf(stages);
  std::map<WorkerId, std::vector<WorkerId>> all;
  for (const Member& member : roster.members) {
    all[member.id] = Neighbours(member.id).OnRoster(roster, 5, false, now_).came;
  }
  for (const auto& [id, neighbours] : all) {
    for (const WorkerId& other : neighbours) EXPECT_THAT(all.at(other), testing::Contains(id));
  }
}

TEST_F(NeighboursTest, WhoComesAndWhoIsNoNeighbourAnyMoreIsTold) {
  EXPECT_THAT(neighbours_.OnRoster(RosterOf({{"self", 0}, {"b", 1}}), 2, false, now_).came,
              ElementsAre(kB));
  const auto change = neighbours_.OnRoster(RosterOf({{"self", 0}, {"c", 1}}), 2, false, now_);
  EXPECT_THAT(change.came, ElementsAre(kC));
  EXPECT_THAT(change.gone, ElementsAre(kB));
  EXPECT_TRUE(neighbours_.Has(kC));
  EXPECT_THAT(neighbours_.OnRoster(RosterOf({{"c", 1}}), 2, false, now_).gone, ElementsAre(kC));
}

TEST_F(NeighboursTest, TheFirstAndTheLastStageAreNeighboursIfTheyHaveASumInCommon) {
  std::map<std::string, std::uint64_t> stages{{"self", 0}};
  for (int i = 0; i < 100; ++i) stages["w" + std::to_string(i)] = i % 4;
  const Roster roster = RosterOf(stages);
  const auto at_the_end = [&](bool tied) {
    const auto came = Neighbours(kSelf).OnRoster(roster, 4, tied, now_).came;
    return std::ranges::count_if(
        came, [&](const WorkerId& id) { return FindMember(roster, id)->stage == StageIndex(3); });
  };
  EXPECT_EQ(at_the_end(false), 0);
  EXPECT_GE(at_the_end(true), 3) << "of 12 or 13 in the row and the column of 51";
}

}  // namespace
}  // namespace swarm::protocol
