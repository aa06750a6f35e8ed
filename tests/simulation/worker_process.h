// A stage worker as worker/stage has it, with numbers for tensors: the shell around the real
// Replica. It holds payloads by key, computes one thing at a time, sums with other replicas, keeps
// and applies versions, copies state as a joiner or for joiners.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tests/simulation/simulation.h"
#include "worker/protocol/reachability/link_reports.h"
#include "worker/protocol/reachability/neighbours.h"
#include "worker/protocol/replica/replica.h"

namespace swarm::simulation {

/// More than 25 methods and 15 fields: a whole worker process, with a method for each action and
/// message.
class WorkerProcess : public Process {
 public:
  /// `kept`: what it has kept of its stage, from before the trainer has sent it away.
  WorkerProcess(Simulation* simulation, WorkerId id, protocol::Incarnation incarnation,
                double slowness, std::optional<KeptState> kept);

  /// Begins to look for the trainer. `pid` is this process.
  void Start(Pid pid);
  /// There is a newer trainer, or this is the first.
  void FollowTrainer(const WorkerId& trainer);
  /// It will be ended at `deadline` and says so.
  void BeginLeaving(Timepoint deadline);
  /// The process ends in the middle of the next thing that has several parts.
  void CrashSoon() { crash_soon_ = true; }

  /// Its device never finishes its work from now on; the process lives.
  void HangDevice() { hangs_ = true; }
  /// The next digest of its state that it reports is not that of its state.
  void FlipDigest() { flips_digest_ = true; }
  /// A bit of the next sum that it makes with others flips.
  void FlipSum() { flips_sum_ = true; }
  /// A bit of the weights that it makes next flips.
  void FlipWeights() { flips_weights_ = true; }
  /// A bit of what its next backward gives flips, of a stage that has had two other replicas from
  /// the start.
  void FlipGradient() { flips_gradient_ = true; }
  protocol::Heartbeat Beat() const;

  bool serving() const { return replica_.has_value(); }
  protocol::StageIndex stage() const { return stage_; }
  const WorkerId& id() const { return id_; }
  std::string Describe() const;

  void OnMessage(const WorkerId& from, const Envelope& envelope) override;
  void OnPeerUp(const WorkerId& peer) override;
  void OnPeerDown(const WorkerId& peer) override;

 private:
  struct Task {
    std::optional<std::uint64_t> x, g;  // inputs of forward and backward
    Bytes tokens;
    protocol::Version version;
    bool has_graph = false;
    std::vector<std::vector<Element>> fresh;
  };
  struct Job {
    protocol::TaskKey key;
    bool backward = false;
    bool keep_graph = false;
  };
  /// What is folded of one step, by group.
  struct Accumulator {
    std::uint64_t level = 0;  ///< scale level of the folds from now on
    bool finite = true;       ///< all folds were
    std::vector<std::vector<Element>> groups;
    Shares folded;   ///< here, of this step
    Shares adopted;  ///< of steps before, which a leaver had kept
  };
  struct Sum {
    protocol::Attempt k;
    std::vector<Element> elements;
  };
  using SumName = std::pair<protocol::Step, protocol::GroupIndex>;
  struct ActiveReduce {
    protocol::Reduce reduce;
    std::vector<Element> own;
    bool finite = true;
    std::vector<std::map<WorkerId, Element>> scattered;  // by element, where this one adds its row
    std::vector<std::map<WorkerId, Element>> partials;   // by element, where it adds its region
    std::vector<std::map<WorkerId, Element>> regions;    // by element, where this one owns it
    std::vector<std::optional<Element>> result;
    bool done = false;
  };
  /// A commit that is being applied: it lacks the weights of parts that others update.
  struct Application {
    struct Missing {
      protocol::PartHolders holders;
      std::size_t at = 0;  // of `next`
      std::set<WorkerId> refused;
    };
    protocol::CommitRecord record;
    std::vector<std::vector<Element>> sums;  // of groups that are not divided
    Weights next;
    std::map<protocol::PartName, std::uint64_t> moments;  // of the own parts
    std::map<protocol::PartName, Missing> missing;
  };
  using ChunkName = std::tuple<protocol::Step, protocol::GroupIndex, protocol::Attempt>;
  struct EarlyChunk {
    WorkerId from;
    protocol::ReduceChunk chunk;
    Element element;
  };
  struct HeldParcel {
    std::vector<protocol::Contribution> contributions;
    std::map<protocol::GroupIndex, std::vector<Element>> groups;
    bool finite = true;
    Shares shares;
  };
  /// A copy in progress from other replicas, one piece at a time from any of them.
  struct Copy {
    protocol::Welcome welcome;
    std::deque<WorkerId> donors;
    std::vector<Element> index;  // digest and version of each piece
    std::map<std::uint64_t, std::uint64_t> pieces;
    std::uint64_t request = 0;
  };
  struct GradientFetch {
    protocol::CommitRecord record;
    std::deque<WorkerId> peers;
    std::map<protocol::GroupIndex, std::vector<std::optional<Element>>> got;
    std::uint64_t request = 0;
  };

