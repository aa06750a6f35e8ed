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
    Worker& worker = members_.all()[WorkerId(name)];
    worker.member.id = WorkerId(name);
    worker.member.stage = StageIndex(stage);
    worker.role = role;
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

TEST_F(MembersTest, AStageWithoutAReadyReplicaIsEmpty) {
  Add("a1", 0, Role::kReady);
  EXPECT_EQ(members_.FindEmptyStage(), StageIndex(1));
  Add("b1", 1, Role::kCatchingUp);
  EXPECT_EQ(members_.FindEmptyStage(), StageIndex(1));
  Add("b1", 1, Role::kReady);
  EXPECT_EQ(members_.FindEmptyStage(), std::nullopt);
}

TEST_F(MembersTest, EachRosterIsANewEpochAndGoesToItsMembersOnly) {
  Add("a1", 0, Role::kReady);
  Add("b1", 1, Role::kLoading);
  members_.ContinueFrom(Epoch(4));
  Turn turn{Timepoint()};
  members_.PublishRoster({}, turn);
  members_.PublishRoster({}, turn);
  ASSERT_EQ(turn.orders.size(), 2u);
  const auto& tell = std::get<order::Tell>(turn.orders[1]);
  EXPECT_EQ(tell.to, WorkerId("a1"));
  const auto& roster = std::get<Roster>(tell.message);
  EXPECT_EQ(roster.epoch, Epoch(6));
  ASSERT_EQ(roster.members.size(), 1u);
  EXPECT_EQ(roster.members[0].id, WorkerId("a1"));
}

}  // namespace
}  // namespace swarm::protocol
