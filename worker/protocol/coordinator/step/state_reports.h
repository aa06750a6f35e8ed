// What the replicas have reported of their states after each commit (rule 12), and which state of a
// version is the true one: that of a worker which comes back is held against it (rule 17).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "worker/protocol/coordinator/membership/members.h"

namespace swarm::protocol {

class StateReports {
 public:
  StateReports(Job* job, Members* members) : job_(*job), members_(*members) {}

  using States = std::map<WorkerId, Digest>;
  /// A worker of the stage has reported its state of that version. True if not all that are known
  /// report the same.
  bool Add(const WorkerId& from, StageIndex stage, Version version, const Digest& state);
  /// A worker has reported the parts of the version that it holds. Returns those of which other
  /// holders have reported something else, with these. What a worker has said counts when it is
  /// gone: the others may have its weights.
  std::map<PartName, std::set<WorkerId>> AddParts(const WorkerId& from, Version version,
                                                  const std::vector<PartDigest>& parts);
  /// All reports about that state. Requires that there was one of late.
  const States& Of(Version version, StageIndex stage) const {
    return reports_.at({version, stage}).states;
  }
  /// A step that reads the version is decided, so all replicas agree about it.
  void Settle(Version version);
  /// The state of that version on which all ready replicas of the stage agree; none: they have yet
  /// to report it, or it is not known any more.
  std::optional<Digest> Find(Version version, StageIndex stage) const;
  /// The worker does not serve its stage any more: what it reported says nothing of what it holds.
  void Lose(const WorkerId& worker);
  /// Nobody will come back with an earlier version.
  void ForgetBefore(Version version);
  void Clear();

 private:
  using Name = std::pair<Version, StageIndex>;
  struct Reports {
    States states;
    bool differ = false;
  };
  /// As the ready replicas report it now.
  std::optional<Digest> FindReported(Version version, StageIndex stage) const;

  Job& job_;
  Members& members_;
  std::map<Name, Reports> reports_;  // of the last versions
  std::map<Name, Digest> settled_;
  std::map<std::pair<Version, PartName>, std::map<WorkerId, Digest>>
      parts_;  // of the last versions
};

}  // namespace swarm::protocol
