#include "ctl/chaos/chaos_driver.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "ctl/files.h"

namespace swarm::ctl {
namespace {

/// From a fault to when whoever waited for it goes on: it has met all programs by then.
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

std::vector<LivingProgram> Living(const std::vector<ObservedWorker>& observed,
                                  const protocol::JobStatus* said) {
  std::map<std::string, std::uint64_t> stages;
  if (said != nullptr) {
    for (const auto& stage : said->stages) {
      for (const auto& worker : stage.workers) {
        if (worker.state == protocol::WorkerState::kJoining) continue;
        stages[worker.id.value] = stage.stage.value;
      }
    }
  }
  std::vector<LivingProgram> living;
  for (const ObservedWorker& program : observed) {
    if (program.phase != Phase::kRunning) continue;
    living.push_back({program.name, program.role == Role::kTrainer, {}});
    const auto stage = stages.find(program.name);
    if (stage != stages.end()) living.back().stage = stage->second;
  }
  return living;
}

}  // namespace

ChaosDriver::ChaosDriver(std::vector<ChaosLine> lines, Options options, Backend& backend)
    : options_(std::move(options)), backend_(backend), schedule_(lines) {
  for (const ChaosLine& line : lines) {
    const auto& hold = line.fault.hold;
    if (hold && std::find(holds_.begin(), holds_.end(), *hold) == holds_.end()) {
      holds_.push_back(*hold);
    }
  }
}

bool ChaosDriver::NeedsRulesFile(const std::vector<ChaosLine>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const ChaosLine& line) {
    return line.fault.hold || IsOfNetwork(line.fault.kind);
  });
}

Status ChaosDriver::Prepare() {
  RETURN_IF_ERROR(WriteRules());
  return WriteFile(options_.record_file, "");
}

Status ChaosDriver::WriteRules() const {
  if (options_.rules_file.empty()) return Status();
  return WriteFile(options_.rules_file,
                   chaos::FormatFaultRules(rules_) + chaos::FormatHolds(holds_));
}

std::vector<chaos::Hold> ChaosDriver::Held() const {
  std::vector<chaos::Hold> held;
  for (const chaos::Hold& hold : holds_) {
    const auto said = ReadFile(chaos::HeldFile(options_.rules_file, hold.worker));
    if (said.ok() && *said == chaos::FormatHolds({hold})) held.push_back(hold);
  }
  return held;
}

void ChaosDriver::Release(Duration since_start) {
  const auto is_over = [&](const auto& release) { return since_start >= release.second; };
  const auto over = std::stable_partition(releases_.begin(), releases_.end(), std::not_fn(is_over));
  if (over == releases_.end()) return;
  for (auto it = over; it != releases_.end(); ++it) std::erase(holds_, it->first);
  releases_.erase(over, releases_.end());
  // If it cannot be written they go on after a while.
  (void)WriteRules();
}

void ChaosDriver::Act(Duration since_start, std::uint64_t steps_committed,
                      const std::vector<ObservedWorker>& observed,
                      const protocol::JobStatus* said) {
  Release(since_start);
  for (const Fault& fault :
       schedule_.Due(since_start, steps_committed, Living(observed, said), Held())) {
    const Status status = Carry(fault);
    if (fault.hold) releases_.emplace_back(*fault.hold, since_start + kReleaseDelay);
    // What lasted longer than its target needs no end.
    if (fault.over && status.code() == StatusCode::kNotFound) continue;
    Record(fault, since_start, steps_committed, status);
  }
}

Status ChaosDriver::Carry(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kKill:
      return backend_.Signal(fault.target, SIGKILL);
    case FaultKind::kStop:
      return backend_.Signal(fault.target, fault.over ? SIGCONT : SIGSTOP);
    case FaultKind::kContinue:
      return backend_.Signal(fault.target, SIGCONT);
    case FaultKind::kSlow:
      return backend_.Slow(fault.target, fault.over ? 1 : fault.factor);
    case FaultKind::kCut:
    case FaultKind::kDelay:
      return Disturb(fault);
    case FaultKind::kDrain:
      backend_.Terminate(fault.target, fault.amount);
      return Status();
    case FaultKind::kJoin:
      for (std::uint64_t i = 0; i < fault.count; ++i) RETURN_IF_ERROR(options_.join());
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
    // One of them: another fault may ask for the same, for longer.
    const auto found = std::find(rules_.begin(), rules_.end(), rule);
    if (found != rules_.end()) rules_.erase(found);
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
  for (const ObservedWorker& program : backend_.Observe()) {
    if (program.phase != Phase::kRunning) continue;
    // One that ends between the look and the deed needs neither.
    (void)backend_.Slow(program.name, 1);
    (void)backend_.Signal(program.name, SIGCONT);
  }
  rules_.clear();
  holds_.clear();
  (void)WriteRules();
}

}  // namespace swarm::ctl
