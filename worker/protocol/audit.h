// Audits (docs/protocol.md, rule 33): which microbatches are executed a second time, and what the
// results say about the workers that made them. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// Whether the microbatch is drawn, so that a `fraction` of all are. Workers do not know the seed.
bool IsAudited(std::uint64_t seed, Step step, Microbatch microbatch, double fraction);

/// Two parts of a task.
enum class TaskPart : std::uint8_t { kForward, kBackward };

/// What a worker says of one part of its task of a microbatch (TaskDigests).
struct Testimony {
  StageIndex stage;
  TaskPart part{};
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  WorkerId worker;
  auto operator<=>(const Testimony&) const = default;
};
using Testimonies = std::set<Testimony>;

/// What one worker may say of one part. It has as many as there are executions with inputs that
/// differ, which are few, so nobody fills the memory of the trainer.
inline constexpr int kTestimoniesMax = 16;

/// Adds it. False: it was known, or its worker has said too much of that part.
bool Add(const Testimony& testimony, Testimonies* testimonies);

/// What the testimonies about one microbatch say.
struct Verdict {
  enum class Kind : std::uint8_t {
    kAgree,      ///< all that can be compared is equal
    kDisagree,   ///< results differ, and it is not known which are right
    kConvicted,  ///< `workers` are wrong
  } kind{};
  StageIndex stage;  ///< of the task whose results differ
  TaskPart part{};
  std::vector<WorkerId> workers = {};  ///< that are wrong, or that differ; by id
  bool operator==(const Verdict&) const = default;
};

/// Only results of the same input are compared. So a wrong result blames nobody who was given it:
/// what follows from it has other inputs. Of several results of one input
/// - those of a worker that has given two are wrong, whatever others say;
/// - that of the most workers is right, if these are two or more and no other result has as many.
/// The first part that convicts counts, in the order of the data; else the first that disagrees.
Verdict Judge(const Testimonies& testimonies);

/// Whether two workers have given the same for each part of the stage's task.
bool IsConfirmed(const Testimonies& testimonies, StageIndex stage);

}  // namespace swarm::protocol
