#include "worker/protocol/coordinator/step/state_reports.h"

#include <algorithm>

namespace swarm::protocol {

bool StateReports::Add(const WorkerId& from, StageIndex stage, Version version,
                       const Digest& state) {
  while (reports_.size() >= 8 * job_.stages()) reports_.erase(reports_.begin());
  Reports& reports = reports_[{version, stage}];
  reports.differ |= !reports.states.empty() && reports.states.begin()->second != state;
  reports.states[from] = state;
  return reports.differ;
}

std::map<PartName, std::set<WorkerId>> StateReports::AddParts(
    const WorkerId& from, Version version, const std::vector<PartDigest>& parts) {
  const Version oldest(version.value - std::min<std::uint64_t>(version.value, 4));
  parts_.erase(parts_.begin(), parts_.lower_bound({oldest, PartName{}}));
  std::map<PartName, std::set<WorkerId>> different;
  for (const PartDigest& part : parts) {
    auto& reports = parts_[{version, part.name}];
    for (const auto& [id, digest] : reports) {
      if (id != from && digest != part.digest) different[part.name].insert(id);
    }
    reports[from] = part.digest;
  }
  return different;
}

void StateReports::Settle(Version version) {
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    const auto state = FindReported(version, StageIndex(s));
    if (state) settled_[{version, StageIndex(s)}] = *state;
  }
}

std::optional<Digest> StateReports::Find(Version version, StageIndex stage) const {
  const auto settled = settled_.find({version, stage});
  if (settled != settled_.end()) return settled->second;
  return FindReported(version, stage);
}

std::optional<Digest> StateReports::FindReported(Version version, StageIndex stage) const {
  const auto reports = reports_.find({version, stage});
  if (reports == reports_.end() || !members_.HaveReported(version, stage)) return std::nullopt;
  std::optional<Digest> state;
  for (const WorkerId& id : members_.ReadyReplicas(stage)) {
    const auto report = reports->second.states.find(id);
    if (report == reports->second.states.end()) continue;  // it came with a later version
    if (state && *state != report->second) return std::nullopt;
    state = report->second;
  }
  return state;
}

void StateReports::Lose(const WorkerId& worker) {
  for (auto& [of, reports] : reports_) reports.states.erase(worker);
}

void StateReports::ForgetBefore(Version version) {
  settled_.erase(settled_.begin(), settled_.lower_bound({version, StageIndex(0)}));
}

void StateReports::Clear() {
  reports_.clear();
  settled_.clear();
  parts_.clear();
}

}  // namespace swarm::protocol
