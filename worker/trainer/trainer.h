// The trainer: the shell around the pure Coordinator. It reads data, carries out the coordinator's
// orders, writes the run's log, publishes checkpoints, and tells observers the job's status.
//
// Threads: `control` owns everything; `storage` publishes checkpoints and keeps steps beside them;
// the threads of the endpoint and of the data's reader only post.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/loop.h"
#include "worker/net/endpoint.h"
#include "worker/net/outbox.h"
#include "worker/page/state/lanes.h"
#include "worker/page/state/view.h"
#include "worker/protocol/coordinator/coordinator.h"
#include "worker/trainer/checkpoints/copier.h"
#include "worker/trainer/ending.h"
#include "worker/trainer/log/step_writer.h"
#include "worker/trainer/log/tensorboard.h"
#include "worker/trainer/observer/observer.h"
#include "worker/trainer/preparation.h"
#include "worker/trainer/pulses.h"
#include "worker/trainer/traffic_count.h"
#include "worker/trainer/trainer_metrics.h"
#include "worker/trainer/trainer_options.h"

namespace swarm::trainer {

/// It has more than 25 methods because it has one Do() for each order of the coordinator, and more
/// than 15 fields because it owns the parts that it connects.
class Trainer : public net::EndpointHandler {
 public:
  /// Opens data and storage, finds the checkpoint to begin with, and waits for workers. It finds
  /// everything that is wrong with the job before a worker is needed. Errors name the problem and
  /// its place.
  static Result<std::unique_ptr<Trainer>> Start(TrainerOptions options,
                                                const net::MakeEndpoint& make_endpoint);
  ~Trainer() override;

  /// Blocks until the job is over and all workers and observers have been told.
  Outcome Wait() { return ended().get(); }
  /// Ready when Wait would return. From any thread.
  const std::shared_future<Outcome>& ended() const { return ending_.ended(); }
  /// Finish the steps that have begun, write a checkpoint, end; after `limit` end without. From any
  /// thread.
  void RequestStop(Duration limit = std::chrono::hours(24));

  /// Whether the checkpoint to go on from is that of the last step, so that no worker is needed.
  bool complete() const { return first_version_.value >= options_.job.spec.training.maxSteps; }
  std::vector<protocol::Address> addresses() const { return endpoint_->addresses(); }
  const TrainerMetrics& metrics() const { return metrics_; }
  data::SequenceReader::Counts data_counts() const { return data_->counts(); }
  net::Traffic traffic() const { return endpoint_->traffic(); }
  /// The job as its user wants to see it; nothing if the trainer is too busy to answer within
  /// `limit`. From any thread but the trainer's own.
  std::optional<protocol::JobStatus> StatusWithin(Duration limit);
  /// The same with what a page shows besides.
  std::optional<page::JobView> ViewWithin(Duration limit);
  /// What workers did since a slot of their lanes (page::Lanes).
  std::optional<page::LanesView> LanesWithin(Duration limit, std::int64_t after);
  /// For probes. Healthy: the trainer's loop answers within `limit`. Ready: and it serves the job.
  /// From any thread but the trainer's own.
  Status CheckHealth(Duration limit);
  Status CheckReady(Duration limit);

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override;
  void OnPeerUp(const net::WorkerId& peer) override;
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override;

 private:
  Trainer(TrainerOptions options, Preparation preparation);
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
  void Do(const protocol::order::Retire& o);
  void Do(const protocol::order::Finish& o);
  /// What the reader has read for an order to issue.
  void OnTokens(std::uint64_t read, const Result<std::vector<std::int32_t>>& ids);
  /// The frames that wait for their tokens are for a worker that is gone.
  void ForgetReads(const net::WorkerId& worker);
  void Tick();
  /// Tells the coordinator of all workers that are lost, at once.
  void LoseWorkers();
  protocol::JobStatus Describe() const;
  page::JobView View() const;
  /// What `ask` returns on the control loop.
  template <typename Answer>
  std::optional<Answer> Within(Duration limit, std::function<Answer()> ask);
  void Send(const net::WorkerId& to, net::Lane lane, protocol::Message message);
  void OnLaterTrainer(const Status& why);
  void LookForLaterTrainer(Timepoint now);
  void EndIfAllHaveHeard();
  /// Begins to copy the newest checkpoint to the regions that have a storage of their own.
  void CopyCheckpoints();
  void OnCopied(const CopyReport& report);
  /// Before the end: waits for the copies, or not if a stop has taken too long.
  void AwaitCopies();

  const TrainerOptions options_;
  const protocol::Version first_version_;  // of the checkpoint to go on from; 0: none
  TrainerMetrics metrics_;
  Ending ending_;

  // Control loop.
  std::unique_ptr<JobData> data_;
  std::map<std::uint64_t, protocol::Forward> reads_;  // frames that wait for their tokens
  std::uint64_t next_read_ = 0;
  const std::unique_ptr<RunLog> log_;
  std::optional<StepWriter> step_writer_;    // none where the checkpoints are beside steps.jsonl
  std::optional<TensorBoardWriter> curves_;  // if the job wants them
  Timepoint looked_;                         // when it last looked for a later trainer
  bool looking_ = false;
  const std::unique_ptr<protocol::Coordinator> coordinator_;
  std::unique_ptr<net::Outbox> outbox_;
  Pulses pulses_;
  TrafficCount traffic_;
  page::Lanes lanes_;
  std::vector<protocol::Departure> lost_;  // the coordinator has not heard of them
  std::set<net::WorkerId> observers_;      // that have asked, and are still connected

  const std::unique_ptr<CheckpointFence> fence_;  // of the storage loop

  std::uint64_t copying_ = 0;   // copiers for which the end waits
  bool farewell_over_ = false;  // the time for workers to hear of the end

  Loop storage_{"storage"};
  Loop control_{"control"};
  std::vector<std::unique_ptr<Copier>> copiers_;  // post to control_
  std::unique_ptr<net::Endpoint> endpoint_;
};

}  // namespace swarm::trainer
