// The workers of the job: the stage that each serves, its role, and its progress.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/coordinator/job.h"
#include "worker/protocol/coordinator/membership/holders.h"
#include "worker/protocol/coordinator/turn.h"

namespace swarm::protocol {

enum class Role : std::uint8_t {
  kWaiting,     ///< has come, and serves no stage yet
  kLoading,     ///< a checkpoint, or the initial weights
  kJoining,     ///< copies the state of other replicas
  kCatchingUp,  ///< in the roster, but a commit behind: gets no microbatches yet
  kReady,
};

/// A worker's progress with leaving its stage (rule 16).
struct Leave {
  /// The sums of one step.
  struct Parcel {
    WorkerId heir;
    Timepoint asked;    ///< last
    int tries = 0;      ///< after the first
    bool held = false;  ///< by the heir
  };
  Timepoint began, deadline;
  std::map<Step, Parcel> parcels;
  std::optional<StageIndex> to;  ///< a move: it comes back as a replica of this stage

  bool IsMove() const { return to.has_value(); }
  /// Tries of the parcel that was asked for most often.
  int Tries() const;
};

struct Worker {
  Member member;  ///< its stage means nothing while the worker waits; Members::Become sets it
  bool assigned = false;  ///< to a stage of the new generation
  bool welcomed = false;  ///< while joining: it knows the donors
  bool loaded = false;    ///< while loading or joining: it has the state to begin with
  Digest state = {};      ///< of what it has loaded
  /// It came with this state; once it joins, that is the state that it goes on from.
  std::optional<HeldState> offer = {};
  std::optional<Step> kept_from = {};  ///< as last reported: it has reduced gradients since then
  /// It took part in the sums of the step before this version, so it has those that it has not
  /// applied yet, too. Others get them from such a replica.
  Version summed_until = {};
  std::uint64_t copied = 0;   ///< bytes from other replicas, as last reported
  Timepoint progressed = {};  ///< came nearer to the end of joining
  std::uint64_t lag_max = 0;  ///< while joining: steps that it may lag
  Timepoint since;            ///< of the role
  std::string numeric_class = {};
  Timepoint came = {};         ///< said hello
  Timepoint held_off = {};     ///< gets no stage of a job in training before
  std::uint64_t computed = 0;  ///< pieces of work, as last reported
  Timepoint computed_at = {};  ///< when that last grew, or the worker was idle
  double busy_seconds = 0;     ///< of its device, as last reported
  /// At the last commit; none: it has reported nothing as a member of the roster.
  std::optional<double> busy_before = {};

  Role role() const { return role_; }
  /// The last that it has reported as applied; Members::SetVersion sets it.
  Version version() const { return version_; }
  bool InRoster() const { return role_ == Role::kCatchingUp || role_ == Role::kReady; }
  /// None while it waits.
  std::optional<StageIndex> stage() const {
    return role_ == Role::kWaiting ? std::nullopt : std::optional(member.stage);
  }
  /// Null: it does not leave. Members begins and ends a leave.
  Leave* leave() { return leave_ ? &*leave_ : nullptr; }
  const Leave* leave() const { return leave_ ? &*leave_ : nullptr; }

 private:
  friend class Members;
  Role role_ = Role::kWaiting;
  Version version_;
  std::optional<Leave> leave_;
};

/// Costs O(log n) for each change of one worker; what it answers is kept, not looked for.
class Members {
 public:
  explicit Members(Job* job) : job_(*job), stages_(job->stages()), holders_(job) {}

  using Map = std::map<WorkerId, Worker>;
  Map& all() { return workers_; }
  const Map& all() const { return workers_; }
  bool Has(const WorkerId& id) const { return workers_.contains(id); }
  Worker* Find(const WorkerId& id);
  const Worker* Find(const WorkerId& id) const;
  Worker& At(const WorkerId& id) { return workers_.at(id); }
  const Worker& At(const WorkerId& id) const { return workers_.at(id); }
  /// The worker has come; it waits. Requires that it is not known.
  Worker& Add(Member member);
  void Erase(const WorkerId& id);
  /// Every change of a role, or of a stage.
  void Become(Worker& worker, Role role, StageIndex stage);
  void Become(Worker& worker, Role role) { Become(worker, role, worker.member.stage); }
  void SetVersion(Worker& worker, Version version);

