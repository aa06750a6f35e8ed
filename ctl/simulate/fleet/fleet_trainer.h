// The trainer of a simulated fleet: the real Coordinator, and around it a shell as worker/trainer
// has it, with events of a queue for threads and a number for the newest checkpoint.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ctl/simulate/fleet/event_queue.h"
#include "ctl/simulate/fleet/fleet.h"
#include "ctl/simulate/fleet/fleet_result.h"
#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::ctl {

/// What the trainer asks of the world around it.
class TrainerHost {
 public:
  virtual ~TrainerHost() = default;
  virtual void SendFromTrainer(const protocol::WorkerId& to, protocol::Message message) = 0;
  /// The first frame of a microbatch, with its tokens.
  virtual void SendTokens(const protocol::WorkerId& to, protocol::Forward frame) = 0;
  virtual void OnEvent(const protocol::order::Event& event) = 0;
  virtual void OnStep(const protocol::CommitRecord& record) = 0;
  /// Steps from that version on do not count any more.
  virtual void OnRolledBack(protocol::Version version) = 0;
};

class FleetTrainer {
 public:
  /// Processor seconds of the calling thread, for what TrainerLoad measures. May be empty.
  using Stopwatch = std::function<double()>;

  FleetTrainer(const Fleet& fleet, std::uint64_t seed, EventQueue* queue, TrainerHost* host,
               Stopwatch stopwatch);

  /// Begins to look after deadlines.
  void Start();
  void OnMessage(const protocol::WorkerId& from, const protocol::Message& message);
  void OnBeat(const protocol::WorkerId& from, const protocol::Heartbeat& beat);
  void OnWorkerLost(const protocol::WorkerId& worker, const std::string& why, bool connected);

  const TrainerLoad& load() const { return load_; }
  protocol::JobCounts Counts() const { return coordinator_.Status().counts; }
  /// Why the job is over; empty: it goes on.
  const std::string& failure() const { return failure_; }

 private:
  /// Calls the coordinator, adds the seconds to `measured`, and carries out what it orders.
  template <typename Call>
  void Ask(double* measured, const Call& call);
  void Tick();
  void Do(protocol::order::Tell& o);
  void Do(protocol::order::Issue& o);
  void Do(protocol::order::Event& o) { host_.OnEvent(o); }
  void Do(protocol::order::StepDone& o);
  void Do(protocol::order::PublishCheckpoint& o);
  void Do(protocol::order::BeginGeneration& o);
  void Do(protocol::order::Finish& o);
  /// What only people read.
  template <typename O>
  void Do(O&) {}

  EventQueue& queue_;
  TrainerHost& host_;
  const Stopwatch stopwatch_;
  protocol::Coordinator coordinator_;
  TrainerLoad load_;
  protocol::Version checkpoint_;  ///< the newest; 0: the initial weights
  std::string failure_;
};

}  // namespace swarm::ctl
