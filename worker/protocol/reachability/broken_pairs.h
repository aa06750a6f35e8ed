// Pairs of workers that cannot reach each other, by the workers' own reports, and the ways around
// them (docs/protocol.md, rule 28). A pair is broken if either of the two does not hear the other:
// every exchange needs both directions. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/time.h"
#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// From the report of a broken pair until both send on their detour, at most: what they sent before
/// may be lost.
inline constexpr Duration kDetourTime = std::chrono::milliseconds(400);

/// Two workers, the lesser id first.
struct WorkerPair {
  WorkerId a, b;
  auto operator<=>(const WorkerPair&) const = default;
};

class BrokenPairs {
 public:
  /// Takes the reporter's last word. Returns the pairs that were not broken before.
  std::vector<WorkerPair> Update(const WorkerId& reporter, const std::vector<WorkerId>& unheard,
                                 Timepoint now);
  /// Forgets all reports by the worker and about it.
  void Forget(const WorkerId& worker);

  struct Report {
    Timepoint since;
    int reporters = 0;  ///< one or both of the pair
  };
  bool empty() const { return pairs_.empty(); }
  bool Has(const WorkerId& a, const WorkerId& b) const { return Find(a, b) != nullptr; }
  /// Whether the pair broke at `time` or later: what one sent the other before may be lost.
  bool BrokeAfter(Timepoint time, const WorkerId& a, const WorkerId& b) const;
  const std::map<WorkerPair, Report>& all() const { return pairs_; }

 private:
  const Report* Find(const WorkerId& a, const WorkerId& b) const;
  void Remove(const WorkerId& reporter, const WorkerId& unheard);

  std::map<WorkerId, std::set<WorkerId>> unheard_;  // by reporter
  std::map<WorkerPair, Report> pairs_;
};

/// The ways around broken pairs.
struct DetourPlan {
  std::map<WorkerPair, WorkerId> via;
  std::vector<WorkerPair> unserved;  ///< no third worker reaches both

  /// The detours of each worker that has any, sorted by peer.
  std::map<WorkerId, std::vector<Detour>> ByWorker() const;
};

/// Chooses a third worker among `members` for each broken pair of which `needs` is true. Ways of
/// `before` stay as long as they serve; others go through the worker that serves the fewest pairs.
DetourPlan PlanDetours(const BrokenPairs& broken, const std::set<WorkerId>& members,
                       const std::function<bool(const WorkerPair&)>& needs,
                       const DetourPlan& before);

/// The worker whose departure serves most of the pairs, among those that `may_go`; of several, the
/// one that `costs` least, and then the one with the greatest id. Nothing if none may go.
std::optional<WorkerId> ChooseToGo(const std::vector<WorkerPair>& pairs,
                                   const std::function<bool(const WorkerId&)>& may_go,
                                   const std::function<std::size_t(const WorkerId&)>& costs);

}  // namespace swarm::protocol