  /// The workers that leave.
  const std::set<WorkerId>& leaving() const { return leaving_; }
  /// The worker leaves from now on, if it does not already.
  Leave& BeginLeave(Worker& worker);
  void EndLeave(Worker& worker);

  /// How many workers load the state that the stage begins with.
  std::uint64_t CountLoading(StageIndex stage) const { return At(stage).loading; }
  /// Workers of the stage that are in the roster, by id.
  const std::vector<WorkerId>& Replicas(StageIndex stage) const { return At(stage).replicas; }
  /// Workers of the stage that can execute, by id.
  const std::vector<WorkerId>& ReadyReplicas(StageIndex stage) const { return At(stage).ready; }
  /// Ready replicas that do not leave, by id.
  const std::vector<WorkerId>& StayingReplicas(StageIndex stage) const { return At(stage).staying; }
  /// Replicas that get microbatches, per stage: those that stay, or else those that leave.
  std::vector<std::vector<WorkerId>> RoutableReplicas() const;
  /// Whether every stage keeps a ready replica without the worker, and every part a holder.
  bool CanSpare(const WorkerId& id) const;
  /// Whether every stage keeps a ready replica. Without the worker, the job may go back to a
  /// checkpoint for a part that it alone holds.
  bool CanReplace(const WorkerId& id) const;
  /// Whether every ready replica has reported its state of that version, or of a later one: in
  /// the stage, or in all.
  bool HaveReported(Version version, StageIndex stage) const;
  bool HaveReported(Version version) const;
  /// The first stage without a ready replica, or with a part that nobody holds.
  std::optional<StageIndex> FindLostStage() const;

  /// The stage that the most others of the worker's pod serve, or are to serve. None: no other.
  std::optional<StageIndex> StageOfPod(const Member& member) const;
  /// Whether a worker of another pod serves the stage, or is to serve it, and stays.
  bool HasOtherPods(StageIndex stage, const std::string& pod) const;

  Holders& holders() { return holders_; }
  const Holders& holders() const { return holders_; }

  /// Tells all workers of the roster.
  template <typename M>
  void Broadcast(const M& message, Turn& turn) const {
    for (const auto& [id, worker] : workers_) {
      if (worker.InRoster()) turn.Tell(id, message);
    }
  }
  /// Tells all workers to end.
  void Dismiss(const std::string& why, Turn& turn) const;
  /// Announces the roster as it is now, as a new epoch: to its new members the whole, to the others
  /// the change.
  void PublishRoster(std::vector<Adoption> adoptions, Turn& turn);
  /// The epoch that was announced last.
  Epoch epoch() const { return epoch_; }
  /// The epoch that the trainer before announced last.
  void ContinueFrom(Epoch epoch) { epoch_ = epoch; }

 private:
  /// The workers of a stage by what they can do; each list is ordered.
  struct Stage {
    std::vector<WorkerId> replicas, ready, staying;
    std::map<Version, std::size_t> versions;  // how many ready replicas have reported each
    std::uint64_t loading = 0;
  };
  const Stage& At(StageIndex stage) const { return stages_.at(stage.value); }
  /// Adds the worker to the lists that it belongs to, or removes it from them.
  void Enlist(const Worker& worker);
  void Delist(const Worker& worker);

  Job& job_;
  Map workers_;
  std::vector<Stage> stages_;
  Holders holders_;
  std::set<WorkerId> leaving_;
  Epoch epoch_;
  std::set<WorkerId> came_, gone_;  // changes of the roster since then
};

}  // namespace swarm::protocol
