// What the links between places are worth, by the reports of workers, and the graph that follows
// (docs/protocol.md, rule 29). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "worker/protocol/messages/control.h"
#include "worker/protocol/routing/flow/flow.h"

namespace swarm::protocol {

class LinkTable {
 public:
  /// A worker in `from` has measured its connections to a place; its last word counts.
  void Update(const WorkerId& worker, const Place& from, const Place& to, const Link& link);
  /// Forgets what other workers have measured, and all about other places.
  void Keep(const std::function<bool(const WorkerId&)>& workers, const std::set<Place>& places);
  bool empty() const { return links_.empty(); }

  /// The mean of the reports from `from` about `to`, or else from `to` about `from`. Nothing if
  /// there is none.
  std::optional<Link> Find(const Place& from, const Place& to) const;
  /// A guess about links that nobody has measured: the mean round trip of all reports.
  Link Guess() const;
  /// The mean round trip, in seconds, of what each worker has measured.
  std::map<WorkerId, double> RoundTrips() const;

 private:
  std::map<std::pair<Place, Place>, std::map<WorkerId, Link>> links_;  // by reporter
};

/// A worker of a stage, as routes see it.
struct PlacedWorker {
  WorkerId id;
  Place place;
  double seconds = 0;  ///< for a microbatch, forward and backward
};

/// Bytes of a microbatch between stage s and s + 1.
struct BoundaryBytes {
  double forward = 0, backward = 0;
};

/// `boundaries`: one for each stage but the last. `broken`: how many pairs of workers of stage s in
/// a place and of stage s + 1 in another do not reach each other.
using CountBroken = std::function<std::uint64_t(std::uint64_t s, const Place&, const Place&)>;
FlowGraph BuildGraph(const std::vector<std::vector<PlacedWorker>>& stages, const LinkTable& links,
                     const std::vector<BoundaryBytes>& boundaries, const CountBroken& broken);

}  // namespace swarm::protocol
