// The fence of a folder: which trainer may write there. Terms fence a trainer's messages; this
// fences its writes. A trainer that was only stopped, and wakes after another one has taken its
// place, finds the later entry and writes nothing more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "worker/protocol/ids.h"
#include "worker/storage/storage.h"

namespace swarm::trainer {

/// A trainer's place in the order of all trainers that have ever written below a uri, of this job
/// or of jobs before it. An entry of the order is the file trainers/00000007.json; it is made only
/// if absent, so each number belongs to one trainer. Calls may come from any thread, one at a time.
class Fence {
 public:
  /// Takes the next number. Errors: kAborted (a trainer of the job with a higher term was here),
  /// those of Storage.
  static Result<std::unique_ptr<Fence>> Make(std::unique_ptr<storage::Storage> storage,
                                             const std::string& job_uid, protocol::Term term);

  /// Call this right before each write that others see. Errors: kAborted (a later trainer has made
  /// its entry: write nothing any more), those of Storage (it is unknown whether there is one).
  ///
  /// A process may be stopped between the answer and the write. So such a write must be harmless: a
  /// manifest is made only if absent, and has the content that any trainer would give it for that
  /// generation and version; lines go to a file that the later trainer has replaced.
  Status Check();

  std::uint64_t number() const { return number_; }

 private:
  Fence(std::unique_ptr<storage::Storage> storage, std::uint64_t number)
      : storage_(std::move(storage)), number_(number) {}

  const std::unique_ptr<storage::Storage> storage_;
  const std::uint64_t number_;
};

}  // namespace swarm::trainer
