// Carries out the faults of a chaos script (chaos.h): signals and slowness directly, cuts and
// delays through a file of rules that the programs read (worker/chaos/fault_rules.h).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "ctl/chaos/chaos.h"
#include "worker/chaos/fault_rules.h"
#include "worker/chaos/holds.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::ctl {

/// What the driver can do to the programs of a run. Functions, so that a test can record what the
/// driver asks for. Errors of `signal` and `slow`: kNotFound (no program of this name runs).
struct ProgramControl {
  std::function<std::vector<LivingProgram>()> living;  ///< all that run; their stages are not used
  std::function<Status(const std::string& name, int signal)> signal;
  std::function<Status(const std::string& name, double factor)> slow;      ///< 1: full speed
  std::function<void(const std::string& name, Duration grace)> terminate;  ///< SIGTERM, SIGKILL
  std::function<Status()> join;                                            ///< starts one worker
};

/// Used from one thread.
class ChaosDriver {
 public:
  struct Options {
    /// For cuts, delays, holds and workers that err; empty: the script has none.
    std::filesystem::path rules_file;
    std::filesystem::path record_file;             ///< gets a JSON object for each fault
    std::function<void(const std::string&)> tell;  ///< a line for the user
  };

  ChaosDriver(std::vector<ChaosLine> lines, Options options, ProgramControl control);

  /// Whether the programs of the job need the file of rules.
  static bool NeedsRulesFile(const std::vector<ChaosLine>& lines);

  /// Call before the programs start. Writes the rules file with the moments at which workers wait,
  /// and an empty record. Errors: kUnavailable (cannot be written).
  Status Prepare();

  /// Carries out the faults that are due, and records each as a JSON object with the fields time
  /// (seconds since 1970), seconds (since the start), step, fault, target, over (true at the end of
  /// a fault with a duration), text, held (the worker that waited for the fault, and in which
  /// phase, if the script asks for that), error (why the fault was impossible). `said` gives the
  /// stages of the workers; may be null.
  void Act(Duration since_start, std::uint64_t steps_committed, const protocol::JobStatus* said);

  /// Ends all faults with a duration, so that the programs can end in order.
  void End();

 private:
  Status Carry(const Fault& fault);
  Status Disturb(const Fault& fault);
  Status Corrupt(const Fault& fault);
  Status WriteRules() const;
  std::vector<LivingProgram> Living(const protocol::JobStatus* said) const;
  /// The holds in which a worker waits now.
  std::vector<chaos::Hold> Held() const;
  /// Ends the holds whose fault happened kReleaseDelay ago.
  void Release(Duration since_start);
  void Record(const Fault& fault, Duration since_start, std::uint64_t steps, const Status& status);

  const Options options_;
  const ProgramControl control_;
  ChaosSchedule schedule_;
  chaos::FaultRules rules_;
  std::vector<std::string> corrupt_;                        // workers whose gradients are wrong
  std::vector<chaos::Hold> holds_;                          // in the file
  std::vector<std::pair<chaos::Hold, Duration>> releases_;  // when
};

}  // namespace swarm::ctl