  // worker_process.cc: control, and the life of the process
  bool IsTrainer(const WorkerId& peer) const;
  void SayHello();
  void Tell(protocol::Message message);
  void FlushProgress();
  void Obey(const protocol::Message& message);
  void On(const protocol::Welcome& welcome);
  /// `whole`: as it was loaded, with the moments of all parts.
  void BeginServing(protocol::Generation generation, StageState state, bool whole);
  void ForgetEverything();
  /// Serves from the state that it has kept.
  void GoOn(const protocol::Welcome& welcome);
  /// The stage has other replicas, which know what its weights should be.
  /// Members of the roster that serve its stage, itself included.
  std::int64_t CountReplicas() const;
  /// The digest of the state, or another one.
  Digest ReportDigest();
  void LoadCheckpoint(protocol::Generation generation, protocol::Version version,
                      const std::string& uri);
  void Leave();
  void Rejoin(const std::string& why);
  /// Of the roster.
  std::vector<protocol::Member> Members() const;
  /// Hears the neighbours that could be heard, and reports the others.
  void TendNeighbours();
  /// If the links are unlike: to each member one that is drawn.
  std::map<WorkerId, protocol::Link> DrawLinks();
  /// Sends to another worker, on its detour if there is one.
  void SendToPeer(const WorkerId& to, Lane lane, Envelope envelope);

  // worker_actions.cc: frames, and what the replica orders
  void OnForward(const WorkerId& from, const protocol::Forward& frame, const Payload& payload);
  void OnBackward(const WorkerId& from, const protocol::Backward& frame, const Payload& payload);
  void Accept(const WorkerId& from, const protocol::Forward& frame, const Payload& payload);
  void Carry(protocol::Actions actions);
  void CheckBounds();
  template <typename Frame>
  void SendData(const WorkerId& to, const Frame& frame, Payload payload);
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

  // worker_compute.cc: the one compute thread, and what it owns
  void PostState(std::function<void()> job);
  void Compute();
  void RunTask(const Job& job);
  const Weights& WeightsOf(protocol::Version version) const;
  /// Those that a task of a step computes with.
  Weights WeightsOfTask(protocol::Version version) const;
  /// Returns the loss, on the last stage.
  double FinishForward(const Job& job);
  /// Digests of what the job's part of its task takes and gives; 0 without audits.
  std::uint64_t TakenBy(const Job& job) const;
  std::uint64_t GivenBy(const Job& job) const;
  /// Returns whether the gradients fit the step's scale.
  bool FinishBackward(const Job& job);
  void Apply(const protocol::CommitRecord& record, bool holds);
  void FinishApply();
  std::vector<protocol::PartDigest> ReportParts() const;
  /// Until another thread has read the state, one read after the other, now and then slowly. In a
  /// worker a read is done before the next update begins; here it may be later.
  Duration DrawReadOfState();
  void BeginReduce(const protocol::Reduce& reduce);
  void OnChunk(const WorkerId& from, const protocol::ReduceChunk& chunk, const Element& element);
  void SendChunk(const WorkerId& to, const protocol::Reduce& reduce,
                 protocol::ReduceChunk::Phase phase, std::uint64_t e, const Element& element);
  void Scatter(ActiveReduce& active, const WorkerId& from, std::uint64_t e, const Element& element);
  void ScatterPartial(ActiveReduce& active, const WorkerId& from, std::uint64_t e,
                      const Element& partial);
  void ScatterRegion(ActiveReduce& active, const WorkerId& from, std::uint64_t e,
                     const Element& sum);
  /// In the order of the participants.
  Element AddInOrder(const protocol::Reduce& reduce,
                     const std::map<WorkerId, Element>& parts) const;
  /// The sum of the element has come, or was made.
  void Gather(ActiveReduce& active, std::uint64_t e, const Element& sum);
  void FinishReduceIfDone(ActiveReduce& active);
  /// Reports the sum every second as long as it waits for chunks.
  void ReportLater(const protocol::Reduce& reduce);
  /// What the step's sums have of the steps before it.
  Shares SharesBefore(protocol::Step step);
  /// Behind the commit of a step.
  void KeepShares(const protocol::CommitRecord& record);
  Accumulator& AccumulatorOf(protocol::Step step);
  /// Carries `event` out later, unless the state it belongs to was thrown away meanwhile.
  void Later(Duration delay, std::function<void()> event);

