#include "worker/protocol/coordinator/membership/holders.h"

#include <algorithm>

#include "worker/protocol/parts.h"

namespace swarm::protocol {

bool Holders::IsDivided(GroupIndex group) const {
  const auto& sizes = job_.options.part_sizes;
  return group.value < sizes.size() && !sizes[group.value].empty();
}

bool Holders::IsDivided(StageIndex stage) const {
  return std::ranges::any_of(job_.groups, [&](const ReduceGroup& group) {
    return group.Has(stage) && IsDivided(group.index);
  });
}

std::vector<std::set<WorkerId>>& Holders::At(GroupIndex group) {
  std::vector<std::set<WorkerId>>& parts = groups_[group];
  parts.resize(job_.options.part_sizes[group.value].size());
  return parts;
}

const std::vector<std::set<WorkerId>>& Holders::At(GroupIndex group) const {
  return groups_.at(group);
}

void Holders::AddWhole(const WorkerId& id, StageIndex stage) {
  for (const ReduceGroup& group : job_.groups) {
    if (!group.Has(stage) || !IsDivided(group.index)) continue;
    for (std::set<WorkerId>& holders : At(group.index)) holders.insert(id);
  }
}

void Holders::Lose(const WorkerId& id) {
  for (auto& [group, parts] : groups_) {
    for (std::set<WorkerId>& holders : parts) holders.erase(id);
  }
}

void Holders::OnCommitted(const CommitRecord& record, const std::set<WorkerId>& gone) {
  for (const GroupResult& result : record.groups) {
    if (!IsDivided(result.group)) continue;
    std::vector<std::set<WorkerId>>& parts = At(result.group);
    for (std::size_t p = 0; p < std::min(parts.size(), result.holders.size()); ++p) {
      parts[p].clear();
      for (const WorkerId& id : {result.holders[p].first, result.holders[p].second}) {
        if (!id.empty() && !gone.contains(id)) parts[p].insert(id);
      }
    }
  }
}

std::vector<PartHolders> Holders::Choose(GroupIndex group,
                                         const std::vector<WorkerId>& replicas) const {
  return ChooseHolders(job_.options.part_sizes[group.value], At(group), replicas);
}

const std::set<WorkerId>& Holders::Of(const PartName& name) const {
  return At(name.group)[name.part];
}

std::vector<PartName> Holders::PartsOf(StageIndex stage) const {
  std::vector<PartName> names;
  for (const ReduceGroup& group : job_.groups) {
    if (!group.Has(stage) || !IsDivided(group.index)) continue;
    for (std::uint64_t p = 0; p < job_.options.part_sizes[group.index.value].size(); ++p) {
      names.push_back({group.index, p});
    }
  }
  return names;
}

bool Holders::CanSpare(const WorkerId& id, const std::vector<WorkerId>& others) const {
  for (const auto& [group, parts] : groups_) {
    for (const std::set<WorkerId>& holders : parts) {
      if (!holders.contains(id)) continue;
      const bool held = std::ranges::any_of(
          others, [&](const WorkerId& other) { return other != id && holders.contains(other); });
      if (!held) return false;
    }
  }
  return true;
}

std::optional<StageIndex> Holders::FindLost() const {
  for (const ReduceGroup& group : job_.groups) {
    if (!IsDivided(group.index)) continue;
    const auto parts = groups_.find(group.index);
    const bool lost =
        parts == groups_.end() || std::ranges::any_of(parts->second, &std::set<WorkerId>::empty);
    if (lost) return group.stages.front();
  }
  return std::nullopt;
}

}  // namespace swarm::protocol
