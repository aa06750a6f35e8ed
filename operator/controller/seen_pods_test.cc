#include "operator/controller/seen_pods.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace swarm::controller {
namespace {

using nlohmann::json;
using testing::IsEmpty;
using testing::SizeIs;

json Worker(const std::string& number, const std::string& phase = "Pending") {
  return {{"metadata",
           {{"name", "tiny-w" + number},
            {"namespace", "team"},
            {"uid", "uid-" + number},
            {"labels",
             {{"swarmjob.dev/job", "tiny"},
              {"swarmjob.dev/role", "worker"},
              {"swarmjob.dev/pool", "spot"},
              {"swarmjob.dev/ordinal", number}}},
            {"ownerReferences",
             {{{"kind", "Note"}, {"uid", "note"}},
              {{"kind", "SwarmJob"}, {"uid", "job-1"}, {"controller", true}}}}}},
          {"status", {{"phase", phase}, {"podIP", "10.0.0." + number}}}};
}

TEST(SeenPodsTest, APodIsReadOnceUntilItChanges) {
  SeenPods pods;
  const kube::PackedObject first(Worker("1")), second(Worker("2"));
  const auto seen = pods.Read({first, second});
  ASSERT_THAT(seen, SizeIs(2));
  EXPECT_EQ(seen[0]->pod.name, "tiny-w1");
  EXPECT_EQ(seen[1]->pod.number, 2u);
  EXPECT_EQ(seen[1]->controller, "job-1");
  EXPECT_EQ(seen[1]->ip, "10.0.0.2");

  const kube::PackedObject changed(Worker("1", "Running"));
  const auto later = pods.Read({changed, second});
  ASSERT_THAT(later, SizeIs(2));
  EXPECT_EQ(later[0]->pod.phase, plan::PodPhase::kRunning);
  EXPECT_EQ(later[1], seen[1]) << "it was read again";
}

TEST(SeenPodsTest, APodThatWasAwayIsReadAgain) {
  SeenPods pods;
  const kube::PackedObject worker(Worker("1"));
  const auto seen = pods.Read({worker});
  EXPECT_THAT(pods.Read({}), IsEmpty());
  const auto back = pods.Read({worker});
  ASSERT_THAT(back, SizeIs(1));
  EXPECT_NE(back[0], seen[0]) << "it was remembered, as would be all pods that a job ever had";
}

TEST(SeenPodsTest, WhatIsNoPodOfAJobIsLeftOutEachTime) {
  json stranger = Worker("1");
  stranger["metadata"].erase("labels");
  json free = Worker("2");
  free["metadata"].erase("ownerReferences");
  const kube::PackedObject one(stranger), two(free);
  SeenPods pods;
  for (int look = 0; look < 2; ++look) {
    const auto seen = pods.Read({one, two});
    ASSERT_THAT(seen, SizeIs(1));
    EXPECT_EQ(seen[0]->controller, "");
  }
}

}  // namespace
}  // namespace swarm::controller