  // worker_copy.cc: joining, fetching, parcels
  void Serve(const WorkerId& from, const protocol::Fetch& fetch);
  void BeginCopy(const protocol::Welcome& welcome);
  void AskForState();
  void NextDonor();
  void OnStateFetched(const WorkerId& from, const protocol::Fetched& fetched,
                      const Payload& payload);
  void FinishCopy();
  void AskForGradients(GradientFetch& fetch);
  void NextGradientPeer(GradientFetch& fetch);
  void OnGradientFetched(const WorkerId& from, const protocol::Fetched& fetched,
                         const Payload& payload);
  void OnParcel(const WorkerId& from, const protocol::Parcel& parcel, const Payload& payload);
  /// Of the parts that the reduce makes its own.
  void AskForMoments(const protocol::Reduce& reduce);
  void OnMomentsFetched(const protocol::Fetched& fetched, const Payload& payload);
  /// Of the parts that others update, from their first holders or from their second ones.
  void AskForWeights(protocol::Step step, bool second);
  void OnWeightsFetched(const WorkerId& from, const protocol::Fetched& fetched,
                        const Payload& payload);
  /// False: it is not known yet whether it will be here.
  bool ServePart(const protocol::Fetch& fetch, protocol::Fetched* fetched, Payload* payload) const;

  Simulation& simulation_;
  World& world_;
  Network& network_;
  const simulation::Job& job_;
  const WorkerId id_;
  const protocol::Incarnation incarnation_;
  const double slowness_;
  std::optional<KeptState> kept_;  // from before it was sent away, until it has a part in the job
  Pid pid_ = 0;
  bool crash_soon_ = false;
  bool gone_ = false;
  WorkerId trainer_;
  protocol::Term promised_;  // also of before this replica
  protocol::Term obeyed_;    // the highest that this replica has obeyed
  std::optional<Timepoint> leaving_;
  protocol::Progress progress_;
  bool flush_scheduled_ = false;
  std::uint64_t life_ = 0;  // counts states thrown away

  std::optional<protocol::Replica> replica_;
  std::optional<protocol::Welcome> welcome_;
  protocol::StageIndex stage_;
  protocol::Generation generation_;
  std::vector<protocol::GroupIndex> groups_;
  std::vector<protocol::Message> early_;  // control that came before the replica was there
  protocol::Neighbours neighbours_;
  protocol::LinkReports link_reports_;
  std::map<WorkerId, WorkerId> detours_;
  std::deque<std::tuple<WorkerId, protocol::Forward, Payload>> waiting_;  // for bytes (a mutation)

  StageState state_;
  /// What the steps of this replica alone have moved since state_, by step of the job (Job::local).
  std::map<protocol::Step, std::uint64_t> moved_;
  /// By fragment: whose moves wait for its turn.
  std::map<std::uint64_t, Shares> kept_shares_;
  std::map<protocol::TaskKey, Task> tasks_;
  std::map<protocol::TaskKey, std::uint64_t> outputs_, gradients_;
  std::map<protocol::Step, Accumulator> accumulators_;
  std::map<SumName, Sum> sums_;
  std::map<SumName, ActiveReduce> reduces_;
  std::optional<Application> application_;
  /// Weights of the own parts, as the step has made them; counted: they are wrong.
  std::map<SumName, std::map<std::uint64_t, Element>> updated_;
  std::vector<std::pair<WorkerId, protocol::Fetch>> early_fetches_;
  std::map<ChunkName, std::vector<EarlyChunk>> early_chunks_;
  protocol::Step reduce_floor_;
  std::map<std::pair<WorkerId, protocol::Step>, HeldParcel> parcels_;
  std::map<protocol::Version, StageState> pinned_;
  std::optional<Copy> copy_;
  std::map<protocol::Step, GradientFetch> fetches_;
  std::uint64_t requests_ = 0;
  std::uint64_t copied_ = 0;  // pieces

  bool hangs_ = false;
  bool flips_digest_ = false, flips_sum_ = false, flips_weights_ = false, flips_gradient_ = false;
  bool wrong_weights_ = false;  // until it begins anew
  bool computing_ = false;
  Timepoint state_read_;  // all states that the thread was asked to read
  std::uint64_t computed_ = 0;
  std::deque<std::function<void()>> state_jobs_;
  std::vector<Job> jobs_;
};

}  // namespace swarm::simulation
