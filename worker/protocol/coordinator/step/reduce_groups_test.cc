#include "worker/protocol/coordinator/step/reduce_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

using testing::ElementsAre;

TEST(ReduceGroupsTest, EachStageHasAGroupOfItsOwn) {
  const auto groups = ComputeReduceGroups(2, /*tied_head=*/false, /*shared_basis=*/false);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[1].stages, ElementsAre(StageIndex(1)));
  EXPECT_FALSE(groups[1].Has(StageIndex(0)));
}

TEST(ReduceGroupsTest, ATiedHeadIsSharedByTheFirstAndTheLastStage) {
  const auto groups = ComputeReduceGroups(3, /*tied_head=*/true, /*shared_basis=*/false);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[3].index, GroupIndex(3));
  EXPECT_THAT(groups[3].stages, ElementsAre(StageIndex(0), StageIndex(2)));
}

TEST(ReduceGroupsTest, ATiedHeadOfOneStageIsSummedOnce) {
  const auto groups = ComputeReduceGroups(1, /*tied_head=*/true, /*shared_basis=*/false);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[1].stages, ElementsAre(StageIndex(0)));
}

TEST(ReduceGroupsTest, ASharedBasisIsSummedByAllStages) {
  const auto groups = ComputeReduceGroups(2, /*tied_head=*/true, /*shared_basis=*/true);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[3].index, GroupIndex(3));
  EXPECT_THAT(groups[3].stages, ElementsAre(StageIndex(0), StageIndex(1)));
}

}  // namespace
}  // namespace swarm::protocol
