// The coordinator's orders to its shell. The shell carries them out in the order in which they
// come.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "worker/protocol/coordinator/event_fields.h"
#include "worker/protocol/coordinator/event_kind.h"
#include "worker/protocol/ledger.h"
#include "worker/protocol/messages/message.h"

namespace swarm::protocol {

namespace order {

/// Send a control message.
struct Tell {
  WorkerId to;
  Message message;
};
/// Read the microbatch's tokens and send them with `frame` to its first worker. The data are those
/// of (frame.key.step, microbatch) for training, of validation window `microbatch` for kEvaluate.
struct Issue {
  Forward frame;
};
/// What a step took at one stage, as its workers have reported it: seconds of all of them together.
struct StageTime {
  std::uint64_t workers = 0;  ///< replicas, when the step is decided
  double task_seconds = 0;    ///< of forwards and backwards, also of those in vain
  double busy_seconds = 0;  ///< of any work of the devices; a heartbeat may bring some a step late
  double reduce_seconds = 0;  ///< from the first order to sum until the last worker has its sum
  bool operator==(const StageTime&) const = default;
};
/// Step `record.step` is decided, `seconds` after the step before it. After a takeover the
/// coordinator also reports steps that the earlier trainer has decided, in order, as far as the
/// workers remember them (`seconds` is 0).
struct StepDone {
  CommitRecord record;
  double seconds = 0;
  std::uint64_t boundary_bytes = 0;  ///< activations and gradients sent between stages
  /// For each group of the record: which worker contributed which microbatches to its sum. Empty
  /// for a step that the earlier trainer has decided: its workers remember the record, not the
  /// claims.
  std::vector<std::vector<Participant>> claims = {};
  std::vector<StageTime> times = {};  ///< by stage; empty as `claims`
  std::vector<Redone> redone = {};    ///< as far as this trainer knows
};
/// The mean validation loss of a version, over all validation microbatches.
struct Validated {
  Version version;
  double loss = 0;
};
/// All stages have written: make the checkpoint visible. Answered with OnCheckpointPublished.
struct PublishCheckpoint {
  Version version;
  std::vector<CheckpointFile> files;
};
/// Write a line to events.jsonl.
struct Event {
  EventKind kind{};
  std::string text;         ///< for people
  EventFields fields = {};  ///< for programs
};
/// Begin this generation durably, unless another trainer has, with the newest checkpoint (or the
/// initial weights), and cut the run's log to it. Answered with OnGenerationBegun.
struct BeginGeneration {
  Generation generation;
  bool doubted = false;  ///< a worker could not load the checkpoint: look whether it is intact
};
/// Drop the messages that wait for this worker: its process is of no more use. Keep the connection,
/// over which the message that dismisses the worker still has to go.
struct Forget {
  WorkerId worker;
};
/// Close the connections of these workers, and take no others of theirs.
struct Retire {
  Retired workers;
};
/// The job is over for this trainer; no order follows.
struct Finish {
  bool succeeded = false;
  bool stopped_early = false;       ///< a stop was requested before the last step
  bool superseded = false;          ///< it is another trainer's turn: leave everything as it is
  bool was_stopped = false;         ///< with `superseded`: there may be no other trainer yet
  std::string reason = {};          ///< of a failure, for people
  FailureClass failure_class = {};  ///< of a failure; else kNone
};

}  // namespace order

using Order = std::variant<order::Tell, order::Issue, order::StepDone, order::Validated,
                           order::PublishCheckpoint, order::Event, order::BeginGeneration,
                           order::Forget, order::Retire, order::Finish>;
using Orders = std::vector<Order>;

}  // namespace swarm::protocol
