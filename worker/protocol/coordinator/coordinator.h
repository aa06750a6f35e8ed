// The trainer's decisions: which worker serves which stage, when microbatches are issued, when a
// group is reduced, what is committed, when state is checkpointed, and when the job is over. One
// coordinator a job (docs/protocol.md, rules 4, 8, 11, 12, 24, 27).
//
// The coordinator is the dispatcher: it hands each event to the part that it concerns and settles
// the consequences for the others. The parts are in the files beside it, one concern and its state
// each; a part knows only those named in its constructor, and the order of the members below has no
// cycle.
//
// Pure: events and the time in, orders out, in the order in which they must be carried out. The
// shell (worker/trainer) sends messages, reads data and writes files. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/coordinator/job_status.h"
#include "worker/protocol/coordinator/member_details.h"
#include "worker/protocol/coordinator/membership/admission.h"
#include "worker/protocol/coordinator/membership/reachability.h"
#include "worker/protocol/coordinator/rollbacks.h"
#include "worker/protocol/coordinator/step/dispatch.h"
#include "worker/protocol/coordinator/step/reducing.h"
#include "worker/protocol/coordinator/step/route_planning.h"
#include "worker/protocol/coordinator/trouble.h"

namespace swarm::protocol {

/// More than 15 fields and 25 methods: the parts, each named once, and a method for each kind of
/// event.
class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, Timepoint now);
  Coordinator(const Coordinator&) = delete;  // the parts refer to each other
  Coordinator& operator=(const Coordinator&) = delete;

  /// A message of a worker. Messages that are not for the trainer are ignored.
  Orders OnMessage(const WorkerId& from, const Message& message, Timepoint now);
  /// A worker's heartbeat, several a second: shows a device that hangs while its process lives.
  Orders OnBeat(const WorkerId& from, const Heartbeat& beat, Timepoint now);
  /// Connections broke, or workers are silent: they are evicted, with one change of the roster.
  Orders OnWorkersLost(std::vector<Departure> departures, Timepoint now);
  /// The shell has made the checkpoint visible, or has failed (`error`).
  Orders OnCheckpointPublished(Version version, const std::string& error, Timepoint now);
  /// The generation is durable, and begins with this state. `manifest`: as Welcome::manifest.
  Orders OnGenerationBegun(Generation generation, Version version, const std::string& uri,
                           const Digest& manifest, Timepoint now);
  /// Finish the steps that have begun, write a checkpoint, end. Idempotent.
  Orders OnStopRequested(Timepoint now);
  /// There is no more time for the work that OnStopRequested began: end without it.
  Orders OnStopOverdue();
  /// The tokens of these microbatches are still being read, so their first workers cannot begin.
  /// Call it before each OnTick.
  void OnTokensAwaited(const std::vector<TaskKey>& keys, Timepoint now);
  /// Tokens cannot be read, and will not be: the job fails.
  Orders OnTokensLost(const std::string& reason, FailureClass failure_class);
  /// A trainer of a higher term exists: end, and leave everything to it.
  Orders OnSuperseded(const std::string& reason);
  /// Handles everything that has a deadline. Call it several times a second.
  Orders OnTick(Timepoint now);

  /// The job as a user wants to see it (without the data of heartbeats).
  JobStatus Status() const;
  std::map<WorkerId, MemberDetails> Details() const;
  /// Bytes of a microbatch between stage s and s + 1, as workers have reported them; 0: not yet.
  const std::vector<BoundaryBytes>& boundaries() const { return route_planning_.boundaries(); }
  bool finished() const { return job_.phase == Phase::kFinished; }
  Generation generation() const { return job_.generation; }
  /// The workers that the trainer should hear from: their silence means something.
  std::vector<WorkerId> Members() const;

 private:
  /// Whether this trainer was stopped until `now`, so long that its workers have left it. They
  /// would come back as strangers, and the job would go back to a checkpoint; the next trainer
  /// takes over from them instead (rule 13). Ends this one then.
  bool EndIfStopped(Turn& turn);
  void Handle(const WorkerId& from, const Message& message, Turn& turn);
  void OnHello(const Hello& hello, Turn& turn);
  void OnReady(const WorkerId& from, const Ready& ready, Turn& turn);
  void OnCommitted(const WorkerId& from, const Committed& committed, Turn& turn);
  void OnFailure(const WorkerId& from, const Failure& failure, Turn& turn);

  /// Carries out the demands of the parts on each other.
  void Settle(Turn& turn);
  Orders SettleAll(Turn turn);
  /// Carries out departures, and goes on without those workers.
  void Evict(Turn& turn);
  /// Does all that is possible now: leaves, issues, reduces, commits, the end.
  /// Issues, reduces and commits what can be, and lets those of the leavers go that can.
  void Advance(std::set<WorkerId> leavers, Turn& turn);
  void AdvanceLeaves(std::set<WorkerId> leavers, Turn& turn);
  void CheckMembers(Turn& turn);
  void StartTrainingIfLoaded(Turn& turn);
  void RollBackIfStageLost(Turn& turn);
  void TakeOverIfComplete(Turn& turn);
  void FinishIfDone(Turn& turn);
  void End(order::Finish finish, const std::string& to_workers, Turn& turn);

  Job job_;
  protocol::Members members_;
  Reachability reachability_;
  Trouble trouble_;
  Router router_;
  RoutePlanning route_planning_;
  Admission admission_;
  Loading loading_;
  Rollbacks rollbacks_;
  Validation validation_;
  Checkpoints checkpoints_;
  StateReports states_;
  Steps steps_;
  Rebalancing rebalancing_;
  Leaves leaves_;
  Audits audits_;
  Dispatch dispatch_;
  Reducing reducing_;
  Joins joins_;
  Commits commits_;
  Evictions evictions_;
  TakingOver taking_over_;
  Directions directions_;
  std::optional<Timepoint> last_event_;
  bool was_stopped_ = false;
};

}  // namespace swarm::protocol
