#include "tests/simulation/fingerprint.h"

#include <bit>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "base/shared_vector.h"

namespace swarm::simulation {
namespace {

using namespace protocol;  // the alternatives of Message, which are all named here

/// Lists the fields that count. A binding must name every field of its struct, so a new field does
/// not compile until it stands here. Texts for people are bound and left out of the tie.
#define SWARM_FIELDS(Type, bound, counted)                   \
  [[maybe_unused]] auto FieldsOf(const Type& value) {        \
    [[maybe_unused]] const auto& [SWARM_LIST bound] = value; \
    return std::tie(SWARM_LIST counted);                     \
  }
#define SWARM_LIST(...) __VA_ARGS__
#define SWARM_ALL_FIELDS(Type, ...) SWARM_FIELDS(Type, (__VA_ARGS__), (__VA_ARGS__))

SWARM_ALL_FIELDS(Digest, high, low)
SWARM_ALL_FIELDS(Attempt, term, n)
SWARM_ALL_FIELDS(TaskKey, generation, step, microbatch, stage, attempt)

// Messages.
SWARM_ALL_FIELDS(Address, scope, dial, tls_server_name)
// Where no worker has a pod, the fingerprint is that of a protocol without pods.
SWARM_FIELDS(Member, (id, incarnation, stage, cluster, addresses, region, pod),
             (id, incarnation, stage, cluster, addresses, region))
SWARM_ALL_FIELDS(HeldState, stage, version, state)
SWARM_FIELDS(Hello,
             (protocol_version, id, incarnation, cluster, addresses, threads, term, serving,
              numeric_class, region, pod, offers, offer),
             (protocol_version, id, incarnation, cluster, addresses, threads, term, serving,
              numeric_class, region, offers, offer))
// The fingerprint is that of a protocol whose checkpoints have no copies.
SWARM_FIELDS(Welcome,
             (term, generation, job_json, stage, stage_count, version, checkpoint_uri, donors,
              state, floor, goes_on, peers, manifest),
             (term, generation, job_json, stage, stage_count, version, checkpoint_uri, donors,
              state, floor, goes_on, peers))
SWARM_ALL_FIELDS(Ready, generation, stage, version, state)
SWARM_ALL_FIELDS(Adoption, donor, heir, step)
SWARM_ALL_FIELDS(Roster, term, generation, epoch, members, adoptions)
SWARM_ALL_FIELDS(RosterChange, term, generation, epoch, came, gone, adoptions)
SWARM_FIELDS(Heartbeat,
             (term, compute_progress, queued_tasks, bytes_sent, busy_seconds, copied_bytes,
              next_seconds, sum_seconds, exchanged),
             (term, compute_progress, queued_tasks, bytes_sent, busy_seconds, copied_bytes,
              next_seconds))
SWARM_ALL_FIELDS(Awaiting, generation, step, group, k, chunks, from)
SWARM_ALL_FIELDS(Unheard, peers)
SWARM_ALL_FIELDS(Link, round_trip, bytes_per_second)
SWARM_ALL_FIELDS(MeasuredLink, to, link)
SWARM_ALL_FIELDS(Links, links)
SWARM_ALL_FIELDS(Detour, peer, via)
SWARM_ALL_FIELDS(Detours, term, detours)
SWARM_ALL_FIELDS(Retired, prefix, below, except)
SWARM_ALL_FIELDS(Retire, term, workers)
SWARM_ALL_FIELDS(Meet, term, joiner)
SWARM_ALL_FIELDS(Relayed, from, to, header)
SWARM_ALL_FIELDS(Hop, worker, attempt, fold)
SWARM_ALL_FIELDS(Forward, key, version, kind, hops, end, first, upstream, tokens, sequences,
                 tokens_per_sequence)
SWARM_ALL_FIELDS(Backward, key, version)
SWARM_ALL_FIELDS(TaskDigests, input, output)
// Where no job has audits, the fingerprint is that of a protocol without them.
SWARM_FIELDS(TaskReport, (key, event, loss, seconds, boundary_bytes, digests),
             (key, event, loss, seconds, boundary_bytes))
SWARM_ALL_FIELDS(Progress, reports)
SWARM_ALL_FIELDS(Resend, term, source, frame)
SWARM_ALL_FIELDS(Redirect, term, source, to, target)
SWARM_ALL_FIELDS(Missing, source, gradient)
SWARM_ALL_FIELDS(Revoke, term, key)
SWARM_ALL_FIELDS(Revoked, key, folded)
SWARM_ALL_FIELDS(Void, term, generation, step, number, level)
SWARM_ALL_FIELDS(Voided, generation, step, number)
SWARM_ALL_FIELDS(Thaw, term, generation, step)
SWARM_FIELDS(Rollback, (term, generation, stage, version, checkpoint_uri, manifest),
             (term, generation, stage, version, checkpoint_uri))
SWARM_ALL_FIELDS(Leaving, seconds)
SWARM_ALL_FIELDS(HandOver, term, generation, step, heir)
SWARM_ALL_FIELDS(Contribution, microbatch, attempt, loss)
SWARM_ALL_FIELDS(Parcel, generation, step, stage, group, offset, count, level, finite,
                 contributions)
SWARM_ALL_FIELDS(ParcelHeld, generation, step, donor, contributions)
SWARM_ALL_FIELDS(PinState, term, generation, version)
SWARM_FIELDS(StatePinned, (generation, version, state, error, kept_steps),
             (generation, version, state, kept_steps))
SWARM_ALL_FIELDS(UnpinState, term, generation, version)
SWARM_ALL_FIELDS(Fetch, generation, kind, version, group, k, piece, part)
SWARM_FIELDS(Fetched, (generation, kind, version, group, k, piece, pieces, error, part),
             (generation, kind, version, group, k, piece, pieces, part))
SWARM_ALL_FIELDS(ClaimSet, stage, microbatches)
SWARM_ALL_FIELDS(Participant, worker, claims)
SWARM_ALL_FIELDS(PartHolders, first, second)
SWARM_ALL_FIELDS(PartName, group, part)
SWARM_ALL_FIELDS(PartDigest, name, digest, magnitude_bits)
// Where all workers are in one region, the fingerprint is that of a protocol without regions.
SWARM_FIELDS(Reduce,
             (term, generation, step, group, k, participants, rows, regions, claims, level,
              holders),
             (term, generation, step, group, k, participants, rows, claims, level, holders))
SWARM_ALL_FIELDS(ReduceRefused, generation, step, group, k, folded)
SWARM_ALL_FIELDS(ReduceChunk, generation, step, group, k, phase, offset)
SWARM_ALL_FIELDS(TensorNorm, tensor, squared)
SWARM_ALL_FIELDS(Reduced, generation, step, group, k, digest, norms, parts)
SWARM_ALL_FIELDS(GroupResult, group, k, digest, level, holders, magnitude_bits)
SWARM_ALL_FIELDS(CommitRecord, generation, step, groups, clip, learning_rate, loss, grad_norm, skip)
SWARM_ALL_FIELDS(Commit, term, record, keep_from)
SWARM_ALL_FIELDS(Committed, generation, step, state, kept_from, parts)
SWARM_ALL_FIELDS(WriteCheckpoint, term, generation, version, uri, weights, moments)
SWARM_ALL_FIELDS(CheckpointFile, name, bytes, digest)
SWARM_FIELDS(CheckpointWritten, (generation, version, stage, error, files, weights, moments),
             (generation, version, stage, files, weights, moments))
SWARM_FIELDS(Failure, (reason, failure_class, generation), (failure_class, generation))
SWARM_FIELDS(Shutdown, (term, reason, rejoin), (term, rejoin))
SWARM_ALL_FIELDS(Takeover, term)
SWARM_ALL_FIELDS(HeldReduce, group, k, participants)
SWARM_ALL_FIELDS(HeldStep, step, level, folded, reduces)
SWARM_ALL_FIELDS(Holding, term, generation, self, version, roster, records, steps, past, holds)
SWARM_ALL_FIELDS(StageMove, worker, to)
SWARM_FIELDS(Direct, (leader_term, number, drain, moves, retired),
             (leader_term, number, drain, moves))
SWARM_FIELDS(DirectReply, (number, accepted, why, leader_term), (number, accepted, leader_term))

// What the coordinator orders.
SWARM_ALL_FIELDS(order::Tell, to, message)
SWARM_ALL_FIELDS(order::Issue, frame)
// What was redone, and the seconds, follow from the orders; no decision follows from them.
SWARM_FIELDS(order::StepDone, (record, seconds, boundary_bytes, claims, times, redone),
             (record, seconds, boundary_bytes, claims))
SWARM_ALL_FIELDS(order::Validated, version, loss)
SWARM_ALL_FIELDS(order::PublishCheckpoint, version, files)
SWARM_FIELDS(order::Event, (kind, text, fields), (kind))
SWARM_ALL_FIELDS(order::BeginGeneration, generation, doubted)
SWARM_ALL_FIELDS(order::Forget, worker)
SWARM_ALL_FIELDS(order::Retire, workers)
SWARM_FIELDS(order::Finish,
             (succeeded, stopped_early, superseded, was_stopped, reason, failure_class),
             (succeeded, stopped_early, superseded, failure_class))

// What a replica orders.
SWARM_ALL_FIELDS(action::RunForward, key, version, keep_graph)
SWARM_ALL_FIELDS(action::RunBackward, key)
SWARM_ALL_FIELDS(action::SendForward, to, message, source)
SWARM_ALL_FIELDS(action::SendBackward, to, message, source)
SWARM_ALL_FIELDS(action::FoldGradients, key)
SWARM_ALL_FIELDS(action::DropTask, key)
SWARM_ALL_FIELDS(action::ReleaseRetained, key, gradient)
SWARM_ALL_FIELDS(action::StartReduce, reduce)
SWARM_ALL_FIELDS(action::StopReduces, step)
SWARM_ALL_FIELDS(action::FetchGradients, record)
SWARM_ALL_FIELDS(action::ApplyCommit, record, holds)
SWARM_ALL_FIELDS(action::ReleaseStep, step)
SWARM_ALL_FIELDS(action::ReleaseSums, below)
SWARM_ALL_FIELDS(action::ClearStep, step, level)
SWARM_ALL_FIELDS(action::TakeCheckpoint, request)
SWARM_ALL_FIELDS(action::PinCopy, request)
SWARM_ALL_FIELDS(action::UnpinCopy, version)
SWARM_ALL_FIELDS(action::SendParcel, to, step, level, contributions)
SWARM_ALL_FIELDS(action::AdoptParcel, donor, step)
SWARM_ALL_FIELDS(action::DropParcel, donor, step)
SWARM_ALL_FIELDS(action::BeginAnew, request)
SWARM_ALL_FIELDS(action::Tell, message)
SWARM_ALL_FIELDS(action::Refuse, reason, key)
SWARM_FIELDS(action::Rejoin, (reason), ())

/// Folds values into one number, in the order in which they come.
struct Folder {
  std::uint64_t state;

