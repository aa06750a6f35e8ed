#include "ctl/chaos/chaos_driver.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "worker/chaos/corruption.h"

namespace swarm::ctl {
namespace {

/// From a fault to the end of the hold that waited for it. By then the fault has reached all
/// programs.
constexpr Duration kReleaseDelay = std::chrono::milliseconds(100);

bool IsOfNetwork(FaultKind kind) { return kind == FaultKind::kCut || kind == FaultKind::kDelay; }

std::string Pattern(const std::string& target) { return target == "all" ? "*" : target; }

chaos::FaultRules RulesOf(const Fault& fault) {
  const std::string target = Pattern(fault.target);
  if (fault.kind == FaultKind::kDelay) {
    return {{target, "*", fault.amount}, {"*", target, fault.amount}};
  }
  const std::string other = Pattern(fault.other);
  chaos::FaultRules rules = {{target, other, {}}};
  if (!fault.one_way) rules.push_back({other, target, {}});
  return rules;
}

}  // namespace

ChaosDriver::ChaosDriver(std::vector<ChaosLine> lines, Options options, ProgramControl control)
    : options_(std::move(options)), control_(std::move(control)), schedule_(lines) {
  for (const ChaosLine& line : lines) {
    const auto& hold = line.fault.hold;
    if (hold && std::find(holds_.begin(), holds_.end(), *hold) == holds_.end()) {
      holds_.push_back(*hold);
    }
  }
}

bool ChaosDriver::NeedsRulesFile(const std::vector<ChaosLine>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const ChaosLine& line) {
    return line.fault.hold || IsOfNetwork(line.fault.kind) ||
           line.fault.kind == FaultKind::kCorrupt;
  });
}

Status ChaosDriver::Prepare() {
  RETURN_IF_ERROR(WriteRules());
  return WriteFile(options_.record_file, "");
}

Status ChaosDriver::WriteRules() const {
  if (options_.rules_file.empty()) return Status();
  return WriteFile(options_.rules_file, chaos::FormatFaultRules(rules_) +
                                            chaos::FormatHolds(holds_) +
                                            chaos::FormatCorrupt(corrupt_));
}

std::vector<chaos::Hold> ChaosDriver::Held() const {
  std::vector<chaos::Hold> held;
  for (const chaos::Hold& hold : holds_) {
    const auto said = ReadFile(chaos::HeldFile(options_.rules_file, hold.worker));
    if (said.ok() && *said == chaos::FormatHolds({hold})) held.push_back(hold);
  }
  return held;
}

std::vector<LivingProgram> ChaosDriver::Living(const protocol::JobStatus* said) const {
  std::vector<LivingProgram> living = control_.living();
  if (said == nullptr) return living;
  std::map<std::string, std::uint64_t> stages;
  for (const auto& stage : said->stages) {
    for (const auto& worker : stage.workers) {
      if (worker.state == protocol::WorkerState::kJoining) continue;
      stages[worker.id.value] = stage.stage.value;
    }
  }
  for (LivingProgram& program : living) {
    const auto stage = stages.find(program.name);
    if (stage != stages.end()) program.stage = stage->second;
  }
  return living;
}

void ChaosDriver::Release(Duration since_start) {
  const auto is_over = [&](const auto& release) { return since_start >= release.second; };
  const auto over = std::stable_partition(releases_.begin(), releases_.end(), std::not_fn(is_over));
  if (over == releases_.end()) return;
  for (auto it = over; it != releases_.end(); ++it) std::erase(holds_, it->first);
  releases_.erase(over, releases_.end());
  // If the file cannot be written, the workers go on after a time limit of their own.
  (void)WriteRules();
}

void ChaosDriver::Act(Duration since_start, std::uint64_t steps_committed,
                      const protocol::JobStatus* said) {
  Release(since_start);
  for (const Fault& fault : schedule_.Due(since_start, steps_committed, Living(said), Held())) {
    const Status status = Carry(fault);
    if (fault.hold) releases_.emplace_back(*fault.hold, since_start + kReleaseDelay);
    // The target of a fault may end before the fault does.
    if (fault.over && status.code() == StatusCode::kNotFound) continue;
    Record(fault, since_start, steps_committed, status);
  }
}

Status ChaosDriver::Carry(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kKill:
      return control_.signal(fault.target, SIGKILL);
    case FaultKind::kStop:
      return control_.signal(fault.target, fault.over ? SIGCONT : SIGSTOP);
    case FaultKind::kContinue:
      return control_.signal(fault.target, SIGCONT);
    case FaultKind::kSlow:
      return control_.slow(fault.target, fault.over ? 1 : fault.factor);
    case FaultKind::kCut:
    case FaultKind::kDelay:
      return Disturb(fault);
    case FaultKind::kCorrupt:
      return Corrupt(fault);
    case FaultKind::kDrain:
      control_.terminate(fault.target, fault.amount);
      return Status();
    case FaultKind::kJoin:
      for (std::uint64_t i = 0; i < fault.count; ++i) RETURN_IF_ERROR(control_.join());
      return Status();
  }
  return Internal("no such fault");
}

Status ChaosDriver::Disturb(const Fault& fault) {
  for (chaos::FaultRule& rule : RulesOf(fault)) {
    if (!fault.over) {
      rules_.push_back(std::move(rule));
      continue;
    }
    // Removes one rule only: another fault may have added the same rule for a longer time.
    const auto found = std::find(rules_.begin(), rules_.end(), rule);
    if (found != rules_.end()) rules_.erase(found);
  }
  return WriteRules();
}

Status ChaosDriver::Corrupt(const Fault& fault) {
  const auto found = std::find(corrupt_.begin(), corrupt_.end(), fault.target);
  if (!fault.over) {
    corrupt_.push_back(fault.target);
  } else if (found != corrupt_.end()) {
    corrupt_.erase(found);
  }
  return WriteRules();
}

void ChaosDriver::Record(const Fault& fault, Duration since_start, std::uint64_t steps,
                         const Status& status) {
  const std::string text = Describe(fault);
  options_.tell("Chaos: " + text + ", step " + std::to_string(steps) +
                (status.ok() ? "" : "; impossible: " + status.message()));
  const double time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  nlohmann::json line = {{"time", time},
                         {"seconds", ToSeconds(since_start)},
                         {"step", steps},
                         {"fault", NameOf(fault.kind)},
                         {"target", fault.target},
                         {"over", fault.over},
                         {"text", text}};
  if (fault.hold) {
    line["held"] = {{"worker", fault.hold->worker}, {"phase", chaos::NameOf(fault.hold->phase)}};
  }
  if (!status.ok()) line["error"] = status.message();
  std::ofstream(options_.record_file, std::ios::app) << line.dump() + "\n";
}

void ChaosDriver::End() {
  for (const LivingProgram& program : control_.living()) {
    // If the program has ended meanwhile, both calls fail, which is fine.
    (void)control_.slow(program.name, 1);
    (void)control_.signal(program.name, SIGCONT);
  }
  rules_.clear();
  corrupt_.clear();
  holds_.clear();
  (void)WriteRules();
}

}  // namespace swarm::ctl
