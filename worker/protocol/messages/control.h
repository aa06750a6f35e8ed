// Control messages of a job without faults: membership, reduces, commits, checkpoints, ends.
// proto/swarmjob/v1/control.proto has the same on the wire.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "base/hash.h"
#include "base/shared_vector.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/retired.h"

namespace swarm::protocol {

/// The version of the protocol that this program speaks; hello refuses another.
inline constexpr std::uint32_t kProtocolVersion = 8;

// ---- membership ----

/// The scope of the address of a worker that nobody can dial: others like it reach it through the
/// relay, the trainer.
inline constexpr char kRelayScope[] = "relay";

/// One way to reach a worker.
struct Address {
  std::string scope;            ///< where it can be used: "cluster", "global", or kRelayScope
  std::string dial;             ///< host:port; of no meaning in kRelayScope
  std::string tls_server_name;  ///< for SNI gateways; may be empty
  bool operator==(const Address&) const = default;
};

/// A worker as the roster knows it.
struct Member {
  WorkerId id;
  Incarnation incarnation;
  StageIndex stage;
  std::string cluster;
  std::vector<Address> addresses;
  std::string region;  ///< sums add within it first; bytes that cross regions are counted
  std::string pod;     ///< workers of one pod go together; empty: it is alone
  bool operator==(const Member&) const = default;
};

/// The state of a worker that was let go while it lived, and comes back with it.
struct HeldState {
  StageIndex stage;
  Version version;
  Digest state;  ///< of the bytes that it holds now
  bool operator==(const HeldState&) const = default;
};

/// worker → trainer: the first message on a new connection.
struct Hello {
  std::uint32_t protocol_version = kProtocolVersion;
  WorkerId id;
  Incarnation incarnation;
  std::string cluster;
  std::vector<Address> addresses;
  std::uint64_t threads = 0;  ///< compute threads, for the layout
  Term term;                  ///< the highest that this incarnation has promised; 0: none
  bool serving = false;       ///< holds a stage's state: a trainer unaware of this must take over
  std::string numeric_class;  ///< what the bits of its results depend on; compared in exact jobs
  std::string region;         ///< as Member::region
  std::string pod;            ///< workers of one pod go together; empty: it is alone
  bool offers = false;        ///< not serving, and could go on from `offer` (rule 17)
  HeldState offer = {};
};

/// trainer → worker: the worker is accepted. Describes the job, and the worker's part in it.
struct Welcome {
  Term term;
  Generation generation;
  std::string job_json;  ///< the SwarmJob; its reader fills in the defaults
  StageIndex stage;
  std::uint64_t stage_count = 0;
  Version version;                  ///< of the state to begin with
  std::string checkpoint_uri = {};  ///< where that state is; empty: the initial weights of the job
  /// Not empty: the state comes from these replicas of the stage, which have pinned it, and
  /// checkpoint_uri means nothing (rule 17).
  std::vector<Member> donors = {};
  Digest state = {};  ///< of the pinned state
  /// Attempts below this one belong to an earlier incarnation of the same id.
  Attempt floor = {};
  /// The state is the one that the worker has offered. It needs no copy; the donors have the
  /// reduced gradients of the steps since.
  bool goes_on = false;
  /// Where parts have holders: the other replicas of the stage, which have made the weights since.
  std::vector<Member> peers = {};
  /// Of the checkpoint's manifest.json; another file of that name is no copy of it. Zero: any.
  Digest manifest = {};
};

/// worker → trainer: holds `version` of its stage's state and can execute.
struct Ready {
  Generation generation;
  StageIndex stage;
  Version version;
  Digest state;  ///< of parameters and optimizer; equal on all replicas of the stage
};

/// The heir now owns the accumulated gradients of a worker that left in order (rule 16).
struct Adoption {
  WorkerId donor;
  WorkerId heir;
  Step step;
  bool operator==(const Adoption&) const = default;
};

/// trainer → workers that are new in it: the roster of an epoch. A worker that was in an earlier
/// roster and is not in this one is evicted: its later frames are refused (rule 15).
struct Roster {
  Term term;
  Generation generation;
  Epoch epoch;
  SharedVector<Member> members;  ///< sorted by id
  std::vector<Adoption> adoptions;
  bool operator==(const Roster&) const = default;
};

/// trainer → workers that know the roster of the epoch before: what is different in the roster of
/// this one.
struct RosterChange {
  Term term;
  Generation generation;
  Epoch epoch;
  std::vector<Member> came;    ///< sorted by id; among them may be new incarnations of `gone`
  std::vector<WorkerId> gone;  ///< sorted
  std::vector<Adoption> adoptions;
  bool operator==(const RosterChange&) const = default;
};

/// worker → trainer, on both connections: several per second, or fewer in a large swarm (rule 25).
struct Heartbeat {
  Term term;  ///< the highest term the sender knows
  std::uint64_t compute_progress =
      0;                           ///< counts finished pieces of work: a hung device stands still
  std::uint64_t queued_tasks = 0;  ///< pieces of work that wait for the device, or are on it
  std::uint64_t bytes_sent = 0;    ///< activations and gradients, since the start
  double busy_seconds = 0;         ///< of compute, since the start
  /// Of pieces that it has fetched from other replicas, since the start: how a join goes on.
  std::uint64_t copied_bytes = 0;
  double next_seconds = 0.25;  ///< until the next one, at most
  double sum_seconds = 0;      ///< during which a sum was not done here, since the start
  /// With the workers of another region: payloads that were sent to them or copied from them, since
  /// the start.
  struct Exchanged {
    std::string region;  ///< not empty
    std::uint64_t bytes = 0;
    bool operator==(const Exchanged&) const = default;
  };
  std::vector<Exchanged> exchanged = {};  ///< sorted by region
};

// ---- reachability (rule 28) ----

/// worker → neighbour, every half a second or less often: this worker can reach you.
struct PeerBeat {};

/// worker → trainer: the neighbours that this worker has not heard for too long. The last report
/// counts. Repeated while there are any; an empty one says that all are heard again.
struct Unheard {
  std::vector<WorkerId> peers;  ///< sorted
};

/// A pair that cannot reach each other sends through a third worker.
struct Detour {
  WorkerId peer;
  WorkerId via;
  bool operator==(const Detour&) const = default;
};

/// trainer → worker: all detours of this worker.
struct Detours {
  Term term;
  std::vector<Detour> detours;  ///< sorted by peer
};

// ---- retired workers ----

/// trainer → worker, in its first words to it and when there are more: these workers have ended for
/// good. Their certificates count no more here.
struct Retire {
  Term term;
  Retired workers;
};

// ---- workers that nobody can dial ----

/// trainer → donor that nobody can dial: a worker that is not in its roster yet copies its state,
/// so it has to dial that one.
struct Meet {
  Term term;
  Member joiner;
};

// ---- links (rule 29) ----

/// A connection between two workers, as one of them has measured it.
struct Link {
  double round_trip = 0;        ///< seconds, where nothing waits
  double bytes_per_second = 0;  ///< that it carries to the other; 0: nothing has ever filled it
  bool operator==(const Link&) const = default;
};

/// The connections of a worker to the workers of a place: the mean.
struct MeasuredLink {
  std::string to;  ///< the place (routing/flow/flow.h)
  Link link;
  bool operator==(const MeasuredLink&) const = default;
};

/// worker → trainer: measurements that are new or have changed. The last word about a place counts.
struct Links {
  std::vector<MeasuredLink> links;  ///< sorted by place
};

// ---- execution ----

/// What one part of a task took and gave: equal digests stand for equal bits. For audits (rule 33);
/// both are 0 where the job has none.
struct TaskDigests {
  std::uint64_t input = 0;   ///< of all that the part depends on, beside the version
  std::uint64_t output = 0;  ///< of all that it gives: to other stages, and as gradients
  bool operator==(const TaskDigests&) const = default;
};

/// The result of one task at a worker: a hint, and a measurement (rules 7, 24).
struct TaskReport {
  TaskKey key;
  enum class Event : std::uint8_t {
    kForwarded = 0,
    kFolded = 1,
    kEvaluated = 2,
    kPropagated = 3,  ///< a backward that does not fold
    kOverflow = 4,    ///< not folded: it does not fit the step's scale (exact accumulation)
  } event{};
  double loss = 0;     ///< mean nats per token; last stage's kFolded and kEvaluated only
  double seconds = 0;  ///< compute time of this part of the task
  std::uint64_t boundary_bytes = 0;  ///< that this part sent on to another stage
  TaskDigests digests = {};
};

/// worker → trainer, batched.
struct Progress {
  std::vector<TaskReport> reports;
};

// ---- reduce and commit ----

/// The microbatches of one stage whose gradients a worker has folded; sorted, without duplicates.
struct ClaimSet {
  StageIndex stage;
  std::vector<Microbatch> microbatches;
  bool operator==(const ClaimSet&) const = default;
};

/// The replicas that hold the optimizer's moments of a part (rule 31). A part is one tensor of a
/// group, named by its place in the order of the group's tensors.
struct PartHolders {
  WorkerId first;   ///< adds the contributions, and gives the sum to `second`
  WorkerId second;  ///< empty: there is no other replica
  bool Has(const WorkerId& id) const { return id == first || id == second; }
  bool operator==(const PartHolders&) const = default;
};

struct PartName {
  GroupIndex group;
  std::uint64_t part = 0;
  auto operator<=>(const PartName&) const = default;
};

struct PartDigest {
  PartName name;
  Digest digest;
  std::uint64_t magnitude_bits = 0;  ///< of a sum's largest element (exact accumulation)
};

/// trainer → each participant: sum your accumulators of the group (rules 8 and 11). A participant
/// hears its own claims only; `k` names those of all, as no two attempts have the same k.
struct Reduce {
  Term term;
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  std::vector<WorkerId> participants;  ///< by seat: the order of summation
  std::uint64_t rows = 1;              ///< of the grid in which they stand (ReduceGrid)
  /// By row, equal numbers for rows of one region; empty: all are of one.
  std::vector<std::uint64_t> regions = {};
  ClaimSet claims;          ///< of the receiver
  std::uint64_t level = 0;  ///< of the step's scale (exact accumulation)
  /// By part; empty: every participant gets the whole sum.
  std::vector<PartHolders> holders = {};
};

/// worker → trainer: this worker's fold set differs from the claims; it froze nothing.
struct ReduceRefused {
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  ClaimSet folded;
};

/// worker → trainer, every second while a sum lasts: how far it has come here, and for whose chunks
/// it waits (rule 11).
struct Awaiting {
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  std::uint64_t chunks = 0;    ///< that have come
  std::vector<WorkerId> from;  ///< participants whose chunks are missing
};

/// A tensor's share in the global norm.
struct TensorNorm {
  std::string tensor;
  double squared =
      0;  ///< in double, over fixed blocks, so that its value has one order of summation
};

/// worker → trainer: the sum is here, in a buffer of its own.
struct Reduced {
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  Digest digest;  ///< of the index of its pieces (checkpoint::PiecedBytes); not where there are
                  ///< holders
  std::vector<TensorNorm> norms;
  /// Where there are holders: of the parts that this worker holds. It has their sums, and their
  /// moments of the version that the step changes.
  std::vector<PartDigest> parts = {};
};

/// The result of one group's reduce that a commit binds.
struct GroupResult {
  GroupIndex group;
  Attempt k;
  Digest digest;
  std::uint64_t level = 0;                ///< of the step's scale (exact accumulation)
  std::vector<PartHolders> holders = {};  ///< by part; empty: every participant has the sum
  /// With `holders`, by part: PartDigest::magnitude_bits.
  std::vector<std::uint64_t> magnitude_bits = {};
  bool operator==(const GroupResult&) const = default;
};

/// The decision about a step (rule 12). Idempotent: any worker that holds these results may apply
/// it.
struct CommitRecord {
  Generation generation;
  Step step;
  std::vector<GroupResult> groups;
  double clip = 1;  ///< factor on the gradients
  double learning_rate = 0;
  double loss = 0;
  double grad_norm = 0;
  bool skip = false;  ///< the gradients were not finite: versions advance, weights stay
  bool operator==(const CommitRecord&) const = default;
};

/// trainer → workers.
struct Commit {
  Term term;
  CommitRecord record;
  Step keep_from;  ///< reduced gradients of this step and later ones may still be asked for
};

/// worker → trainer: applied; holds version step + 1.
struct Committed {
  Generation generation;
  Step step;
  Digest state;
  Step kept_from = {};  ///< it has the reduced gradients of this step and of those since
  /// Weights and moments of the parts that it holds.
  std::vector<PartDigest> parts = {};
};

// ---- checkpoints ----

/// trainer → one replica of a stage: write your state of `version` below `uri`. Sent right after
/// the commit that made the version; the worker takes a copy before it applies another commit.
struct WriteCheckpoint {
  Term term;
  Generation generation;
  Version version;
  std::string uri;
  bool weights = true;  ///< false: `moments` alone
  /// Of the parts that have holders: those whose moments this worker writes.
  std::vector<PartName> moments = {};
};

/// One file of a checkpoint.
struct CheckpointFile {
  std::string name;  ///< relative to the checkpoint's folder
  std::uint64_t bytes = 0;
  Digest digest;
};

/// worker → trainer: written, or the reason why not.
struct CheckpointWritten {
  Generation generation;
  Version version;
  StageIndex stage;
  std::string error;  ///< empty: written
  std::vector<CheckpointFile> files;
  // Of the request: a worker may be asked for other things of a version later.
  bool weights = true;
  std::vector<PartName> moments = {};
};

// ---- ends ----

/// Why a job, or a worker, cannot go on. Programs read the names.
enum class FailureClass : std::uint8_t {
  kNone,                ///< it goes on
  kBadConfig,           ///< the job as it was asked for
  kStorageRefused,      ///< no right, no such bucket
  kStorageUnavailable,  ///< the storage does not answer
  kDeviceMemory,        ///< out of memory
  kWorkerFailed,        ///< a worker found something wrong
  kDiverged,            ///< replicas differ, and it is unknown which one is right
  kSuperseded,          ///< a trainer of a higher term exists
  kInternal,
};

/// worker → trainer: this worker cannot go on. A failure that another worker would not avoid either
/// (a wrong flag, a broken model) ends the job; others cost this worker only (trouble.h).
struct Failure {
  std::string reason;
  FailureClass failure_class = FailureClass::kNone;  ///< kNone counts as kWorkerFailed
  Generation generation = {};                        ///< that the worker served, or loaded
};

/// trainer → worker: the job is over, or this worker is not wanted; leave.
struct Shutdown {
  Term term;
  std::string reason;
  bool rejoin = false;  ///< come back as a new incarnation
};

}  // namespace swarm::protocol

namespace swarm {

template <>
struct EnumNames<protocol::TaskReport::Event> {
  using E = protocol::TaskReport::Event;
  static constexpr auto kNames = NameTable<E>({
      {E::kForwarded, "Forwarded"},
      {E::kFolded, "Folded"},
      {E::kEvaluated, "Evaluated"},
      {E::kPropagated, "Propagated"},
      {E::kOverflow, "Overflow"},
  });
};

template <>
struct EnumNames<protocol::FailureClass> {
  using E = protocol::FailureClass;
  static constexpr auto kNames = NameTable<E>({
      {E::kNone, ""},
      {E::kBadConfig, "BadConfig"},
      {E::kStorageRefused, "StorageRefused"},
      {E::kStorageUnavailable, "StorageUnavailable"},
      {E::kDeviceMemory, "DeviceMemory"},
      {E::kWorkerFailed, "WorkerFailed"},
      {E::kDiverged, "Diverged"},
      {E::kSuperseded, "Superseded"},
      {E::kInternal, "Internal"},
  });
};

}  // namespace swarm
