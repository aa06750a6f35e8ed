// What one seed means: the job, the network, and the faults.
#pragma once

#include <optional>
#include <string>

#include "tests/simulation/arithmetic.h"
#include "tests/simulation/network.h"
#include "worker/protocol/coordinator/coordinator.h"
#include "worker/protocol/replica/replica.h"

namespace swarm::simulation {

/// Rules that are broken on purpose, to check that the invariants notice.
struct Mutations {
  protocol::ReplicaRules replica;
  protocol::CoordinatorRules coordinator;
  // Of the shell:
  bool overwrite_early = false;        ///< a version is freed while a step may read it (rule 10)
  bool mixed_join = false;             ///< a joiner's pieces are of different versions (rule 17)
  bool admission_waits_bytes = false;  ///< a frame waits until a commit frees bytes (rule 24)
  bool half_region = false;            ///< a region's sum is sent on without its last row (rule 11)
  bool keep_cleared = false;           ///< moves that a step does not count wait all the same (32)
  bool any() const;
};

/// The names that `Mutate` knows.
std::vector<std::string> MutationNames();
/// Breaks one rule. False for a name that is none.
bool Mutate(const std::string& name, Mutations* mutations);

enum class FaultKind : std::uint8_t {
  kKillWorker,
  kCrashWorker,  ///< between two actions that belong together
  kLoseStage,    ///< all replicas of a stage at once
  kPauseWorker,
  kBreakLink,
  kCutOff,      ///< one worker from some of the others, one way or both
  kFalseAlarm,  ///< the trainer takes a living worker for dead
  kJoin,
  kDrain,
  kKillTrainer,
  kCrashTrainer,    ///< between two orders that belong together
  kReplaceTrainer,  ///< a paused trainer gets a successor, and is continued
  kHangDevice,      ///< a worker stops computing, but still sends heartbeats
  kStop,
  kCutPair,   ///< two workers from each other, one way or both, for minutes or hours
  kIsolate,   ///< as kCutOff, for minutes or hours, and its machine: it comes back to the same cut
  kSlowDisk,  ///< reads and writes of one machine take minutes
  kHangDisk,  ///< they never come to an end
  kFlipDigest,   ///< a worker's next digest of its state is wrong
  kFlipSum,      ///< a worker's next sum is not what the others sent
  kFlipWeights,  ///< a worker's next update of its weights is wrong, and another replica's is right
  kAway,  ///< the trainer takes a living worker for dead, and nobody reaches it for some steps
  kFlipGradient,  ///< a worker's next backward is wrong by a bit, in a job whose audits will tell
  kCutRegion,     ///< one region from the others, with or without the trainer, for seconds or hours
  kLoseRegion,    ///< all workers of a region at once
};
inline constexpr std::uint64_t kFaultKinds = 25;
/// Those that may happen together; kAway has a draw of its own, regions are there only where they
/// are wished, and audits notice kFlipGradient only as long as three replicas are there. If all
/// other replicas die before they report their states, none can tell that the weights of the last
/// one are wrong.
inline constexpr std::uint64_t kMixedFaultKinds = 20;
std::string_view NameOf(FaultKind kind);

/// Of a boundary's payload, which is one number.
inline constexpr std::uint64_t kPayloadBytes = 8;

struct Scenario {
  std::uint64_t seed = 0;
  Job job;
  NetworkOptions network;
  Duration compute_min = std::chrono::microseconds(200);
  Duration compute_max = std::chrono::milliseconds(4);
  std::uint64_t faults = 0;                            ///< how many happen
  Duration fault_gap = std::chrono::milliseconds(50);  ///< between two, on average
  std::vector<FaultKind> kinds;                        ///< which, drawn at each
  double resend_probability = 0;                       ///< of a data frame that is sent twice
  double corrupt_probability = 0;  ///< of a piece that comes damaged to a joiner
  double checkpoint_error_probability = 0;
  double slow_probability = 0;  ///< of a worker that is many times slower
  std::uint64_t retained_bytes_max = 1ull << 30;
  std::uint64_t parked_max = 4096;
  std::uint64_t parked_bytes_max = 1ull << 30;
  std::uint64_t kept_steps_max = 256;
  std::size_t flat_reduce_max = 16;  ///< sums of more participants go over a grid
  std::uint64_t pods = 0;            ///< that the workers share; 0: each is alone
  std::uint64_t regions = 0;         ///< in which the workers are; 0: unknown
  bool survive_region_loss = false;  ///< each stage is to be in two, as far as can be
  std::uint64_t join_lag_max = 256;
  /// Which workers move between stages. Rates differ at random, so that moves are often due.
  protocol::BalancePolicy balance = protocol::BalancePolicy::kNone;
  std::uint64_t spares = 0;  ///< workers that are there from the start and have no stage
  bool outbox_survives_trainer = false;
  bool keeps_states = true;  ///< workers that are sent away come back with their states
  protocol::Patience patience;
  /// Workers report links of all kinds, and others every few seconds; else none.
  bool unlike_links = false;
  protocol::MeshOptions mesh;
  double audit_fraction = 0;

  /// Of all processes of that name.
  std::string RegionOf(const protocol::WorkerId& id) const;
};

/// What a caller wants to fix.
struct Wishes {
  std::optional<bool> order_sensitive, delayed;
  std::optional<std::uint64_t> stages, faults;
  std::optional<FaultKind> only;
  bool unlike_links = false;
  bool grids = false;    ///< sums of more than three go over a grid, and stages are large enough
  bool sparse = false;   ///< one or two neighbours in the stage beside, also in a small swarm
  bool divided = false;  ///< parts have holders, and stages are large enough
  bool local = false;    ///< replicas take steps of their own
  bool audits = false;   ///< of some microbatches, or of all; sums are exact
  bool regions = false;  ///< two or three, and stages are large enough
  bool survive = false;  ///< the loss of a region: workers move so that each stage is in two
};

Scenario DrawScenario(std::uint64_t seed, const Wishes& wishes = {});
/// One line.
std::string Describe(const Scenario& scenario);

}  // namespace swarm::simulation
