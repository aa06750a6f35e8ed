// Options of a coordinator: its job and its deadlines.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/protocol/balance/balance.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/routing/mesh/mesh.h"
#include "worker/protocol/routing/router.h"

namespace swarm::protocol {

/// The coordinator's deadlines (docs/protocol.md, "Deadlines"): how long it waits, and what it does
/// then.
struct Patience {
  /// Answers to Takeover: evicts. Counts from the last worker that came, because those that come
  /// show that others are on their way; one that lives looks for the new trainer every three
  /// seconds.
  Duration takeover = std::chrono::seconds(4);
  /// The same, if a stage or all progress would be lost without them.
  Duration takeover_last = std::chrono::seconds(10);
  /// For each member of the last roster, beyond `takeover_last` in all: connecting takes turns.
  Duration takeover_member = std::chrono::milliseconds(50);
  Duration revoke = std::chrono::seconds(2);  ///< the answer to Revoke or Void: evicts
  /// In addition for each worker of the job: all of them may have lost neighbours at once, and all
  /// answer one trainer.
  Duration revoke_member = std::chrono::milliseconds(20);
  Duration ForRevoke(std::size_t workers) const {
    return revoke + static_cast<int>(workers) * revoke_member;
  }
  Duration microbatch = std::chrono::seconds(2);         ///< at least, a row's progress: revokes
  Duration first_microbatch = std::chrono::seconds(60);  ///< the same before anything is measured
  Duration reduce = std::chrono::seconds(5);             ///< at least: asks again, then evicts
  Duration first_reduce = std::chrono::seconds(60);      ///< the same before anything is measured
  Duration hand_over = std::chrono::seconds(10);  ///< at least, a parcel: asks again, then evicts
  Duration pin = std::chrono::seconds(30);        ///< donors: goes on without them
  Duration join = std::chrono::seconds(120);      ///< a joiner's progress: evicts it
  /// A worker that was let go and may live: its stage keeps no more reduced gradients for it.
  Duration away = std::chrono::seconds(120);
  Duration load = std::chrono::seconds(600);  ///< loading a checkpoint: evicts
  /// Writing one: then it is another writer's turn. A state of 20 GB over 100 Mb/s takes 1,600 s.
  Duration checkpoint = std::chrono::seconds(1800);
  Duration compute = std::chrono::seconds(10);  ///< at least, one piece of work: evicts
  /// Of this trainer, between two events, ticks included: it was stopped, and what it knows of its
  /// workers is old. The next trainer asks them.
  Duration stopped = std::chrono::seconds(5);
};

/// Rules that a test may switch off to see that it notices. All are on outside of tests.
struct CoordinatorRules {
  bool revoke_before_reissue = true;  ///< rule 9
  bool commit_needs_all = true;       ///< rule 12
  bool commit_awaits_states = true;   ///< rule 12
  bool takeover_keeps_roster = true;  ///< rule 13
  bool takeover_keeps_record = true;  ///< rule 13
  bool heed_broken_pairs = true;      ///< rule 28
  bool compare_offers = true;         ///< rule 17
  bool compare_parts = true;          ///< rule 31
  bool commit_awaits_audits = true;   ///< rule 33
  bool heed_regions = true;           ///< rule 34
};

struct CoordinatorOptions {
  Term term{1};
  bool take_over = false;  ///< workers may hold the job's state: ask them before anything else
  Generation generation;
  std::vector<std::uint64_t> replicas;  ///< wanted at the start, per stage
  std::uint64_t microbatches = 1;       ///< M
  InFlightBounds in_flight;             ///< of a worker
  std::uint64_t max_steps = 1;
  bool delayed = false;
  bool tied_head = false;
  bool shared_basis = false;  ///< all stages have one group in common (model::Layout::basis)
  bool exact = false;         ///< all workers must be of one numeric class
  /// By group: the elements of its parts, where two replicas update each part for all (rule 31).
  /// Empty, or none for a group: every replica updates the whole group. Groups of several stages
  /// have none.
  std::vector<std::vector<std::uint64_t>> part_sizes;
  /// The probes of the numeric class that the job depends on; workers may differ in all others.
  std::vector<std::string> probes;
  double max_grad_norm = 0;
  std::uint64_t seed = 0;
  /// Of all microbatches, those that are executed a second time (rule 33). Above 0: requires
  /// `exact`, and workers that report digests.
  double audit_fraction = 0;
  std::uint64_t audit_seed = 0;  ///< which; workers do not know it
  std::function<double(Step)> learning_rate;
  /// CommitInputs::counted_part of a step; empty: all labels count.
  std::function<double(Step)> counted_part;
  std::string job_json;    ///< for Welcome
  Version first_version;   ///< of the state that the job begins with
  std::string resume_uri;  ///< of that state's checkpoint; empty: initial weights
  Digest resume_manifest;  ///< as Welcome::manifest
  std::uint64_t checkpoint_interval_steps = 0;  ///< 0: only at the end
  std::string checkpoint_uri;                   ///< parent folder; empty: no checkpoints
  /// The coordinator repeats a failing last checkpoint for at least this long.
  Duration last_checkpoint_patience = Duration::zero();
  std::uint64_t validation_interval_steps = 0;  ///< 0: never
  std::uint64_t validation_microbatches = 0;
  double validation_counted_part = 1;  ///< the same for the validation data
  /// Which workers move between stages, and when (balance.h).
  BalancePolicy balance = BalancePolicy::kNone;
  Duration balance_period = std::chrono::seconds(300);  ///< of kPeriodic
  RegionRule regions;                                   ///< how they count in who serves what
  /// When stopped before the last step, leave the workers to the next trainer.
  bool keep_workers = false;
  double unix_epoch = 0;             ///< the wall clock at Timepoint(), in Unix seconds: for Status
  std::size_t flat_reduce_max = 16;  ///< a sum of more participants goes over a grid (rule 11)
  std::uint64_t donors_max = 3;      ///< replicas that pin their state for a joiner
  /// Steps that a joiner may lag if its donors keep as many; then it begins again. Bounds the
  /// records that the trainer keeps.
  std::uint64_t join_lag_max = 4096;
  MeshOptions mesh;  ///< the same as the workers'
  Patience patience;
  CoordinatorRules rules;
};

}  // namespace swarm::protocol
