// What survives the death of trainers and workers: the newest trainer's term, generations,
// checkpoints and the run's log. Every change names the trainer's term. The store refuses it when a
// newer trainer has claimed the store (docs/protocol.md, rule 4).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/arithmetic.h"

namespace swarm::simulation {

/// A generation, and the state that it begins with.
struct Beginning {
  protocol::Generation generation;
  protocol::Version version;
  std::string uri;  ///< empty: the initial weights
};

/// A line of steps.jsonl.
struct StepLine {
  protocol::Generation generation;
  protocol::CommitRecord record;
};

class DurableStore {
 public:
  DurableStore();

  /// A new trainer's term. It supersedes all trainers of lower terms.
  protocol::Term ClaimTerm();
  bool IsSuperseded(protocol::Term term) const { return term < newest_term_; }

  /// Not empty: why the log is wrong from now on. Does not write a line again that the log has.
  std::string Append(const protocol::CommitRecord& record);
  /// Makes the checkpoint visible. Not empty: why it is not a checkpoint.
  std::string Publish(protocol::Generation generation, protocol::Version version,
                      const std::vector<protocol::CheckpointFile>& files, std::uint64_t stages);
  /// Creates the generation with the newest checkpoint and cuts the log to it. Returns the existing
  /// generation if there is one.
  Beginning Begin(protocol::Generation generation);
  const Beginning& newest() const { return generations_.rbegin()->second; }

  void Write(const std::string& file, const StageState& state) { files_[file] = state; }
  /// A stage's part of a published checkpoint.
  const StageState* Load(const std::string& uri, protocol::StageIndex stage) const;
  const std::vector<StepLine>& log() const { return log_; }
  static std::string FileOf(protocol::Generation generation, protocol::Version version,
                            protocol::StageIndex stage);

 private:
  struct Manifest {
    protocol::Generation generation;
    protocol::Version version;
    std::vector<StageState> stages;
  };
  protocol::Term newest_term_;
  std::map<protocol::Generation, Beginning> generations_;
  std::map<std::string, Manifest> manifests_;
  std::map<std::string, StageState> files_;
  std::vector<StepLine> log_;
};

}  // namespace swarm::simulation