  void Fold(std::uint64_t number) { state = Mix(state ^ number); }
  void Fold(std::string_view text) { state = MixName(state, text); }
  void Fold(double number) { Fold(std::bit_cast<std::uint64_t>(number)); }
  void Fold(const Bytes& bytes) { Fold(bytes.text()); }
  template <std::unsigned_integral T>
  void Fold(T number) {
    Fold(std::uint64_t{number});
  }
  template <typename T>
    requires std::is_enum_v<T>
  void Fold(T value) {
    if constexpr (NamedEnum<T>) {
      Fold(swarm::NameOf(value));
    } else {
      Fold(static_cast<std::uint64_t>(value));
    }
  }
  template <typename Tag>
  void Fold(const Id<Tag>& id) {
    Fold(id.value);
  }
  template <typename Tag>
  void Fold(const Name<Tag>& name) {
    Fold(std::string_view(name.value));
  }
  template <typename T, typename A>
  void Fold(const std::vector<T, A>& values) {
    Fold(std::uint64_t{values.size()});
    for (const T& value : values) Fold(value);
  }
  template <typename T>
  void Fold(const SharedVector<T>& value) {
    Fold(value.elements());
  }
  template <typename... T>
  void Fold(const std::variant<T...>& value) {
    Fold(std::uint64_t{value.index()});
    std::visit([this](const auto& v) { Fold(v); }, value);
  }
  template <typename T>
    requires requires(const T& value) { FieldsOf(value); }
  void Fold(const T& value) {
    std::apply([this](const auto&... fields) { (Fold(fields), ...); }, FieldsOf(value));
  }
  /// Messages that neither a coordinator nor a replica sends as an order or action.
  void Fold(const Observe&) {}
  void Fold(const PeerBeat&) {}
  void Fold(const JobStatus&) {}
};

template <typename T>
std::uint64_t FoldInto(std::uint64_t state, const T& value) {
  Folder folder{state};
  folder.Fold(value);
  return folder.state;
}

}  // namespace

void Fingerprint::Add(const Order& order) { state_ = FoldInto(state_, order); }
void Fingerprint::Add(const Action& action) { state_ = FoldInto(state_, action); }

}  // namespace swarm::simulation
