#include "worker/chaos/holds.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/log.h"

namespace swarm::chaos {
namespace {

constexpr Duration kHoldMax = std::chrono::seconds(10);
constexpr Duration kPoll = std::chrono::milliseconds(5);
constexpr std::array<std::string_view, 4> kPhaseNames = {"forward", "backward", "reduce", "commit"};

}  // namespace

std::string_view NameOf(WorkPhase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

std::optional<WorkPhase> FindWorkPhase(std::string_view name) {
  const auto found = std::find(kPhaseNames.begin(), kPhaseNames.end(), name);
  if (found == kPhaseNames.end()) return std::nullopt;
  return static_cast<WorkPhase>(found - kPhaseNames.begin());
}

std::string FormatHolds(const std::vector<Hold>& holds) {
  std::string text;
  for (const Hold& hold : holds) {
    text += "hold " + hold.worker + " " + std::string(NameOf(hold.phase)) + " " +
            std::to_string(hold.step) + "\n";
  }
  return text;
}

Result<std::vector<Hold>> ParseHolds(std::string_view text) {
  std::vector<Hold> holds;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string verb, phase, rest;
    Hold hold;
    if (!(words >> verb) || verb != "hold") continue;
    const bool whole = static_cast<bool>(words >> hold.worker >> phase >> hold.step);
    const auto known = FindWorkPhase(phase);
    if (!whole || !known || words >> rest) {
      return InvalidArgument("'" + line + "': expected 'hold WORKER PHASE STEP'");
    }
    hold.phase = *known;
    holds.push_back(std::move(hold));
  }
  return holds;
}

std::string HeldFile(const std::string& rules_file, const std::string& worker) {
  return rules_file + ".held." + worker;
}

HoldPoint::HoldPoint(std::string rules_file, protocol::WorkerId self)
    : rules_file_(std::move(rules_file)), self_(std::move(self.value)) {}

std::optional<Hold> HoldPoint::Find(WorkPhase phase, protocol::Step step) const {
  std::ifstream in(rules_file_);
  std::ostringstream text;
  text << in.rdbuf();
  // FaultyEndpoint reads the same file, and reports its errors.
  const auto holds = ParseHolds(text.str());
  for (const Hold& hold : holds.ok() ? *holds : std::vector<Hold>()) {
    const bool here = hold.worker == self_ && hold.phase == phase && step.value >= hold.step;
    if (here && std::find(passed_.begin(), passed_.end(), hold) == passed_.end()) return hold;
  }
  return std::nullopt;
}

void HoldPoint::Pass(WorkPhase phase, protocol::Step step) {
  const std::optional<Hold> hold = Find(phase, step);
  if (!hold) return;
  LOG_INFO("held at its {} of step {}", NameOf(phase), step.value);
  const std::string file = HeldFile(rules_file_, self_);
  std::ofstream(file) << FormatHolds({*hold});
  const Timepoint deadline = Clock::now() + kHoldMax;
  while (Find(phase, step) == hold && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
  passed_.push_back(*hold);
  std::error_code gone;
  std::filesystem::remove(file, gone);
}

}  // namespace swarm::chaos
