// Which workers hold the optimizer's moments of which part of their stage, at the version that the
// job has made last (docs/protocol.md, rule 31).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "worker/protocol/coordinator/job.h"

namespace swarm::protocol {

class Holders {
 public:
  explicit Holders(const Job* job) : job_(*job) {}

  /// The group's parts have holders. Else each replica holds the whole of it.
  bool IsDivided(GroupIndex group) const;
  bool IsDivided(StageIndex stage) const;
  /// The worker has the whole state of its stage, as it was loaded.
  void AddWhole(const WorkerId& id, StageIndex stage);
  void Lose(const WorkerId& id);
  /// Nobody can tell which of its holders is right, and others have taken its weights.
  void Lose(const PartName& name) { At(name.group)[name.part].clear(); }
  /// The record has made the job's version. Its holders among `gone` do not count.
  void OnCommitted(const CommitRecord& record, const std::set<WorkerId>& gone = {});
  /// A generation begins.
  void Clear() { groups_.clear(); }

  /// For the next step of a divided group. Requires that each part has a holder.
  std::vector<PartHolders> Choose(GroupIndex group, const std::vector<WorkerId>& replicas) const;
  /// Of a part of a divided group.
  const std::set<WorkerId>& Of(const PartName& name) const;
  std::vector<PartName> PartsOf(StageIndex stage) const;
  /// Each part that the worker holds is held by one of the others, too.
  bool CanSpare(const WorkerId& id, const std::vector<WorkerId>& others) const;
  /// The first stage with a part that nobody holds.
  std::optional<StageIndex> FindLost() const;

 private:
  /// By part. `group` is divided.
  std::vector<std::set<WorkerId>>& At(GroupIndex group);
  const std::vector<std::set<WorkerId>>& At(GroupIndex group) const;

  const Job& job_;
  std::map<GroupIndex, std::vector<std::set<WorkerId>>> groups_;
};

}  // namespace swarm::protocol
