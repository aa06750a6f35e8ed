#include "worker/protocol/coordinator/membership/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MembersTest : public testing::Test {
 protected:
  static CoordinatorOptions TwoStages() {
    CoordinatorOptions options;
    options.replicas = {2, 1};
    return options;
  }
  Worker& Add(const std::string& name, std::uint64_t stage, Role role) {
    Worker* known = members_.Find(WorkerId(name));
    Worker& worker = known != nullptr ? *known : members_.Add({.id = WorkerId(name)});
    members_.Become(worker, role, StageIndex(stage));
    return worker;
  }

  Job job_{TwoStages(), Timepoint()};
  Members members_{&job_};
};

TEST_F(MembersTest, AWorkerThatCatchesUpSumsButGetsNoMicrobatches) {
  Add("a1", 0, Role::kReady);
  Add("a2", 0, Role::kCatchingUp);
  Add("a3", 0, Role::kJoining);
  EXPECT_THAT(members_.Replicas(StageIndex(0)), ElementsAre(WorkerId("a1"), WorkerId("a2")));
  EXPECT_THAT(members_.ReadyReplicas(StageIndex(0)), ElementsAre(WorkerId("a1")));
}

TEST_F(MembersTest, AWorkerThatLeavesIsRoutedToOnlyWhereThereIsNoOther) {
  members_.BeginLeave(Add("a1", 0, Role::kReady));
  Add("a2", 0, Role::kReady);
  members_.BeginLeave(Add("b1", 1, Role::kReady));
  EXPECT_THAT(members_.RoutableReplicas(),
              ElementsAre(ElementsAre(WorkerId("a2")), ElementsAre(WorkerId("b1"))));
  EXPECT_THAT(members_.StayingReplicas(StageIndex(1)), IsEmpty());
}

TEST_F(MembersTest, AWorkerThatIsGoneLeavesNoMore) {
  Worker& worker = Add("a1", 0, Role::kReady);
  members_.BeginLeave(worker).deadline = Timepoint(std::chrono::seconds(9));
  EXPECT_EQ(members_.BeginLeave(worker).deadline, Timepoint(std::chrono::seconds(9)));
  EXPECT_THAT(members_.leaving(), ElementsAre(WorkerId("a1")));
  members_.EndLeave(worker);
  EXPECT_EQ(worker.leave(), nullptr);
  EXPECT_THAT(members_.leaving(), IsEmpty());
  members_.BeginLeave(worker);
  members_.Erase(WorkerId("a1"));
  EXPECT_THAT(members_.leaving(), IsEmpty());
}

TEST_F(MembersTest, AStateIsKnownWhenAllReadyReplicasHaveReportedItWhoeverComesAndGoes) {
  Worker& a1 = Add("a1", 0, Role::kReady);
  Worker& a2 = Add("a2", 0, Role::kReady);
  Worker& b1 = Add("b1", 1, Role::kReady);
  members_.SetVersion(a1, Version(3));
  members_.SetVersion(b1, Version(3));
  EXPECT_FALSE(members_.HaveReported(Version(3), StageIndex(0)));
  EXPECT_TRUE(members_.HaveReported(Version(3), StageIndex(1)));
  EXPECT_FALSE(members_.HaveReported(Version(3)));
  members_.SetVersion(a2, Version(4));
  EXPECT_TRUE(members_.HaveReported(Version(3)));
  Worker& a3 = Add("a3", 0, Role::kCatchingUp);
  EXPECT_TRUE(members_.HaveReported(Version(3)));
  members_.Become(a3, Role::kReady);
  EXPECT_FALSE(members_.HaveReported(Version(3)));
  members_.Erase(WorkerId("a3"));
  members_.BeginLeave(a1);  // its last report is waited for
  EXPECT_TRUE(members_.HaveReported(Version(3)));
  EXPECT_FALSE(members_.HaveReported(Version(4), StageIndex(0)));
  members_.Erase(WorkerId("a1"));
  EXPECT_TRUE(members_.HaveReported(Version(4), StageIndex(0)));
}

