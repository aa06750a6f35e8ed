// A trainer and its workers in virtual time: the real shells, on one thread, over a network with
// latencies, with toys for stages (toy_stage.h). Faults happen at times of their own.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "base/rng.h"
#include "base/virtual_time.h"
#include "tests/virtual/toy_stage.h"
#include "worker/net/loopback/loopback.h"
#include "worker/stage/worker.h"
#include "worker/trainer/trainer.h"

namespace swarm::tests {

struct VirtualOptions {
  std::uint64_t seed = 1;
  api::SwarmJob job;
  std::vector<std::uint64_t> replicas;
  std::string out_dir;
  protocol::BalancePolicy balance = protocol::BalancePolicy::kNone;
  ToyStage::Size size;
  std::size_t data_window_bytes = 64u << 20;  ///< on their way to one peer
};

class VirtualSwarm {
 public:
  explicit VirtualSwarm(const VirtualOptions& options);
  ~VirtualSwarm();

  /// Trains until the job is over, or `limit` has passed: then the outcome's reason says so.
  trainer::Outcome Run(Duration limit);

  std::uint64_t Draw(std::uint64_t bound) { return rng_.Below(bound); }
  Duration Draw(Duration least, Duration most) {
    return least + Duration(static_cast<Duration::rep>(
                       rng_.Below(static_cast<std::uint64_t>((most - least).count()) + 1)));
  }
  /// Something that happens to the swarm then.
  void After(Duration delay, std::function<void()> event);

  const std::vector<protocol::WorkerId>& names() const { return names_; }
  /// The process ends at once; another one of its name starts after `pause`.
  void Kill(const protocol::WorkerId& worker, Duration pause);
  void KillTrainer(Duration pause);
  /// The process is stopped, and continued after `length`.
  void Freeze(const protocol::WorkerId& name, Duration length);
  /// The connection breaks; for `length` there is none.
  void Part(const protocol::WorkerId& a, const protocol::WorkerId& b, Duration length);
  /// A notice of `grace`; another process of that name starts when this one has gone.
  void Leave(const protocol::WorkerId& worker, Duration grace);

  /// What has happened, with times: for a failed test.
  const std::vector<std::string>& story() const { return story_; }

 private:
  struct Process {
    std::uint64_t number = 0;  // in the virtual time
    std::uint64_t starts = 0;
    Duration latency{};
    std::unique_ptr<stage::Worker> worker;
  };
  void StartWorker(const protocol::WorkerId& name);
  void StartTrainer();
  /// Ends processes that want to, starts the next one, and looks again.
  void Tend();
  /// Ends the process when none of its loops is in the middle of its work.
  void EndWorker(const protocol::WorkerId& name, Duration pause);
  void EndTrainer(Duration pause);
  void Tell(const std::string& what);

  VirtualTime time_;
  const Timepoint begin_ = time_.now();
  const VirtualOptions options_;
  Rng rng_;
  net::LoopbackNetwork network_;
  std::vector<protocol::WorkerId> names_;
  std::map<protocol::WorkerId, Process> processes_;
  std::uint64_t term_ = 0;
  std::uint64_t trainer_number_ = 0;
  std::unique_ptr<trainer::Trainer> trainer_;
  std::optional<trainer::Outcome> outcome_;
  std::vector<std::string> story_;
  std::uint64_t numbers_ = 1;  // of processes; 0 is the world
  std::unique_ptr<Loop> world_;
};

}  // namespace swarm::tests
