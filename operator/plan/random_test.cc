// Two operators in a cluster with random faults, drawn from a seed. An operator may decide on old
// state, or die halfway. The invariants hold at all times, and after the faults the job reaches the
// wanted state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;
using testing::IsEmpty;

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : rng_(MixAll(seed, 17)), cluster_(2 + rng_.Below(8), 2) {
    cluster_.spec().failurePolicy = {.maxFailures = 1'000'000, .windowSeconds = 600};
    cluster_.spec().workers.pools = {{.name = "spot", .pendingSeconds = 60}, {.name = "demand"}};
    cluster_.free_slots = {{"spot", rng_.Below(10)}, {"demand", rng_.Below(10)}};
    if (seed % 2 == 1) {
      cluster_.pod_sizes = {{"spot", 1 + rng_.Below(4)}, {"demand", 1 + rng_.Below(4)}};
    }
    leaders_[0] = cluster_.leader;
    leaders_[1] = {.term = 2};
    seen_[0] = seen_[1] = cluster_.Observe(leaders_[0]);
  }

  void Rage(int events) {
    for (int i = 0; i < events; ++i) {
      Happen();
      const std::size_t who = rng_.Below(2);
      if (rng_.Below(3) == 0) Look(who);
      Decide(who);
      if (rng_.Below(2) == 0) cluster_.RunPods();
      cluster_.Advance(static_cast<std::int64_t>(rng_.Below(rng_.Below(20) == 0 ? 400 : 8)));
      if (!cluster_.violations.empty()) return;
    }
  }

  /// No more faults; capacity, and one operator that sees everything.
  FakeCluster& Calm() {
    cluster_.spec().suspend = false;
    cluster_.refuses.reset();
    cluster_.trainer_speaks = true;
    cluster_.not_there.clear();
    cluster_.black_hole.clear();
    cluster_.free_slots = {{"spot", 1000}, {"demand", 1000}};
    for (auto& [name, pod] : cluster_.pods) pod.gated = false;
    for (auto& [name, node] : cluster_.nodes) node.taints.clear();
    cluster_.leader = {.term = 3};
    cluster_.Live(6000);
    return cluster_;
  }

 private:
  void Look(std::size_t who) { seen_[who] = cluster_.Observe(leaders_[who]); }

  void Decide(std::size_t who) {
    std::optional<Observed> seen;
    if (rng_.Below(3) == 0) {  // the watch lags behind
      seen = cluster_.Reconsider(seen_[who], leaders_[who]);
    }
    std::optional<std::size_t> stop_after;
    if (rng_.Below(8) == 0) stop_after = rng_.Below(6);
    cluster_.Act(leaders_[who], std::move(seen), stop_after);
    if (stop_after) leaders_[who] = {.term = leaders_[who].term + 2};
  }

  std::string SomePod() {
    if (cluster_.pods.empty()) return "";
    auto it = cluster_.pods.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(rng_.Below(cluster_.pods.size())));
    return it->first;
  }

  void Happen() {
    const std::string name = SomePod();
    if (name.empty()) return;
    ObservedPod& pod = cluster_.pods.at(name);
    const bool runs = cluster_.nodes.contains(pod.node) && !pod.end;
    switch (rng_.Below(24)) {
      case 0:
        if (runs) cluster_.LoseNodeOf(name);
        break;
      case 1:
        if (runs) cluster_.Taint(name, "karpenter.sh/disrupted");
        break;
      case 2: {
        constexpr int kCodes[] = {1, 5, 6, 8, 137, 139, 143};
        if (runs) cluster_.End(name, kCodes[rng_.Below(std::size(kCodes))]);
        break;
      }
      case 3:
        if (!pod.deleted) cluster_.DeletePodByAnotherClient(name);
        break;
      case 4:
        cluster_.not_there.insert(name);
        break;
      case 5:
        cluster_.not_there.clear();
        break;
      case 6:
        cluster_.free_slots["spot"] = rng_.Below(10);
        break;
      case 7:
        cluster_.free_slots["demand"] = rng_.Below(10);
        break;
      case 8:
        cluster_.spec().workers.replicas = 2 + rng_.Below(8);
        break;
      case 9:
        cluster_.spec().suspend = rng_.Below(4) == 0;
        break;
      case 10:
        cluster_.trainer_speaks = rng_.Below(3) != 0;
        break;
      case 11:
        cluster_.refuses.reset();
        if (rng_.Below(4) == 0) cluster_.refuses = Refusal{.code = StatusCode::kResourceExhausted};
        break;
      case 12:
        if (pod.node.empty()) pod.gated = rng_.Below(2) == 0;
        break;
      case 13:
        if (pod.node.empty()) cluster_.pods.erase(name);
        break;
      case 14:
        cluster_.black_hole = rng_.Below(2) == 0 ? "" : "hole" + std::to_string(rng_.Below(3));
        break;
      default:
        break;
    }
  }

  Rng rng_;
  FakeCluster cluster_;
  Leader leaders_[2];
  Observed seen_[2];
};

TEST(RandomTest, UnderAnyStormNamesAndCountsHoldAndTheJobIsWholeAgainAfterIt) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Storm storm(seed);
    storm.Rage(250);
    FakeCluster& cluster = storm.Calm();
    ASSERT_THAT(cluster.violations, IsEmpty()) << "seed " << seed;
    const std::uint64_t wanted = cluster.spec().workers.replicas;
    const std::uint64_t workers = cluster.WorkersIn(cluster.Workers());
    std::uint64_t largest = 1;
    for (const auto& [pool, size] : cluster.pod_sizes) largest = std::max(largest, size);
    ASSERT_GE(workers, wanted) << "seed " << seed;
    ASSERT_LT(workers, wanted + largest) << "seed " << seed;
    ASSERT_EQ(cluster.status().replicas, workers) << "seed " << seed;
    ASSERT_EQ(cluster.status().readyReplicas, workers) << "seed " << seed;
    ASSERT_EQ(cluster.status().state, api::JobState::kRunning) << "seed " << seed;
    for (int i = 0; i < 5; ++i) {
      cluster.Advance(61);
      const Plan plan = cluster.Act(cluster.leader);
      ASSERT_EQ(plan.write, WriteStatus::kNo) << "seed " << seed;
      ASSERT_THAT(plan.actions, IsEmpty()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace swarm::plan
