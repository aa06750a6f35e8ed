#include "api/model/layout.h"

#include <gtest/gtest.h>

namespace swarm::api {
namespace {

using Layout = std::vector<std::uint64_t>;

SwarmJob JobOf(std::uint64_t stages, std::uint64_t replicas) {
  SwarmJob job;
  job.spec.pipeline.stages = stages;
  job.spec.workers.replicas = replicas;
  return job;
}

Layout Computed(const SwarmJob& job, std::string_view workers) {
  const auto layout = ComputeReplicas(job, workers);
  EXPECT_TRUE(layout.ok()) << layout.status().ToString();
  return layout.ok() ? *layout : Layout();
}

TEST(LayoutTest, SpreadsTheWorkersOfTheJobEvenlyAndTheRestOverTheFirstStages) {
  EXPECT_EQ(Computed(JobOf(3, 5), ""), (Layout{2, 2, 1}));
  EXPECT_EQ(Computed(JobOf(3, 3), ""), (Layout{1, 1, 1}));
  EXPECT_EQ(Computed(JobOf(1, 4), ""), (Layout{4}));
}

TEST(LayoutTest, ATotalOnTheCommandLineWinsOverTheJob) {
  EXPECT_EQ(Computed(JobOf(3, 5), "7"), (Layout{3, 2, 2}));
}

TEST(LayoutTest, NamedStagesGetWhatIsWrittenAndTheOthersTheirMinimum) {
  SwarmJob job = JobOf(3, 5);
  EXPECT_EQ(Computed(job, "0=2,1=3"), (Layout{2, 3, 1}));
  job.spec.pipeline.minReplicasPerStage = 2;
  EXPECT_EQ(Computed(job, "1=4"), (Layout{2, 4, 2}));
}

TEST(LayoutTest, RefusesWhatLeavesAStageEmptyOrIsNoLayout) {
  for (const char* workers : {"2", "0", "-1", "x", "0=0", "3=1", "0=1,0=2", "0=1,1", "0=", "=1",
                              "0=1 ,1=2", "100001", "99999999999999999999"}) {
    const auto layout = ComputeReplicas(JobOf(3, 5), workers);
    ASSERT_FALSE(layout.ok()) << workers;
    EXPECT_EQ(layout.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(LayoutTest, ItsTextListsTheStages) { EXPECT_EQ(LayoutText({2, 1, 3}), "2,1,3"); }

}  // namespace
}  // namespace swarm::api
