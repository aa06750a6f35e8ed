#include "ctl/chaos/chaos.h"

#include <algorithm>
#include <cmath>

#include "ctl/numbers.h"

namespace swarm::ctl {
namespace {

constexpr Duration kSalvoLimit = std::chrono::seconds(1);

bool Reached(const ChaosMoment& moment, Duration now, std::uint64_t steps) {
  return moment.step ? steps >= *moment.step : now >= moment.time;
}

/// The programs that the line may meet, by name.
std::vector<std::string> Candidates(const ChaosLine& line,
                                    const std::vector<LivingProgram>& living) {
  std::vector<std::string> names;
  for (const LivingProgram& program : living) {
    const bool meant =
        !line.any ? program.name == line.fault.target
                  : !program.trainer && (!line.any_of_stage || program.stage == line.any_of_stage);
    if (meant) names.push_back(program.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string_view NameOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKill:
      return "kill";
    case FaultKind::kStop:
      return "stop";
    case FaultKind::kContinue:
      return "continue";
    case FaultKind::kSlow:
      return "slow";
    case FaultKind::kCut:
      return "cut";
    case FaultKind::kDelay:
      return "delay";
    case FaultKind::kCorrupt:
      return "corrupt";
    case FaultKind::kJoin:
      return "join";
    case FaultKind::kDrain:
      return "drain";
  }
  SWARM_CHECK(false, "no such fault");
  return "";
}

std::string Describe(const Fault& fault) {
  std::string text(NameOf(fault.kind));
  if (!fault.target.empty()) text += " " + fault.target;
  if (fault.kind == FaultKind::kSlow) text += " by " + FormatNumber(fault.factor);
  if (fault.kind == FaultKind::kCut) text += (fault.one_way ? " to " : " from ") + fault.other;
  if (fault.kind == FaultKind::kDelay) text += " by " + FormatSeconds(fault.amount);
  if (fault.kind == FaultKind::kDrain) text += " with a grace of " + FormatSeconds(fault.amount);
  if (fault.kind == FaultKind::kJoin) text += " " + std::to_string(fault.count);
  return fault.over ? text + " is over" : text;
}

ChaosSchedule::ChaosSchedule(std::vector<ChaosLine> lines) {
  for (ChaosLine& line : lines) {
    // By place too, so that two equal lines do not always draw the same worker.
    Rng rng(MixAll(line.seed, entries_.size()));
    entries_.push_back({std::move(line), rng});
  }
}

void ChaosSchedule::Advance(Entry& entry) {
  const double mean = ToSeconds(*entry.line.every);
  entry.next += entry.line.random ? FromSeconds(-std::log(1 - entry.rng.Uniform()) * mean)
                                  : *entry.line.every;
}

bool ChaosSchedule::IsDue(Entry& entry, Duration now, std::uint64_t steps,
                          const std::vector<chaos::Hold>& held) const {
  const ChaosLine& line = entry.line;
  if (entry.done) return false;
  if (line.fault.hold) return std::find(held.begin(), held.end(), *line.fault.hold) != held.end();
  if (line.at) return Reached(*line.at, now, steps);
  if (!entry.started) {
    if (!Reached(line.after, now, steps)) return false;
    entry.started = true;
    entry.next = line.after.step ? now : line.after.time;
    Advance(entry);
  }
  while (now - entry.next > kSalvoLimit) Advance(entry);
  const Duration when = entry.next;
  if (line.until && Reached(*line.until, line.until->step ? now : when, steps)) entry.done = true;
  return !entry.done && now >= when;
}

std::vector<Fault> ChaosSchedule::Due(Duration since_start, std::uint64_t steps_committed,
                                      const std::vector<LivingProgram>& living,
                                      const std::vector<chaos::Hold>& held) {
  std::vector<Fault> due;
  for (auto it = lasting_.begin(); it != lasting_.end();) {
    if (since_start < it->end) {
      ++it;
      continue;
    }
    due.push_back(it->fault);
    it = lasting_.erase(it);
  }
  std::vector<LivingProgram> left = living;
  for (Entry& entry : entries_) {
    while (IsDue(entry, since_start, steps_committed, held)) {
      const std::size_t before = due.size();
      Emit(entry, since_start, left, due);
      if (due.size() == before) break;  // it waits for its target
    }
  }
  return due;
}

void ChaosSchedule::Emit(Entry& entry, Duration now, std::vector<LivingProgram>& living,
                         std::vector<Fault>& due) {
  Fault fault = entry.line.fault;
  const bool needs_target = fault.kind != FaultKind::kJoin && fault.target != "all";
  if (needs_target) {
    const std::vector<std::string> names = Candidates(entry.line, living);
    if (names.empty()) return;
    fault.target = names[entry.rng.Below(names.size())];
  }
  due.push_back(fault);
  if (fault.kind == FaultKind::kKill || fault.kind == FaultKind::kDrain) {
    std::erase_if(living, [&](const LivingProgram& it) { return it.name == fault.target; });
  }
  if (entry.line.lasts) {
    fault.over = true;
    fault.hold.reset();
    lasting_.push_back({now + *entry.line.lasts, fault});
  }
  if (entry.line.at) {
    entry.done = true;
  } else {
    Advance(entry);
  }
}

}  // namespace swarm::ctl
