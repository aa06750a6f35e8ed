// A stage worker: the shell around the pure Replica. It receives frames, has them executed, keeps
// what they put out, sums with the other replicas, applies commits, writes checkpoints, gives its
// state to those who join, and gets it from others when it joins itself.
//
// Threads: `control` owns the replica and everything here that has no other owner; `compute`
// (compute.h) enters libtorch; the loop of `reducing` owns the sums in progress; `storage` writes
// checkpoints, `pins` hashes state for joiners, which must not wait for a slow upload. The
// endpoint's threads only post.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "worker/chaos/holds.h"
#include "worker/model/stage.h"
#include "worker/net/endpoint.h"
#include "worker/net/outbox.h"
#include "worker/protocol/replica/replica.h"
#include "worker/stage/compute.h"
#include "worker/stage/join/donor.h"
#include "worker/stage/join/joining.h"
#include "worker/stage/load.h"
#include "worker/stage/metrics/worker_metrics.h"
#include "worker/stage/parcels.h"
#include "worker/stage/reduce/reducing.h"

namespace swarm::stage {

struct WorkerOptions {
  protocol::WorkerId id;
  protocol::Incarnation incarnation;
  std::string cluster = "local";
  std::string region = "local";  ///< for accounts of what crosses regions
  protocol::WorkerId trainer;
  std::vector<protocol::Address> trainer_addresses;
  int threads = 1;
  std::string device = "cpu";
  std::string numeric_class;  ///< of what this process computes; see model/numeric_class.h
  /// How long to go on without a trainer before giving up: the next one may take a while to come.
  Duration trainer_patience = std::chrono::seconds(60);
  std::uint64_t retained_bytes_max = 1ull << 30;  ///< see protocol::ReplicaOptions
  /// Called on the compute thread as a piece of work on a training step begins; may block it. Empty
  /// outside of experiments.
  std::function<void(chaos::WorkPhase, protocol::Step)> at_phase = {};
  /// Called on the compute thread. Another one outside of training: for experiments.
  CreateStage create_stage = model::Stage::Create;
};

class Worker : public net::EndpointHandler {
 public:
  /// Opens the endpoint and begins to look for the trainer. Errors: those of `make_endpoint`.
  static Result<std::unique_ptr<Worker>> Start(WorkerOptions options,
                                               const net::MakeEndpoint& make_endpoint);
  ~Worker() override;

  /// Blocks until the trainer dismisses this worker (ok), or it cannot go on. kAborted: its state
  /// is of no use any more; it may come back as a new incarnation. kDeadlineExceeded: there was no
  /// trainer for too long. kResourceExhausted: no memory.
  Status Wait();
  /// Ends Wait. From any thread.
  void Stop(const Status& why);
  /// This process will be ended when `grace` is over: hand over what it has and leave before. From
  /// any thread. Wait ends at the latest then.
  void Leave(Duration grace);

  /// For probes. Healthy: the worker's loop answers within `limit`. Ready: and the worker is in the
  /// roster, at the current state or one commit behind it. From any thread but the worker's own.
  Status CheckHealth(Duration limit);
  Status CheckReady(Duration limit);

  const WorkerMetrics& metrics() const { return metrics_; }
  double busy_seconds() const { return compute_.busy_seconds(); }
  const protocol::WorkerId& id() const { return options_.id; }
  const std::string& region() const { return options_.region; }
  net::Traffic traffic() const { return endpoint_->traffic(); }

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override;
  void OnPeerUp(const net::WorkerId& peer) override;
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override;

 private:
  explicit Worker(WorkerOptions options);

  // worker.cc, on the control loop: what comes, and membership
  void Handle(const net::WorkerId& from, net::Envelope envelope);
  void OnControl(const protocol::Message& message);
  void On(const protocol::Welcome& welcome);
  void On(const net::WorkerId& from, const protocol::Forward& frame, Bytes payload);
  void On(const net::WorkerId& from, const protocol::Backward& frame, Bytes payload);
  void On(const net::WorkerId& from, const protocol::Parcel& parcel, Bytes payload);
  void On(const net::WorkerId& from, const protocol::Fetched& fetched, Bytes payload);
  void SayHello();
  void Beat();
  void BeginLoading(const protocol::Welcome& welcome);
  void LoadFrom(const protocol::Welcome& welcome, std::optional<checkpoint::TensorLookup> tensors);
  void StageIsReady(Result<std::unique_ptr<model::Stage>> stage, const Digest& state,
                    std::uint64_t loading);
  void ForgetEverything();
  void ConnectTo(const std::vector<protocol::Member>& members);
  void Drop(const protocol::WorkerId& peer);
  /// In the roster; null: it is not.
  const protocol::Member* FindMember(const protocol::WorkerId& id) const;
  /// Of a member of the roster; empty for others.
  std::string RegionOf(const protocol::WorkerId& peer) const;
  void Send(const protocol::WorkerId& to, net::Lane lane, protocol::Message message, Bytes payload);
  void Tell(protocol::Message message);
  void FlushProgress();
  void GiveUp(const Status& why);
  void MissTrainer(Timepoint now);
  Status Readiness() const;
  Status Ask(Duration limit, std::function<Status()> question);
  bool IsCurrent(protocol::Generation generation) const {
    return replica_ && replica_->generation() == generation;
  }

