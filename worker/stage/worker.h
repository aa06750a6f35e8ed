// A stage worker: the shell around the pure Replica. It finds the trainer, receives frames and
// passes them to the parts that handle them, keeps the connections that the roster asks for, and
// answers probes. StateLoader gets the state that it serves, ReplicaRunner carries out the
// decisions of the replica.
//
// Threads: `control` owns the replica and everything here that has no other owner; `compute`
// (compute.h) enters libtorch; the loop of `reducing` owns the sums in progress; `storage` writes
// checkpoints; `state` reads the state beside the compute. The endpoint's threads only post.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "worker/net/detour/detour_endpoint.h"
#include "worker/net/outbox.h"
#include "worker/protocol/reachability/link_reports.h"
#include "worker/protocol/reachability/neighbours.h"
#include "worker/stage/memory/account.h"
#include "worker/stage/peers.h"
#include "worker/stage/replica_runner.h"
#include "worker/stage/state_loader.h"
#include "worker/stage/trainer_contact.h"
#include "worker/stage/worker_options.h"

namespace swarm::stage {

/// It has more than 25 methods because it implements the interfaces of the endpoint, the loader and
/// the runner (14 methods), and more than 15 fields because it owns the parts that they connect.
class Worker : public net::EndpointHandler, private LoaderHost, private RunnerHost {
 public:
  /// Opens the endpoint and begins to look for the trainer. `kept`: the state of the incarnation
  /// before, if any. Errors: those of `make_endpoint`.
  static Result<std::unique_ptr<Worker>> Start(WorkerOptions options,
                                               const net::MakeEndpoint& make_endpoint,
                                               std::shared_ptr<const KeptState> kept = nullptr);
  ~Worker() override;

  /// Blocks until the trainer dismisses this worker (ok), or this worker cannot go on. Errors:
  /// kAborted (its state is of no use any more; it may come back as a new incarnation),
  /// kDeadlineExceeded (there was no trainer for too long), kResourceExhausted (no memory).
  Status Wait() { return ended().get(); }
  /// Ready when Wait would return. From any thread.
  const std::shared_future<Status>& ended() const { return future_; }
  /// Ends Wait. From any thread.
  void Stop(const Status& why);
  /// When Wait has returned kAborted: stops all work, and takes out the state that was served, for
  /// the next incarnation. Null: none was. Needs memory for a copy of the state.
  std::shared_ptr<const KeptState> TakeState();
  /// This process ends after `grace`: the worker hands its sums over and leaves before. Wait ends
  /// then at the latest. From any thread.
  void Leave(Duration grace);

  /// For probes. Healthy: the worker's loop answers within `limit`. Ready: and the worker is in the
  /// roster, at the current state or one commit behind it. From any thread but the worker's own.
  Status CheckHealth(Duration limit);
  Status CheckReady(Duration limit);

  const WorkerMetrics& metrics() const { return metrics_; }
  const MemoryAccount& memory() const { return memory_; }
  double busy_seconds() const { return compute_.busy_seconds(); }
  const protocol::WorkerId& id() const { return options_.id; }
  const std::string& region() const { return options_.region; }
  net::Traffic traffic() const { return endpoint_->traffic(); }

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override;
  void OnPeerUp(const net::WorkerId& peer) override;
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override;

 private:
  Worker(WorkerOptions options, std::shared_ptr<const KeptState> kept);
  /// After it, nothing runs but the endpoint.
  void StopLoops();

  // LoaderHost
  void SendFetch(const protocol::WorkerId& to, const protocol::Fetch& fetch) override;
  void Meet(const protocol::Member& donor) override;
  void OnLoaded(std::unique_ptr<model::Stage> stage, const Digest& digest) override;
  void OnLoadFailed(const Status& why) override { GiveUp(why); }
  void OnCopyFailed(const Status& why) override;

