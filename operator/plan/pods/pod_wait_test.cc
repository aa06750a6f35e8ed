#include "operator/plan/pods/pod_wait.h"

#include <gtest/gtest.h>

namespace swarm::plan {
namespace {

ObservedPod UnboundPod(const std::string& reason, const std::string& message) {
  return {
      .name = "job-w1", .number = 1, .unscheduled_reason = reason, .unscheduled_message = message};
}

TEST(PodWaitTest, ThePodWithoutANodeSpeaksInTheSchedulersWords) {
  const ObservedPod pod = UnboundPod("Unschedulable", "0/3 nodes are available.");
  EXPECT_TRUE(IsUnschedulable(pod));
  EXPECT_EQ(WordsOfWait(pod), "Unschedulable: 0/3 nodes are available.");
}

TEST(PodWaitTest, APodThatIsHeldBackByItsGatesIsNotUnschedulable) {
  ObservedPod pod = UnboundPod("SchedulingGated", "Scheduling is blocked.");
  pod.gated = true;
  EXPECT_FALSE(IsUnschedulable(pod));
  EXPECT_EQ(WordsOfWait(pod), "SchedulingGated: Scheduling is blocked.");
}

TEST(PodWaitTest, APodOnANodeSpeaksInTheKubeletsWordsAndARunningOneWaitsForNothing) {
  ObservedPod pod = UnboundPod("", "");
  EXPECT_EQ(WordsOfWait(pod), "") << "the scheduler has not looked at it yet";
  pod.node = "a";
  pod.waiting_reason = "ContainerCreating";
  EXPECT_EQ(WordsOfWait(pod), "ContainerCreating");
  pod.waiting_reason = "ErrImagePull";
  pod.waiting_message = "not found";
  EXPECT_TRUE(WaitsForImage(pod));
  EXPECT_EQ(WordsOfWait(pod), "ErrImagePull: not found");
  pod.phase = PodPhase::kRunning;
  EXPECT_EQ(WordsOfWait(pod), "");
}

TEST(PodWaitTest, OfSeveralTheFirstThatTheClusterExplainsSpeaks) {
  Observed observed;
  ObservedPod silent = UnboundPod("", ""), later = UnboundPod("Unschedulable", "full");
  silent.number = 0;
  later.number = 2;
  ObservedPod bound = UnboundPod("", "");
  bound.node = "a";
  bound.waiting_reason = "ContainerCreating";
  observed.pods = {later, silent, bound};
  EXPECT_EQ(FirstThatWaits(observed, /*unbound=*/false)->number, 1u);
  EXPECT_EQ(FirstThatWaits(observed, /*unbound=*/true)->number, 2u);
  observed.pods = {silent};
  EXPECT_EQ(FirstThatWaits(observed, /*unbound=*/false), nullptr);
}

}  // namespace
}  // namespace swarm::plan
