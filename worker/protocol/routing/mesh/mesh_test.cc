#include "worker/protocol/routing/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>
#include <string>

#include "worker/protocol/routing/router.h"

namespace swarm::protocol {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

using Stage = std::vector<WorkerId>;

Stage StageOf(const std::string& name, int replicas) {
  Stage stage;
  for (int i = 0; i < replicas; ++i) stage.push_back(WorkerId(name + std::to_string(1000 + i)));
  return stage;
}

std::set<std::pair<WorkerId, WorkerId>> PairsOf(const Stage& lower, const Stage& upper,
                                                const MeshOptions& options = {}) {
  std::set<std::pair<WorkerId, WorkerId>> pairs;
  for (const auto& [worker, others] : DrawNeighbourhood(lower, upper, options)) {
    if (std::ranges::find(lower, worker) == lower.end()) continue;
    for (const WorkerId& other : others) pairs.emplace(worker, other);
  }
  return pairs;
}

TEST(MeshTest, EveryWorkerHasAFewNeighboursAndAllHaveAboutAsMany) {
  for (const int replicas : {9, 31, 33, 64, 250, 300, 500}) {
    const Stage lower = StageOf("a", replicas), upper = StageOf("b", replicas);
    const Neighbourhood mesh = DrawNeighbourhood(lower, upper, {});
    ASSERT_EQ(mesh.size(), 2u * static_cast<std::size_t>(replicas));
    for (const auto& [worker, others] : mesh) {
      EXPECT_THAT(others.size(), AllOf(Ge(5u), Le(17u))) << worker.value << " of " << replicas;
    }
  }
}

TEST(MeshTest, AStageThatIsSmallerHasMoreNeighbours) {
  const Stage lower = StageOf("a", 50), upper = StageOf("b", 200);
  const Neighbourhood mesh = DrawNeighbourhood(lower, upper, {});
  for (const WorkerId& worker : upper) EXPECT_THAT(mesh.at(worker).size(), AllOf(Ge(5u), Le(13u)));
  for (const WorkerId& worker : lower) EXPECT_THAT(mesh.at(worker).size(), AllOf(Ge(28u), Le(45u)));
}

TEST(MeshTest, BothEndsAgree) {
  const Neighbourhood mesh = DrawNeighbourhood(StageOf("a", 40), StageOf("b", 60), {});
  for (const auto& [worker, others] : mesh) {
    for (const WorkerId& other : others) EXPECT_THAT(mesh.at(other), testing::Contains(worker));
  }
}

TEST(MeshTest, AWorkerThatLeavesChangesFewOfTheOthersNeighbours) {
  const Stage lower = StageOf("a", 250), upper = StageOf("b", 250);
  const auto before = PairsOf(lower, upper);
  for (const std::size_t leaver : {0u, 100u, 249u}) {
    Stage less = lower;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(leaver));
    const auto after = PairsOf(less, upper);
    std::size_t gone = 0;
    for (const auto& pair : before) gone += after.contains(pair) ? 0 : 1;
    EXPECT_LE(gone, before.size() / 25);
  }
}

TEST(MeshTest, InASmallSwarmAllPairsAreNeighbours) {
  const Mesh small({StageOf("a", 32), StageOf("b", 32)}, {});
  EXPECT_EQ(small.After(1, WorkerId("a1000")), nullptr);
  const Mesh narrow({StageOf("a", 8), StageOf("b", 100)}, {});
  EXPECT_EQ(narrow.After(1, WorkerId("a1000")), nullptr);
  const Mesh large({StageOf("a", 33), StageOf("b", 32)}, {});
  ASSERT_NE(large.After(1, WorkerId("a1000")), nullptr);
  EXPECT_EQ(large.After(0, WorkerId("a1000")), nullptr) << "any worker begins a route";
}

/// A job in virtual time: each worker computes one piece of work after the other, forwards in a
/// third of its time and backwards in the rest, and the trainer draws a route whenever it can.
class Trained {
 public:
  Trained(const std::vector<Stage>& stages, const std::map<WorkerId, double>& seconds, Mesh mesh)
      : seconds_(seconds), router_(1, stages.size()) {
    for (std::size_t s = 1; s < stages.size(); ++s) {
      for (const WorkerId& worker : stages[s - 1]) {
        if (const auto* few = mesh.After(s, worker)) near_[worker] = {few->begin(), few->end()};
      }
    }
    router_.SetReplicas(stages);
    router_.SetMesh(std::move(mesh));
  }

  /// Counts the microbatches that are folded between `begin` and `end`.
  void Run(double begin, double end) {
    double now = 0;
    while (now < end) {
      while (auto route = router_.Draw()) {
        for (std::size_t s = 1; s < route->size(); ++s) {
          ++hops;
          off_mesh += near_.empty() || near_.at((*route)[s - 1]).contains((*route)[s]) ? 0 : 1;
        }
        tasks_.push_back({*std::move(route), 0, now});
        Enqueue(tasks_.size() - 1, now);
      }
      const Event event = events_.top();
      events_.pop();
      now = event.time;
      Finish(tasks_[event.task], event.task, now, now >= begin);
    }
  }

  std::map<WorkerId, double> done;
  double hops = 0, off_mesh = 0;