  // RunnerHost
  void Send(const protocol::WorkerId& to, net::Lane lane, protocol::Message message,
            Bytes payload) override;
  void Tell(protocol::Message message) override;
  void Report(const protocol::Progress& progress) override;
  void OnRoster(const protocol::Roster& roster) override;
  void OnRosterChange(const protocol::RosterChange& change) override;
  void BeginAnew(const protocol::Rollback& request) override;
  void Rejoin(const std::string& reason) override;
  void GiveUp(const Status& why) override;

  // On the control loop.
  void Handle(const net::WorkerId& from, net::Envelope envelope);
  void HandleControl(const protocol::Message& message);
  void HandleWelcome(const protocol::Welcome& welcome);
  void SayHello();
  /// Does what is done several times a second.
  void Tick();
  void Beat(Timepoint now);
  std::vector<protocol::Heartbeat::Exchanged> ExchangedWithRegions() const;
  void NoteCopied(const protocol::WorkerId& from, std::uint64_t bytes);
  void BeginLoading(const protocol::Welcome& welcome);
  /// Drops all that belongs to the replica that is served or loaded.
  void ForgetEverything();
  /// To the regions of its peers, in seconds: the shortest that it has measured to a worker there.
  std::map<std::string, double> RoundTrips() const;
  void Evict(const protocol::WorkerId& peer);
  /// These members may be reached from now on: connections to neighbours are kept open, others are
  /// made when there is something to send.
  void Meet(const std::vector<protocol::Member>& members);
  /// Dials a worker that copies this one's state and cannot dial it.
  void HandleMeet(const protocol::Meet& meet);
  std::vector<protocol::Address> WaysTo(const protocol::Member& peer) const;
  /// Sends the beats that are due, and reports the neighbours that are not heard.
  void TendNeighbours(Timepoint now);
  void HandleDetours(const protocol::Detours& detours);
  /// Sends on what two others, which do not reach each other, exchange.
  void Relay(const net::WorkerId& from, protocol::Relayed relayed, Bytes payload);
  void FlushProgress();
  std::array<net::Outbox*, 3> Outboxes() const {
    return {outbox_.get(), relays_.get(), parcels_.get()};
  }
  /// Divides the budget, now that the state that is served is known.
  void SetBudget(const model::Stage& stage);
  Status Readiness() const;
  /// Asks `question` on the control loop.
  Status Ask(Duration limit, std::function<Status()> question);

  const WorkerOptions options_;
  WorkerMetrics metrics_;
  MemoryAccount memory_;
  std::promise<Status> ended_;
  const std::shared_future<Status> future_ = ended_.get_future().share();
  std::atomic<bool> has_ended_{false};

  std::mutex heard_mutex_;
  std::map<protocol::WorkerId, Timepoint> heard_;  // guarded: the last beats since the last tick

  // Control loop.
  std::unique_ptr<net::Outbox> outbox_;
  std::unique_ptr<net::Outbox> relays_;   // of messages between others
  std::unique_ptr<net::Outbox> parcels_;  // of parcels, which share the memory of the sums
  TrainerContact trainer_;
  Peers peers_;
  protocol::Neighbours neighbours_;
  protocol::LinkReports link_reports_;
  Timepoint next_beat_{};
  std::optional<Timepoint> leave_by_;
  protocol::Term term_;                    // promised; it outlives the replica
  std::shared_ptr<const KeptState> kept_;  // offered until it has a part in the job
  std::optional<api::SwarmJob> job_;
  protocol::Welcome welcome_;                     // of the replica that is served, or loaded
  std::vector<protocol::Message> early_control_;  // for the replica that is not there yet
  protocol::Progress progress_;                   // not sent yet
  std::uint64_t copied_bytes_ = 0;                // of pieces that it has fetched
  StateLoader loader_;
  ReplicaRunner runner_;

  // Threads last: they use the members above.
  Reducing reducing_;
  Compute compute_;
  /// Reports wait for each other only as long as there is something else to do.
  Loop control_{"control", [this] { FlushProgress(); }};
  std::unique_ptr<net::DetourEndpoint> endpoint_;
};

}  // namespace swarm::stage
