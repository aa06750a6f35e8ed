#include "operator/plan/evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/rng.h"
#include "operator/plan/pods/pod_wait.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;

constexpr WallTime kBegin{seconds(1'800'000'000)};

ObservedPod RandomPod(std::uint64_t number, Rng& dice) {
  ObservedPod pod{.number = number};
  if (number == 0) pod.role = PodRole::kTrainer;
  pod.name = names::PodName("job", pod.role, number);
  if (pod.role == PodRole::kWorker) pod.workers = 1 + dice.Below(3);
  pod.created = kBegin + seconds(dice.Below(4));
  constexpr PodPhase kPhases[] = {PodPhase::kPending, PodPhase::kPending, PodPhase::kRunning,
                                  PodPhase::kFailed};
  pod.phase = kPhases[dice.Below(std::size(kPhases))];
  if (dice.Below(3) > 0) pod.node = "node-" + std::to_string(dice.Below(3));
  if (dice.Below(4) == 0) pod.scheduled = pod.created + seconds(dice.Below(4));
  if (dice.Below(4) == 0) pod.deleted = kBegin;
  if (dice.Below(6) == 0) pod.end = ContainerEnd{.exit_code = 1};
  if (dice.Below(3) == 0) pod.waiting_reason = "ErrImagePull";
  return pod;
}

/// What a trainer says that knows these pods and others.
protocol::JobStatus RandomWords(const std::vector<ObservedPod>& pods, Rng& dice) {
  protocol::JobStatus status;
  const auto any = [&] {
    const ObservedPod& pod = pods[dice.Below(pods.size())];
    const std::string beyond = pod.name + "-" + std::to_string(pod.workers);
    const std::vector<std::string> workers = names::WorkersOf(pod.name, pod.workers);
    return protocol::WorkerId(dice.Below(5) == 0 ? beyond : workers[dice.Below(workers.size())]);
  };
  for (std::uint64_t stage = 0; stage < 3; ++stage) {
    status.stages.push_back({.stage = protocol::StageIndex(stage), .workers = {}});
    for (std::uint64_t i = dice.Below(4); i > 0; --i) {
      status.stages.back().workers.push_back({.id = any()});
    }
  }
  for (std::uint64_t i = dice.Below(4); i > 0; --i) {
    status.evicted.push_back({.number = i, .worker = any()});
  }
  for (std::uint64_t i = dice.Below(3); i > 0; --i) status.spares.push_back(any());
  return status;
}

bool IsIn(const ObservedPod& pod, const protocol::WorkerId& worker) {
  const std::vector<std::string> workers = names::WorkersOf(pod.name, pod.workers);
  return std::ranges::find(workers, worker.value) != workers.end();
}

TEST(EvidenceTest, ItSaysWhatASearchThroughEverythingWouldFind) {
  Rng dice(1);
  for (int round = 0; round < 500; ++round) {
    Observed seen{.now = kBegin + seconds(10)};
    for (std::uint64_t i = 0; i < 6; ++i) seen.pods.push_back(RandomPod(i, dice));
    seen.trainer = TrainerView{RandomWords(seen.pods, dice), seen.now};
    std::uint64_t stages = 3;
    if (dice.Below(2) == 0) {
      stages = 2;  // which a trainer may not know, or not want to
      seen.job.job.emplace().spec.pipeline.stages = stages;
    }
    const protocol::JobStatus& words = seen.trainer->status;
    const Evidence evidence(seen);
    for (const ObservedPod& pod : seen.pods) {
      std::vector<const protocol::StageStatus::Worker*> listed, told;
      for (const protocol::StageStatus& stage : words.stages) {
        if (stage.stage.value >= stages) continue;
        for (const auto& worker : stage.workers) {
          if (IsIn(pod, worker.id)) listed.push_back(&worker);
        }
      }
      std::uint64_t stage = 0;
      for (const ListedWorker& each : evidence.WorkersOf(pod)) {
        EXPECT_GE(each.stage, stage) << "they are in the order of their stages";
        stage = each.stage;
        told.push_back(each.worker);
      }
      EXPECT_TRUE(std::ranges::is_permutation(told, listed)) << pod.name;

      const auto is_here = [&pod](const protocol::WorkerId& id) { return IsIn(pod, id); };
      EXPECT_EQ(evidence.HasSpare(pod), std::ranges::any_of(words.spares, is_here));
      const auto eviction = std::find_if(words.evicted.rbegin(), words.evicted.rend(),
                                         [&](const auto& each) { return is_here(each.worker); });
      EXPECT_EQ(evidence.EvictionOf(pod), eviction == words.evicted.rend() ? nullptr : &*eviction);
      for (const std::string& worker : names::WorkersOf(pod.name, pod.workers)) {
        EXPECT_EQ(evidence.PodOf(worker), pod.role == PodRole::kWorker ? &pod : nullptr);
      }

      EXPECT_EQ(evidence.RunsElsewhere(pod), std::ranges::any_of(seen.pods, [&](const auto& other) {
                  return other.phase == PodPhase::kRunning && other.node != pod.node;
                }));
      EXPECT_EQ(evidence.HasHadImage(pod.role), std::ranges::any_of(seen.pods, [&](const auto& p) {
                  return p.role == pod.role && (p.phase == PodPhase::kRunning || p.end);
                }));
      const auto place = [](const ObservedPod& each) {
        return std::tuple(each.role != PodRole::kTrainer, BoundAt(each), each.name);
      };
      EXPECT_EQ(evidence.IsFirstInLine(pod), std::ranges::none_of(seen.pods, [&](const auto& p) {
                  return WaitsForImage(p) && !p.deleted && place(p) < place(pod);
                }));
    }
  }
}

TEST(EvidenceTest, WithoutATrainerNobodyIsListed) {
  Rng dice(2);
  Observed seen;
  seen.pods.push_back(RandomPod(1, dice));
  const Evidence evidence(seen);
  EXPECT_TRUE(evidence.WorkersOf(seen.pods[0]).empty());
  EXPECT_FALSE(evidence.HasSpare(seen.pods[0]));
  EXPECT_EQ(evidence.EvictionOf(seen.pods[0]), nullptr);
}

}  // namespace
}  // namespace swarm::plan
