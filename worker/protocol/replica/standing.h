// Identity, promised term, roster and version of a replica, which all its parts read.
#pragma once

#include <set>
#include <string_view>

#include "worker/protocol/replica/options.h"

namespace swarm::protocol {

struct Standing {
  explicit Standing(ReplicaOptions replica_options);

  const ReplicaOptions options;
  Term promised;  ///< the highest term; lower ones are refused
  Attempt floor;  ///< attempts below are closed
  Version version;
  Roster roster;  ///< the last one heard of
  std::set<WorkerId> evicted;

  StageIndex stage() const { return options.self.stage; }
  bool IsLastStage() const { return options.self.stage.value + 1 == options.stages; }
  bool IsCommitted(Step step) const { return step.value < version.value; }
  /// An earlier incarnation, or an earlier trainer, began the attempt: it is closed.
  bool IsClosed(Attempt attempt) const {
    return attempt < floor && options.rules.refuse_unlisted_attempts;
  }
  /// The version that the step reads is here.
  bool CanRead(Step step) const {
    return step.value <= version.value + (options.keeps_previous_version ? 1 : 0);
  }
  /// The oldest version that is here.
  Version OldestVersion() const;
  bool IsOfGeneration(Generation generation) const {
    return generation == options.generation || !options.rules.compare_generation;
  }
  /// Promises the term, or returns false for one below the promise.
  bool Promise(Term term);
  /// Promises, and compares the generation. Not empty: why the message must be refused.
  std::string_view WhyRefuseControl(Term term, Generation generation);
  /// Takes over the roster. False if this worker is not in it any more.
  bool Adopt(const Roster& next);
  /// The same for the change to the next epoch.
  bool Adopt(const RosterChange& change);
};

}  // namespace swarm::protocol
