// Which trainer may write: what is durable is fenced by claims, as control is by terms. A trainer
// that was only stopped, and wakes when another has taken its place, finds the other's claim and
// writes nothing more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "worker/protocol/ids.h"
#include "worker/storage/storage.h"

namespace swarm::trainer {

/// A trainer's place in the order of all that have ever written below a uri, of this job or of
/// others before it: trainers/00000007.json, made if absent, so that each number is one trainer's.
/// Calls may come from any thread, one at a time.
class Claim {
 public:
  /// Takes the next number. Errors: kAborted (a trainer of the job with a higher term was here),
  /// those of Storage.
  static Result<std::unique_ptr<Claim>> Make(std::unique_ptr<state::Storage> storage,
                                             const std::string& job_uid, protocol::Term term);

  /// To be asked right before each write that others see. kAborted: a later trainer has made its
  /// claim, so nothing may be written any more. Other errors: those of Storage; nobody knows.
  ///
  /// Between the answer and the write a process may still be stopped. What is written then must be
  /// harmless: a manifest is made if absent and says what any trainer would of that generation and
  /// version; lines go to a file that the later trainer has put another in place of.
  Status Check();

  std::uint64_t number() const { return number_; }

 private:
  Claim(std::unique_ptr<state::Storage> storage, std::uint64_t number)
      : storage_(std::move(storage)), number_(number) {}

  const std::unique_ptr<state::Storage> storage_;
  const std::uint64_t number_;
};

}  // namespace swarm::trainer