  // worker_actions.cc, on the control loop: what the replica decides
  void Carry(protocol::Actions actions);
  void Do(const protocol::action::RunForward& a);
  void Do(const protocol::action::RunBackward& a);
  void Do(const protocol::action::SendForward& a);
  void Do(const protocol::action::SendBackward& a);
  void Do(const protocol::action::FoldGradients& a);
  void Do(const protocol::action::DropTask& a);
  void Do(const protocol::action::ReleaseRetained& a);
  void Do(const protocol::action::StartReduce& a);
  void Do(const protocol::action::StopReduces& a);
  void Do(const protocol::action::FetchGradients& a);
  void Do(const protocol::action::ApplyCommit& a);
  void Do(const protocol::action::ReleaseStep& a);
  void Do(const protocol::action::ReleaseSums& a);
  void Do(const protocol::action::ClearStep& a);
  void Do(const protocol::action::TakeCheckpoint& a);
  void Do(const protocol::action::PinCopy& a);
  void Do(const protocol::action::UnpinCopy& a);
  void Do(const protocol::action::SendParcel& a);
  void Do(const protocol::action::AdoptParcel& a);
  void Do(const protocol::action::DropParcel& a);
  void Do(const protocol::action::BeginAnew& a);
  void Do(const protocol::action::Tell& a);
  void Do(const protocol::action::Refuse& a);
  void Do(const protocol::action::Rejoin& a);
  void EnterPhase(chaos::WorkPhase phase, protocol::Step step) const {
    if (options_.at_phase) options_.at_phase(phase, step);
  }
  void OnSum(ReducedSum sum);
  void OnGradients(const protocol::CommitRecord& record, Result<std::vector<Bytes>> gradients);
  std::vector<protocol::WorkerId> DonorsOfGradients() const;

  const WorkerOptions options_;
  WorkerMetrics metrics_;
  std::promise<Status> ended_;
  std::atomic<bool> has_ended_{false};

  // Control loop.
  std::unique_ptr<net::Outbox> outbox_;
  bool trainer_up_ = false;
  Timepoint trainer_lost_;
  Timepoint missed_;           // when it was last said that there is no trainer
  protocol::Version decided_;  // commits that were heard of
  std::optional<Timepoint> leave_by_;
  protocol::Term term_;  // promised, also while there is no replica
  std::optional<protocol::Replica> replica_;
  std::optional<api::SwarmJob> job_;
  protocol::Welcome welcome_;
  std::uint64_t loadings_ = 0;  // loads begun: a result of an earlier one is dropped
  std::vector<protocol::Message> early_control_;  // for the replica that is not there yet
  std::shared_ptr<model::Stage> stage_;           // entered by the compute thread alone
  protocol::Roster roster_;
  std::set<protocol::WorkerId> dropped_;  // evicted, and not back
  protocol::Progress progress_;
  // Payloads, by task: x_s until its forward; g_{s+1} until its backward; x_{s+1} and g_s as long
  // as the replica retains them.
  struct Input {
    protocol::Forward frame;
    Bytes boundary;
  };
  std::map<protocol::TaskKey, Input> inputs_;
  std::map<protocol::TaskKey, Bytes> gradients_, outputs_, returns_;
  std::map<std::pair<protocol::Step, protocol::GroupIndex>, ReducedSum> sums_;
  Donor donor_;
  Parcels parcels_;
  std::unique_ptr<StateFetch> state_fetch_;
  std::map<protocol::Step, std::unique_ptr<GradientFetch>> gradient_fetches_;

  // Threads last: they use what stands above.
  Loop storage_{"storage"};
  Loop pins_{"pins"};
  Reducing reducing_;
  Compute compute_;
  /// Reports wait for each other only as long as there is something else to do.
  Loop control_{"control", [this] { FlushProgress(); }};
  std::unique_ptr<net::Endpoint> endpoint_;
};

}  // namespace swarm::stage
