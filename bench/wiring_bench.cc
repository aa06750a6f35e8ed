// Measures what a slow worker costs: microbatches per second of a stage with unequal replicas,
// under stochastic wiring (worker/protocol/routing/router.h) and under plain round robin, in
// virtual time with the in-flight limits of the real router. Deterministic; prints both beside the
// optimum.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "worker/protocol/routing/router.h"

namespace swarm::protocol {
namespace {

struct Worker {
  double seconds = 1;  // per microbatch
  double free_at = 0;
  std::uint64_t done = 0;
};

struct Event {
  double time;
  WorkerId worker;
  bool operator<(const Event& other) const { return time > other.time; }
};

using Draw = std::function<std::optional<WorkerId>(const std::map<WorkerId, std::uint64_t>&)>;

/// Microbatches done in `seconds`; calls `on_done` for each.
void Simulate(std::map<WorkerId, Worker>& workers, double seconds, const Draw& draw,
              const std::function<void(const WorkerId&, double)>& on_done) {
  std::priority_queue<Event> events;
  std::map<WorkerId, std::uint64_t> in_flight;
  double now = 0;
  while (now < seconds) {
    while (const auto id = draw(in_flight)) {
      Worker& worker = workers.at(*id);
      worker.free_at = std::max(worker.free_at, now) + worker.seconds;
      ++in_flight[*id];
      events.push({worker.free_at, *id});
    }
    const Event event = events.top();
    events.pop();
    now = event.time;
    --in_flight[event.worker];
    ++workers.at(event.worker).done;
    on_done(event.worker, workers.at(event.worker).seconds);
  }
}

void Report(const std::string& name, const std::map<WorkerId, Worker>& workers, double seconds) {
  double optimum = 0, total = 0;
  for (const auto& [id, worker] : workers) {
    optimum += 1 / worker.seconds;
    total += static_cast<double>(worker.done);
  }
  std::printf("%-12s %6.3f of the optimum; microbatches:", name.c_str(), total / seconds / optimum);
  for (const auto& [id, worker] : workers) {
    std::printf(" %s(x%g) %llu", id.value.c_str(), worker.seconds,
                static_cast<unsigned long long>(worker.done));
  }
  std::printf("\n");
}

void Compare(const std::vector<double>& seconds_each, double seconds) {
  std::map<WorkerId, Worker> wired, round;
  std::vector<WorkerId> ids;
  for (std::size_t i = 0; i < seconds_each.size(); ++i) {
    ids.push_back(WorkerId(std::string(1, static_cast<char>('a' + i))));
    wired[ids.back()].seconds = round[ids.back()].seconds = seconds_each[i];
  }
  Router router(1, 1);
  router.SetReplicas({ids});
  Simulate(
      wired, seconds,
      [&](const auto&) -> std::optional<WorkerId> {
        const auto route = router.Draw();
        return route ? std::optional(route->front()) : std::nullopt;
      },
      [&](const WorkerId& id, double cost) {
        router.MeasureForward(id, cost / 3);
        router.MeasureBackward(id, cost * 2 / 3);
        router.Release(id);
      });
  const std::uint64_t limit = router.limit(ids[0]);
  std::size_t next = 0;
  Simulate(
      round, seconds,
      [&](const std::map<WorkerId, std::uint64_t>& in_flight) -> std::optional<WorkerId> {
        const WorkerId& id = ids[next % ids.size()];
        const auto there = in_flight.find(id);
        if (there != in_flight.end() && there->second >= limit) return std::nullopt;
        ++next;
        return id;
      },
      [](const WorkerId&, double) {});
  Report("wiring", wired, seconds);
  Report("round robin", round, seconds);
}

}  // namespace
}  // namespace swarm::protocol

int main() {
  std::printf("Four replicas, one 3 times slower than the others:\n");
  swarm::protocol::Compare({1, 1, 1, 3}, 10000);
  std::printf("Five replicas of five kinds:\n");
  swarm::protocol::Compare({0.5, 1, 1.5, 2, 4}, 10000);
  return 0;
}
