// Carries out the decisions of the pure replica of a stage worker: runs its tasks, sends their
// outputs, has sums made and applied, writes checkpoints, and gives and takes parts of the state.
//
// Owned by the worker's control loop. Work on tensors goes to the compute thread, what only reads
// the state to a StateReader, and checkpoints to a loop of its own: a joiner must not wait for a
// slow upload.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "worker/model/layout/slice.h"
#include "worker/protocol/replica/replica.h"
#include "worker/stage/held_parts.h"
#include "worker/stage/join/donor.h"
#include "worker/stage/join/joining.h"
#include "worker/stage/join/kept_state.h"
#include "worker/stage/parcels.h"
#include "worker/stage/payloads.h"
#include "worker/stage/runner_parts.h"
#include "worker/stage/state_reader.h"

namespace swarm::stage {

/// It has more than 25 methods because it has one Do() for each action that a replica can order.
class ReplicaRunner {
 public:
  explicit ReplicaRunner(const RunnerParts& parts);
  /// Stops the loops of its own. Call it after `control` and `compute` have stopped.
  void Stop();
  /// After Stop: the state that was served, as it is now, in a copy. Null: none.
  std::shared_ptr<const KeptState> TakeState();

  /// Begins to serve. Requires that nothing is served.
  void Install(const api::SwarmJob& job, const protocol::Welcome& welcome,
               std::shared_ptr<model::Stage> stage, protocol::ReplicaOptions options);
  /// Drops the replica and all that belongs to it, except for what donors have pinned.
  void Forget();
  /// After Forget, before a load: waits on the compute thread until no stage of an earlier
  /// generation is held. There is memory for one stage only.
  void MakeRoom(protocol::Generation generation);
  /// Null: nothing is served.
  const protocol::Replica* replica() const { return replica_ ? &*replica_ : nullptr; }
  const StateReader& states() const { return states_; }
  /// The number of commits that the trainer has announced.
  protocol::Version decided() const { return decided_; }

  // Messages of the trainer and of other workers. All but OnFetch do nothing while nothing is
  // served.
  void OnControl(const protocol::Message& message);
  void OnForward(const protocol::WorkerId& from, const protocol::Forward& frame, Bytes payload);
  void OnBackward(const protocol::WorkerId& from, const protocol::Backward& frame, Bytes payload);
  void OnParcel(const protocol::WorkerId& from, const protocol::Parcel& parcel,
                const Bytes& payload);
  /// False: nothing here asked for it.
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  /// Answers at once, or when this worker has what is asked for.
  void OnFetch(const protocol::WorkerId& from, const protocol::Fetch& fetch);
  void OnTick(Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);
  /// A reduce has its result.
  void OnSum(ReducedSum sum);

 private:
  bool IsCurrent(protocol::Generation generation) const {
    return replica_ && replica_->generation() == generation;
  }
  void EnterPhase(chaos::WorkPhase phase, protocol::Step step) const {
    if (parts_.options.at_phase) parts_.options.at_phase(phase, step);
  }
  /// The trainer may compare the task's results with those of others. Which ones it does compare,
  /// no worker knows.
  bool IsAudited(const protocol::Forward& frame) const {
    return job_.spec.training.audit.fraction > 0 && frame.kind == protocol::TaskKind::kTrain;
  }
  /// A span of the replica's work, which has not begun.
  Span SpanOf(SpanKind kind, protocol::Step step) const {
    return {.kind = kind, .stage = welcome_.stage.value, .step = step.value};
  }
  Span SpanOf(SpanKind kind, const protocol::TaskKey& key) const;
  /// The span of a forward or backward that has its result. From any thread.
  void NoteTask(SpanKind kind, const protocol::TaskKey& key, const Computed& computed) const;
  /// Bytes of the step's sum of each group.
  std::map<protocol::GroupIndex, std::uint64_t> GroupBytes(protocol::Step step) const;
  /// Of a microbatch between forward and backward, estimated.
  std::uint64_t GraphBytesOf(const protocol::Forward& frame) const;
  std::vector<GradientFetch*> Fetches() const;
  std::string RegionOf(const protocol::WorkerId& id) const;
  /// What the trainer says concerns this worker beside its replica, which has not acted on it yet.
  void Follow(const protocol::Message& message);
  void OnGradients(const protocol::CommitRecord& record, Result<std::vector<Bytes>> gradients);
  void OnForward(const protocol::action::RunForward& task, const protocol::Forward& frame,
                 Result<model::ForwardResult> result, double seconds,
                 const protocol::TaskDigests& digests);
  void OnBackward(const protocol::TaskKey& key, Result<model::BackwardResult> result,
                  double seconds, const protocol::TaskDigests& digests);
  /// Of the own group's parts, none if the job's updates are not divided.
  std::size_t CountParts() const;
  /// The moments that a sum waited for are here.
  void OnMoments();
  void OnApplied(const protocol::CommitRecord& record, const Status& status);
  void KeepSum(ReducedSum sum);
  /// On the compute thread, which has applied the record: tells the replica the digest of the
  /// state, and those of its own parts, when they are known.
  void ReportState(const protocol::CommitRecord& record, const std::shared_ptr<model::Stage>& stage,
                   const std::vector<bool>& own = {});
  /// Copies the state, or what `read` reads of it, as it is after what was ordered so far. `done`
  /// is called on the thread of StateReader.
  void CopyState(std::function<StateReader::State(const model::Stage&)> read,
                 std::function<void(std::shared_ptr<const StateReader::Copy>)> done);

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
  void Do(const protocol::action::BeginAnew& a) { parts_.host.BeginAnew(a.request); }
  void Do(const protocol::action::Tell& a);
  void Do(const protocol::action::Refuse& a);
  void Do(const protocol::action::Rejoin& a) { parts_.host.Rejoin(a.reason); }

  const RunnerParts parts_;
  // Of the replica that is served.
  api::SwarmJob job_;
  protocol::Welcome welcome_;
  std::optional<protocol::Replica> replica_;
  model::Slice slice_;
  std::shared_ptr<model::Stage> stage_;  // entered by the compute thread alone
  protocol::Version decided_;
  Payloads payloads_;
  struct KeptSum {
    ReducedSum sum;
    MemoryCharge charge;
  };
  std::map<std::pair<protocol::Step, protocol::GroupIndex>, KeptSum> sums_;
  std::uint64_t step_bytes_ = 0;      // of a step's sums, at most
  std::uint64_t kept_steps_max_ = 0;  // of sums
  Parcels parcels_;
  struct StepFetch {
    std::unique_ptr<GradientFetch> fetch;
    MemoryCharge charge;
  };
  std::map<protocol::Step, StepFetch> gradient_fetches_;

  HeldParts held_;
  std::optional<ReducedSum> waiting_sum_;  // for moments

  StateReader states_;
  Donor donor_;
  // Last: it uses the members above.
  Loop storage_{"storage"};
};

}  // namespace swarm::stage
