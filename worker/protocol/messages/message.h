// The messages between trainer and workers, as values. proto/swarmjob/v1 declares the same on the
// wire and worker/net/wire translates; nothing here depends on the encoding.
//
// Control messages come from or go to the trainer and are fenced by its term. Data messages go from
// worker to worker and are fenced by their key.
#pragma once

#include <variant>

#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"
#include "worker/protocol/messages/observers.h"
#include "worker/protocol/messages/recovery.h"

namespace swarm::protocol {

using Message =
    std::variant<Hello, Welcome, Ready, Roster, Heartbeat, Forward, Backward, Progress, Reduce,
                 ReduceRefused, ReduceChunk, Reduced, Commit, Committed, WriteCheckpoint,
                 CheckpointWritten, Failure, Shutdown, Observe, JobStatus, Resend, Redirect,
                 Missing, Revoke, Revoked, Void, Voided, Thaw, Rollback, Leaving, HandOver, Parcel,
                 ParcelHeld, PinState, StatePinned, UnpinState, Fetch, Fetched, Takeover, Holding,
                 Direct, DirectReply, PeerBeat, Unheard, Detours, Relayed, Awaiting, RosterChange,
                 Links, Retire, Meet>;

/// Whether an observer or an operator may send it to a trainer: it asks and directs, and takes no
/// part in the work.
inline bool IsOfOnlooker(const Message& message) {
  return std::holds_alternative<Observe>(message) || std::holds_alternative<Direct>(message);
}

}  // namespace swarm::protocol
