// The list of the messages on the wire. Internal to this folder.
//
// Another field: in worker/protocol/messages/message.h, in proto/, in Encoder::Put and Decoder::Get
// of its message. Another message: the same, and a line here. The tests find both by themselves.
#pragma once

/// X(Name, field) for each alternative of protocol::Message: its type and its field in the oneof of
/// swarmjob.v1.Header, as generated code spells it.
#define SWARM_WIRE_MESSAGES(X)             \
  X(Hello, hello)                          \
  X(Welcome, welcome)                      \
  X(Ready, ready)                          \
  X(Roster, roster)                        \
  X(Heartbeat, heartbeat)                  \
  X(Forward, forward)                      \
  X(Backward, backward)                    \
  X(Progress, progress)                    \
  X(Reduce, reduce)                        \
  X(ReduceRefused, reduce_refused)         \
  X(ReduceChunk, reduce_chunk)             \
  X(Reduced, reduced)                      \
  X(Commit, commit)                        \
  X(Committed, committed)                  \
  X(WriteCheckpoint, write_checkpoint)     \
  X(CheckpointWritten, checkpoint_written) \
  X(Failure, failure)                      \
  X(Shutdown, shutdown)                    \
  X(Observe, observe)                      \
  X(JobStatus, job_status)                 \
  X(Resend, resend)                        \
  X(Redirect, redirect)                    \
  X(Missing, missing)                      \
  X(Revoke, revoke)                        \
  X(Revoked, revoked)                      \
  X(Void, void_)                           \
  X(Voided, voided)                        \
  X(Thaw, thaw)                            \
  X(Rollback, rollback)                    \
  X(Leaving, leaving)                      \
  X(HandOver, hand_over)                   \
  X(Parcel, parcel)                        \
  X(ParcelHeld, parcel_held)               \
  X(PinState, pin_state)                   \
  X(StatePinned, state_pinned)             \
  X(UnpinState, unpin_state)               \
  X(Fetch, fetch)                          \
  X(Fetched, fetched)                      \
  X(Takeover, takeover)                    \
  X(Holding, holding)                      \
  X(Direct, direct)                        \
  X(DirectReply, direct_reply)             \
  X(PeerBeat, peer_beat)                   \
  X(Unheard, unheard)                      \
  X(Detours, detours)                      \
  X(Relayed, relayed)                      \
  X(Awaiting, awaiting)                    \
  X(RosterChange, roster_change)           \
  X(Links, links)                          \
  X(Retire, retire)                        \
  X(Meet, meet)

/// X(Name) for each type of worker/protocol that is a part of a message and never one itself.
#define SWARM_WIRE_PARTS(X) \
  X(Attempt)                \
  X(TaskKey)                \
  X(Address)                \
  X(Member)                 \
  X(Adoption)               \
  X(Detour)                 \
  X(Retired)                \
  X(MeasuredLink)           \
  X(Hop)                    \
  X(TaskReport)             \
  X(ClaimSet)               \
  X(TensorNorm)             \
  X(PartHolders)            \
  X(PartName)               \
  X(PartDigest)             \
  X(GroupResult)            \
  X(CommitRecord)           \
  X(CheckpointFile)         \
  X(Contribution)           \
  X(HeldReduce)             \
  X(HeldState)              \
  X(HeldStep)               \
  X(StageStatus)            \
  X(StageStatus::Worker)    \
  X(StageMove)              \
  X(Eviction)               \
  X(JobCounts)              \
  X(CheckpointStatus)       \
  X(BalanceStatus)          \
  X(Heartbeat::Exchanged)   \
  X(RegionTraffic)