 private:
  struct Task {
    std::vector<WorkerId> route;
    std::size_t pieces;  // of work that are done: S forwards, then S backwards
    double drawn;
    bool IsForward() const { return pieces < route.size(); }
    const WorkerId& worker() const {
      return route[IsForward() ? pieces : 2 * route.size() - 1 - pieces];
    }
  };
  struct Event {
    double time;
    std::size_t task;
    bool operator<(const Event& other) const { return time > other.time; }
  };

  double SecondsOf(const Task& task) const {
    return seconds_.at(task.worker()) * (task.IsForward() ? 1 : 2) / 3;
  }
  void Enqueue(std::size_t number, double now) {
    const Task& task = tasks_[number];
    double& free_at = free_at_[task.worker()];
    free_at = std::max(free_at, now) + SecondsOf(task);
    events_.push({free_at, number});
  }
  void Finish(Task& task, std::size_t number, double now, bool counts) {
    const WorkerId& worker = task.worker();
    if (task.IsForward()) {
      router_.MeasureForward(worker, SecondsOf(task));
    } else {
      router_.MeasureBackward(worker, SecondsOf(task));
      router_.MeasureStay(worker, now - task.drawn);
      router_.Release(worker);
      if (counts) done[worker] += 1;
    }
    if (++task.pieces < 2 * task.route.size()) Enqueue(number, now);
  }

  const std::map<WorkerId, double>& seconds_;
  Router router_;
  std::map<WorkerId, std::set<WorkerId>> near_;
  std::vector<Task> tasks_;
  std::priority_queue<Event> events_;
  std::map<WorkerId, double> free_at_;
};

TEST(MeshTest, WorkersGetTheSharesThatTheyWouldGetIfAllPairsWereNeighbours) {
  std::vector<Stage> stages;
  std::map<WorkerId, double> seconds;
  Rng rng(7);
  for (const char* name : {"a", "b", "c", "d"}) {
    stages.push_back(StageOf(name, 250));
    for (const WorkerId& worker : stages.back()) seconds[worker] = 1 + 3 * rng.Uniform();
  }
  Trained all(stages, seconds, {}), sparse(stages, seconds, Mesh(stages, {}));
  all.Run(40, 200);
  sparse.Run(40, 200);
  double total_all = 0, total_sparse = 0, error = 0;
  for (const WorkerId& worker : stages.back()) {
    total_all += all.done[worker];
    total_sparse += sparse.done[worker];
  }
  for (const auto& [worker, count] : all.done) {
    error += std::abs(sparse.done[worker] / count - 1) / static_cast<double>(seconds.size());
  }
  EXPECT_GE(total_sparse, 0.98 * total_all);
  EXPECT_LE(error, 0.05) << "the mean of all workers";
}

TEST(MeshTest, LanesOfEqualWorkersStayInTheMesh) {
  std::vector<Stage> stages;
  std::map<WorkerId, double> seconds;
  for (const char* name : {"a", "b", "c"}) {
    stages.push_back(StageOf(name, 40 + static_cast<int>(stages.size())));
    for (const WorkerId& worker : stages.back()) seconds[worker] = 1;
  }
  Trained sparse(stages, seconds, Mesh(stages, {}));
  sparse.Run(20, 100);
  EXPECT_GT(sparse.hops, 1000);
  EXPECT_LE(sparse.off_mesh, 0.01 * sparse.hops);
}

TEST(MeshTest, ARouteStaysAmongNeighboursAsLongAsOneHasRoom) {
  const std::vector<Stage> stages{StageOf("a", 40), StageOf("b", 40)};
  const Mesh mesh(stages, {});
  Router router(1, 2, {.most = 1});
  router.SetReplicas(stages);
  router.SetMesh(mesh);
  const auto route = router.Draw();
  ASSERT_TRUE(route);
  const auto& near = *mesh.After(1, route->front());
  EXPECT_THAT(near, testing::Contains(route->back()));
  for (std::size_t i = 1; i < near.size(); ++i) {
    const auto hop = router.Draw({.begin = 1, .end = 2, .below = route->front()});
    EXPECT_THAT(near, testing::Contains(hop->front()));
  }
  const auto far = router.Draw({.begin = 1, .end = 2, .below = route->front()});
  ASSERT_TRUE(far) << "no neighbour has room, others have";
  EXPECT_THAT(near, testing::Not(testing::Contains(far->front())));
}

TEST(MeshTest, ANeighbourThatIsNotReachedIsPassedOver) {
  const std::vector<Stage> stages{StageOf("a", 40), StageOf("b", 40)};
  const Mesh mesh(stages, {});
  BrokenPairs broken;
  Router router(1, 2, {}, &broken);
  router.SetReplicas(stages);
  router.SetMesh(mesh);
  const WorkerId& worker = stages[0].front();
  Stage near = *mesh.After(1, worker);
  const WorkerId reached = near.back();
  near.pop_back();
  broken.Update(worker, near, Timepoint());
  for (int i = 0; i < 2; ++i) {
    const auto hop = router.Draw({.begin = 1, .end = 2, .below = worker});
    EXPECT_EQ(hop->front(), reached);
  }
}

}  // namespace
}  // namespace swarm::protocol
