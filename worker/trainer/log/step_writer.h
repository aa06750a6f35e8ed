// Writes the lines of a StepArchive beside the checkpoints, on a loop for storage.
#pragma once

#include <string>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "worker/trainer/log/step_archive.h"

namespace swarm::trainer {

/// Belongs to `control`. Both loops stop before it ends.
class StepWriter {
 public:
  StepWriter(const api::Spec& spec, protocol::Term term, Loop& control, Loop& storage)
      : uri_(spec.checkpoint.uri),
        options_(spec.storage),
        control_(control),
        storage_(storage),
        archive_(term) {}

  /// As StepArchive::Add.
  void Add(protocol::Generation generation, std::uint64_t step, const std::string& line) {
    archive_.Add(generation, step, line);
  }
  /// Writes the changed pieces now. The next call repeats a write that failed.
  void Write();
  /// The same every ten seconds: the lines of so long may go with the trainer.
  void OnTick(Timepoint now);

 private:
  const std::string uri_;
  const api::Storage options_;
  Loop& control_;
  Loop& storage_;
  StepArchive archive_;
  int writing_ = 0;  // batches on their way
  Timepoint written_;
};

}  // namespace swarm::trainer
