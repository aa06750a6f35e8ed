// The lines of steps.jsonl beside the checkpoints, where they outlive the trainer's machine. The
// user and the next trainer find the whole loss curve there.
//
// The file steps/g000001-t000002-00000150.jsonl has lines of generation 1 from step 150 on, written
// by the trainer of term 2. Lines of a higher generation replace all lines from their first step
// on. Within a generation all trainers write the same line for a step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/protocol/ids.h"
#include "worker/storage/storage.h"

namespace swarm::trainer {

/// Part of a job's steps, ready to be written.
struct StepPiece {
  std::string name;
  std::string lines;
};

/// Gathers lines and decides which pieces to write. It rewrites a piece until the piece is long
/// enough. Each trainer writes only pieces of its own, so a late write does no harm. Pure, not
/// thread-safe.
class StepArchive {
 public:
  explicit StepArchive(protocol::Term term) : term_(term) {}

  /// `line` as it stands in steps.jsonl, without its end.
  void Add(protocol::Generation generation, std::uint64_t step, const std::string& line);
  /// The pieces that have changed since the last call, oldest first. Give back with Retry a piece
  /// that could not be written.
  std::vector<StepPiece> TakeChanged();
  void Retry(std::vector<StepPiece> pieces);
  bool changed() const { return grown_ || !changed_.empty(); }

 private:
  const protocol::Term term_;
  protocol::Generation generation_;
  std::string name_;  // of the piece that grows; empty: none
  std::string lines_;
  std::uint64_t count_ = 0;
  bool grown_ = false;                          // since it was taken
  std::map<std::string, std::string> changed_;  // by name
  std::map<std::string, std::size_t> taken_;    // bytes of each piece when it was last taken
};

/// All lines in the storage, by step: from step 0 on without a gap, as far as trainers came to
/// write them. Errors: those of Storage. Leaves out text that is no line.
Result<std::map<std::uint64_t, std::string>> ReadSteps(storage::Storage& storage);

}  // namespace swarm::trainer
