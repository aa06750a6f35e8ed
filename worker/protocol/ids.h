// The identifiers of the training protocol (docs/protocol.md, rule 2). All are ordered and never
// reused.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace swarm::protocol {

/// Counts rollbacks of the job to a checkpoint.
using Generation = Id<struct GenerationTag>;
/// Counts trainers of the job.
using Term = Id<struct TermTag>;
/// Counts changes of the roster.
using Epoch = Id<struct EpochTag>;
/// One optimizer step, counted from 0. Step t updates version t to version t + 1.
using Step = Id<struct StepTag>;
/// The weights after that many commits.
using Version = Id<struct VersionTag>;
/// One process of a worker: a restarted worker has the same name and another incarnation.
using Incarnation = Id<struct IncarnationTag>;
/// One microbatch of a step, 0 to M - 1.
using Microbatch = Id<struct MicrobatchTag>;
/// A position in the pipeline, 0 to S - 1.
using StageIndex = Id<struct StageIndexTag>;
/// A set of tensors that is summed among the same workers: group s < S are the tensors of stage s
/// alone; further groups are tensors that several stages share (a tied head).
using GroupIndex = Id<struct GroupIndexTag>;

/// A worker (its pod's UID or process id, and a local index), or the trainer. Never a stage.
using WorkerId = Name<struct WorkerIdTag>;

/// (term, n): fences what an earlier trainer has begun. Used per (microbatch, stage) and per
/// reduce.
struct Attempt {
  Term term;
  std::uint64_t n = 0;
  auto operator<=>(const Attempt&) const = default;
};

/// The name of one execution: (generation, step, microbatch, stage, attempt). Data is fenced by it.
struct TaskKey {
  Generation generation;
  Step step;
  Microbatch microbatch;
  StageIndex stage;
  Attempt attempt;
  auto operator<=>(const TaskKey&) const = default;
};

}  // namespace swarm::protocol
