// A stage worker: the shell around the pure Replica. It receives frames, has them executed, moves
// payloads, sums with the other replicas, applies commits and writes checkpoints.
//
// Threads: `control` owns the replica and everything here that has no other owner; `compute`
// (compute.h) enters libtorch; `reduce` owns the sums in progress; `storage` writes checkpoints.
// The endpoint's threads only post.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "worker/model/stage.h"
#include "worker/net/endpoint.h"
#include "worker/net/outbox.h"
#include "worker/protocol/replica.h"
#include "worker/stage/compute.h"
#include "worker/stage/counters.h"
#include "worker/stage/reduce.h"

namespace swarm::stage {

struct WorkerOptions {
  protocol::WorkerId id;
  protocol::Incarnation incarnation;
  std::string cluster = "local";
  protocol::WorkerId trainer;
  std::vector<protocol::Address> trainer_addresses;
  int threads = 1;
  std::string device = "cpu";
  /// How long to go on without a trainer before giving up.
  Duration trainer_patience = std::chrono::seconds(60);
};

/// Opens the worker's endpoint with the worker as its handler.
using MakeEndpoint =
    std::function<Result<std::unique_ptr<net::Endpoint>>(net::EndpointHandler* handler)>;

class Worker : public net::EndpointHandler {
 public:
  /// Opens the endpoint and begins to look for the trainer. Errors: those of `make_endpoint`.
  static Result<std::unique_ptr<Worker>> Start(WorkerOptions options,
                                               const MakeEndpoint& make_endpoint);
  ~Worker() override;

  /// Blocks until the trainer dismisses this worker (ok), or it cannot go on; kAborted: a trainer
  /// of a new term is there, for which this worker must begin anew.
  Status Wait();
  /// Ends Wait. From any thread.
  void Stop(const Status& why);

  const WorkerCounters& counters() const { return counters_; }
  double busy_seconds() const { return compute_.busy_seconds(); }
  const protocol::WorkerId& id() const { return options_.id; }
  net::Traffic traffic() const { return endpoint_->traffic(); }

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override;
  void OnPeerUp(const net::WorkerId& peer) override;
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override;

 private:
  explicit Worker(WorkerOptions options);

  // Below: on the control loop only.
  struct Inputs {
    protocol::Forward frame;
    Bytes boundary;  // x_s, then g_{s+1}
    Bytes output;    // x_{s+1}, then g_s
  };
  void Handle(const net::WorkerId& from, net::Envelope envelope);
  void On(const net::WorkerId& from, const protocol::Welcome& welcome);
  void On(const net::WorkerId& from, const protocol::Roster& roster);
  void On(const net::WorkerId& from, const protocol::Forward& frame, Bytes payload);
  void On(const net::WorkerId& from, const protocol::Backward& frame, Bytes payload);
  void SayHello();
  void Beat();
  void StageIsReady(Result<std::unique_ptr<model::Stage>> stage, const protocol::Welcome& welcome);

  void Carry(protocol::Actions actions);
  void Do(const protocol::action::RunForward& a);
  void Do(const protocol::action::RunBackward& a);
  void Do(const protocol::action::SendForward& a);
  void Do(const protocol::action::SendBackward& a);
  void Do(const protocol::action::FoldGradients& a);
  void Do(const protocol::action::DropTask& a);
  void Do(const protocol::action::StartReduce& a);
  void Do(const protocol::action::ApplyCommit& a);
  void Do(const protocol::action::ReleaseStep& a);
  void Do(const protocol::action::TakeCheckpoint& a);
  void Do(const protocol::action::Tell& a);
  void Do(const protocol::action::Refuse& a);
  void Do(const protocol::action::Fail& a);
  void Send(const protocol::WorkerId& to, net::Lane lane, protocol::Message message, Bytes payload);
  void FlushProgress();
  void ScheduleFlush();
  void GiveUp(const std::string& reason);

  // Below: on the reduce loop only.
  struct ReduceKey {
    protocol::Step step;
    protocol::GroupIndex group;
    protocol::Attempt k;
    auto operator<=>(const ReduceKey&) const = default;
  };
  struct EarlyChunk {
    protocol::WorkerId from;
    protocol::ReduceChunk chunk;
    Bytes payload;
  };
  void BeginReduce(const protocol::Reduce& reduce, model::GradientSum own);
  void OnChunk(const protocol::WorkerId& from, const protocol::ReduceChunk& chunk, Bytes payload);
  void FinishIfDone(const ReduceKey& key);
  void FlushChunks();

  const WorkerOptions options_;
  WorkerCounters counters_;
  std::promise<Status> ended_;
  std::atomic<bool> has_ended_{false};

  // Control loop.
  std::unique_ptr<net::Outbox> outbox_;
  bool trainer_up_ = false;
  bool flush_scheduled_ = false;
  Timepoint trainer_lost_;
  std::optional<protocol::Replica> replica_;
  std::optional<api::SwarmJob> job_;
  protocol::Welcome welcome_;
  std::map<protocol::TaskKey, Inputs> inputs_;
  protocol::Progress progress_;
  /// Finished sums, by step and group; owned here until the step is released.
  std::map<std::pair<protocol::Step, protocol::GroupIndex>, std::shared_ptr<GroupReduce>> sums_;

  // Reduce loop.
  std::unique_ptr<net::Outbox> chunk_outbox_;
  SumBuffers buffers_;
  bool chunk_flush_scheduled_ = false;
  std::map<ReduceKey, std::shared_ptr<GroupReduce>> reduces_;
  std::map<ReduceKey, std::vector<EarlyChunk>> early_chunks_;
  std::uint64_t early_bytes_ = 0;
  protocol::Step reduce_floor_;  // steps below are over

  // Compute thread; the pointer is set once before any task exists.
  std::unique_ptr<model::Stage> stage_;

  // Threads last: they use what stands above.
  Loop storage_{"storage"};
  Loop reduce_{"reduce"};
  Compute compute_;
  /// Reports wait for each other only as long as there is something else to do.
  Loop control_{"control", [this] { FlushProgress(); }};
  std::unique_ptr<net::Endpoint> endpoint_;
};

}  // namespace swarm::stage
