// Carries out what a chaos script says (chaos.h): signals and slowness through the backend, cuts
// and delays through a file of rules that the programs read (worker/chaos/fault_rules.h).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ctl/chaos/chaos.h"
#include "ctl/run/backend.h"
#include "worker/chaos/fault_rules.h"
#include "worker/chaos/holds.h"
#include "worker/protocol/messages/message.h"

namespace swarm::ctl {

/// Used from one thread, the backend's.
class ChaosDriver {
 public:
  struct Options {
    std::filesystem::path rules_file;   ///< for cuts, delays and holds; empty: the script has none
    std::filesystem::path record_file;  ///< gets a JSON object a fault
    std::function<Status()> join;       ///< starts one more worker
    std::function<void(const std::string&)> tell;  ///< a line for the user
  };

  ChaosDriver(std::vector<ChaosLine> lines, Options options, Backend& backend);

  /// Whether the programs of the job need the file of rules.
  static bool NeedsRulesFile(const std::vector<ChaosLine>& lines);

  /// Before the programs start: where workers are to wait and no other rules, an empty record.
  /// Errors: kUnavailable (cannot be written).
  Status Prepare();

  /// Carries out what is due and records it as {time, seconds, step, fault, target, over, text,
  /// held, error}: `time` of day in seconds since 1970, `seconds` since the start, `over` where a
  /// fault that lasted ends, `held` who was waiting in which phase where that was asked for,
  /// `error` why it could not be done. `said` tells the workers' stages; may be null.
  void Act(Duration since_start, std::uint64_t steps_committed,
           const std::vector<ObservedWorker>& observed, const protocol::JobStatus* said);

  /// Undoes all that lasts, so that the programs can end in order.
  void End();

 private:
  Status Carry(const Fault& fault);
  Status Disturb(const Fault& fault);
  Status WriteRules() const;
  /// The holds in which a worker is waiting now.
  std::vector<chaos::Hold> Held() const;
  /// Lets those go on whose fault has had its time.
  void Release(Duration since_start);
  void Record(const Fault& fault, Duration since_start, std::uint64_t steps, const Status& status);

  const Options options_;
  Backend& backend_;
  ChaosSchedule schedule_;
  chaos::FaultRules rules_;
  std::vector<chaos::Hold> holds_;                          // in the file
  std::vector<std::pair<chaos::Hold, Duration>> releases_;  // when
};

}  // namespace swarm::ctl
