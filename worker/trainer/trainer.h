// The trainer: the shell around the pure Coordinator. It reads data, sends what the coordinator
// orders, writes the run's log, publishes checkpoints, and tells observers how the job is.
//
// Threads: `control` owns everything; `storage` publishes checkpoints and keeps steps beside them;
// the endpoint's threads only post.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "worker/net/endpoint.h"
#include "worker/net/outbox.h"
#include "worker/protocol/coordinator/coordinator.h"
#include "worker/protocol/liveness/detector.h"
#include "worker/trainer/checkpoints/beginning.h"
#include "worker/trainer/checkpoints/fence.h"
#include "worker/trainer/job_data.h"
#include "worker/trainer/log/run_log.h"
#include "worker/trainer/log/step_archive.h"
#include "worker/trainer/observer/observer.h"
#include "worker/trainer/trainer_metrics.h"

namespace swarm::trainer {

struct TrainerOptions {
  api::SwarmJob job;
  std::string job_uid;
  std::vector<std::uint64_t> replicas;  ///< wanted, per stage
  std::string out_dir;                  ///< steps.jsonl, events.jsonl
  protocol::Term term{1};  ///< above 1: workers may hold the state of a trainer before this one
  protocol::BalancePolicy balance = protocol::BalancePolicy::kNone;  ///< who moves between stages
  bool resume = false;          ///< go on from the newest checkpoint, if there is one
  bool keep_workers = false;    ///< when stopped early: they wait for the next trainer
  bool trace_progress = false;  ///< write progress.jsonl: for measurements
  /// How long to ask for a bucket that does not answer before Start fails.
  Duration storage_patience = std::chrono::minutes(10);
  std::stop_token cancelled = {};  ///< ends that wait, with kCancelled
};

/// How a job ended.
struct Outcome {
  bool succeeded = false;
  bool stopped_early = false;
  bool superseded = false;  ///< there is a later trainer; neither a success nor a failure
  std::string reason;
  protocol::FailureClass failure_class{};  ///< of a failure
  bool resumable = false;                  ///< there is a checkpoint to go on from
  bool overdue = false;  ///< stopped without the checkpoint that should have been the last
};

class Trainer : public net::EndpointHandler {
 public:
  /// Opens data and storage, finds the checkpoint to begin with, and waits for workers. Everything
  /// that is wrong with the job is found here, before a worker is needed. Errors name what and
  /// where.
  static Result<std::unique_ptr<Trainer>> Start(TrainerOptions options,
                                                const net::MakeEndpoint& make_endpoint);
  ~Trainer() override;

  /// Blocks until the job is over and all have been told.
  Outcome Wait();
  /// Finish the steps that have begun, write a checkpoint, end; after `limit` end without. From any
  /// thread.
  void RequestStop(Duration limit = std::chrono::hours(24));

  /// Whether the checkpoint to go on from is that of the last step: no worker is needed.
  bool complete() const { return first_version_.value >= options_.job.spec.training.maxSteps; }
  std::vector<protocol::Address> addresses() const { return endpoint_->addresses(); }
  const TrainerMetrics& metrics() const { return metrics_; }
  net::Traffic traffic() const { return endpoint_->traffic(); }
  /// The job as its user wants to see it; nothing if the trainer has no time to say so within
  /// `limit`. From any thread but the trainer's own.
  std::optional<protocol::JobStatus> StatusWithin(Duration limit);
  /// For probes. Healthy: the trainer's loop answers within `limit`. Ready: and it serves the job.
  /// From any thread but the trainer's own.
  Status CheckHealth(Duration limit);
  Status CheckReady(Duration limit);

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override;
  void OnPeerUp(const net::WorkerId& peer) override;
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override;

 private:
  /// What the last two heartbeats of a worker said.
  struct Pulse {
    Timepoint time;
    protocol::Heartbeat beat;
    double utilization = 0;
    double bytes_per_second = 0;
  };

  explicit Trainer(TrainerOptions options);
  Status Prepare();
  Result<Beginning> PrepareStorage();
  Status FenceCheckpoints();
  void RestoreSteps(const Beginning& beginning);
  void Handle(const net::WorkerId& from, net::Envelope envelope);
  void Carry(protocol::Orders orders);
  void Do(protocol::order::Tell& o);
  void Do(protocol::order::Issue& o);
  void Do(const protocol::order::StepDone& o);
  void Do(const protocol::order::Validated& o);
  void Do(const protocol::order::PublishCheckpoint& o);
  void Do(const protocol::order::Event& o);
  void Do(const protocol::order::BeginGeneration& o);
  void Do(const protocol::order::Forget& o);
  void Do(const protocol::order::Finish& o);
  void OnBeat(const net::WorkerId& from, const protocol::Heartbeat& beat);
  void Tick();
  protocol::JobStatus Describe() const;
  void Send(const net::WorkerId& to, net::Lane lane, protocol::Message message);
  void ArchiveSteps();
  void ArchiveNowAndThen();
  void OnLaterTrainer(const Status& why);
  void LookForLaterTrainer(Timepoint now);
  void EndIfAllHaveHeard();
  void End();

  TrainerOptions options_;
  protocol::Version first_version_;  // of the checkpoint to go on from; 0: none
  TrainerMetrics metrics_;
  std::promise<Outcome> ended_;

  // Control loop.
  std::unique_ptr<JobData> data_;
  std::unique_ptr<RunLog> log_;
  std::optional<StepArchive> archive_;  // none where the checkpoints lie beside steps.jsonl
  int archiving_ = 0;                   // pieces on their way
  Timepoint archived_;
  Timepoint looked_;  // for a later trainer
  bool looking_ = false;
  std::unique_ptr<protocol::Coordinator> coordinator_;
  std::unique_ptr<net::Outbox> outbox_;
  std::map<net::WorkerId, Pulse> pulses_;
  protocol::FailureDetector detector_;
  std::set<net::WorkerId> observers_;  // who has asked, and is still connected
  std::optional<Outcome> outcome_;
  bool ended_already_ = false;
  bool overdue_ = false;  // a stop has taken too long

  // Of the storage loop, once the trainer is complete.
  std::unique_ptr<Fence> checkpoint_fence_;  // none yet: the storage did not answer

  Loop storage_{"storage"};
  Loop control_{"control"};
  std::unique_ptr<net::Endpoint> endpoint_;
};

}  // namespace swarm::trainer