TEST_F(MembersTest, AStageWithoutAReadyReplicaIsEmpty) {
  Add("a1", 0, Role::kReady);
  EXPECT_EQ(members_.FindLostStage(), StageIndex(1));
  Add("b1", 1, Role::kCatchingUp);
  EXPECT_EQ(members_.FindLostStage(), StageIndex(1));
  Add("b1", 1, Role::kReady);
  EXPECT_EQ(members_.FindLostStage(), std::nullopt);
}

TEST_F(MembersTest, ANewMemberHearsTheWholeRosterAndTheOthersWhatHasChanged) {
  Add("a1", 0, Role::kReady);
  Add("a2", 0, Role::kReady);
  Add("b1", 1, Role::kLoading);
  members_.ContinueFrom(Epoch(4));
  Turn first{Timepoint()};
  members_.PublishRoster({}, first);
  ASSERT_EQ(first.orders.size(), 2u);  // the worker that loads hears nothing
  for (const Order& order : first.orders) {
    const auto& roster = std::get<Roster>(std::get<order::Tell>(order).message);
    EXPECT_EQ(roster.epoch, Epoch(5));
    EXPECT_THAT(roster.members.elements(), ElementsAre(members_.At(WorkerId("a1")).member,
                                            members_.At(WorkerId("a2")).member));
  }
  Add("b1", 1, Role::kCatchingUp);
  members_.Erase(WorkerId("a2"));
  Turn second{Timepoint()};
  members_.PublishRoster({}, second);
  ASSERT_EQ(second.orders.size(), 2u);
  const auto& to_a1 = std::get<order::Tell>(second.orders[0]);
  EXPECT_EQ(to_a1.to, WorkerId("a1"));
  const Member& b1 = members_.At(WorkerId("b1")).member;
  EXPECT_EQ(std::get<RosterChange>(to_a1.message),
            (RosterChange{Term(1), {}, Epoch(6), {b1}, {WorkerId("a2")}, {}}));
  const auto& to_b1 = std::get<order::Tell>(second.orders[1]);
  EXPECT_EQ(to_b1.to, WorkerId("b1"));
  EXPECT_EQ(std::get<Roster>(to_b1.message).members.size(), 2u);
}

TEST_F(MembersTest, AMemberThatIsReplacedBetweenTwoRostersIsGoneAndHasCome) {
  Add("a1", 0, Role::kReady);
  Add("a2", 0, Role::kReady);
  Turn turn{Timepoint()};
  members_.PublishRoster({}, turn);
  members_.Erase(WorkerId("a2"));
  Add("a2", 0, Role::kReady);
  members_.PublishRoster({}, turn);
  const auto& change = std::get<RosterChange>(std::get<order::Tell>(turn.orders[2]).message);
  EXPECT_EQ(change.came.size(), 1u);
  EXPECT_THAT(change.gone, ElementsAre(WorkerId("a2")));
}

TEST_F(MembersTest, AStageKnowsItsReplicasWhateverTheyBecome) {
  Worker& worker = Add("a1", 0, Role::kReady);
  Add("a0", 0, Role::kReady);
  EXPECT_THAT(members_.StayingReplicas(StageIndex(0)), ElementsAre(WorkerId("a0"), WorkerId("a1")));
  members_.BeginLeave(worker);
  EXPECT_THAT(members_.StayingReplicas(StageIndex(0)), ElementsAre(WorkerId("a0")));
  EXPECT_THAT(members_.ReadyReplicas(StageIndex(0)), ElementsAre(WorkerId("a0"), WorkerId("a1")));
  members_.EndLeave(worker);
  EXPECT_THAT(members_.StayingReplicas(StageIndex(0)), ElementsAre(WorkerId("a0"), WorkerId("a1")));
  members_.Become(worker, Role::kReady, StageIndex(1));
  EXPECT_THAT(members_.Replicas(StageIndex(0)), ElementsAre(WorkerId("a0")));
  EXPECT_THAT(members_.Replicas(StageIndex(1)), ElementsAre(WorkerId("a1")));
  members_.Become(worker, Role::kLoading);
  EXPECT_THAT(members_.Replicas(StageIndex(1)), IsEmpty());
}

}  // namespace
}  // namespace swarm::protocol
