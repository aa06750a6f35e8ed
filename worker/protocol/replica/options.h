// Options of a replica.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// Rules that a test may switch off to see that it notices (docs/protocol.md, "Model check"). All
/// on outside of tests.
struct ReplicaRules {
  bool compare_claims = true;            ///< rule 8
  bool refuse_unlisted_attempts = true;  ///< rule 13
  bool keep_term_promise = true;         ///< rule 13
  bool compare_k = true;                 ///< rule 12
  bool propagate_does_not_fold = true;   ///< rule 5
  bool compare_generation = true;        ///< rule 5
  bool adopt_only_by_roster = true;      ///< rule 16
  bool answer_revoke_by_closing = true;  ///< rule 9
};

/// Members apply a step at different times, and one that has just caught up may lack the sums of
/// the last two: these and the newest are kept in any case.
inline constexpr std::uint64_t kKeptStepsMin = 3;

struct ReplicaOptions {
  Member self;
  std::uint64_t stages = 1;
  std::vector<GroupIndex> groups;       ///< that this stage's tensors belong to
  bool keeps_previous_version = false;  ///< Delayed mode
  Term term;                            ///< promised so far
  Generation generation;
  Attempt floor = {};               ///< attempts below are closed: of an earlier incarnation
  Version version;                  ///< of the state it begins with
  bool whole = false;               ///< that state has the moments of all parts (rule 31)
  std::uint64_t parked_max = 4096;  ///< frames that wait for a version, a thaw, or their forward
  std::uint64_t parked_bytes_max = 1ull << 30;    ///< of their payloads; one frame may be larger
  std::uint64_t retained_bytes_max = 1ull << 30;  ///< outputs and input gradients kept for others
  /// Applied steps whose reduced gradients it keeps, at most: for joiners. At least kKeptStepsMin
  /// count.
  std::uint64_t kept_steps_max = 4096;
  ReplicaRules rules;
};

/// The cost of one part of a task.
struct Cost {
  double seconds = 0;                ///< of compute
  std::uint64_t boundary_bytes = 0;  ///< of its output
};

}  // namespace swarm::protocol
