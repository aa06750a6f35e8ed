// Which ways routes should take: in a large swarm from neighbour to neighbour (docs/protocol.md,
// rule 30), and by what workers report of their links (rule 29). Until there are reports, routes
// are plain.
#pragma once

#include <set>
#include <vector>

#include "worker/protocol/coordinator/membership/members.h"
#include "worker/protocol/reachability/broken_pairs.h"
#include "worker/protocol/routing/link_table.h"
#include "worker/protocol/routing/router.h"

namespace swarm::protocol {

class RoutePlanning {
 public:
  RoutePlanning(Job* job, Members* members, const BrokenPairs* broken, Router* router)
      : job_(*job),
        members_(*members),
        broken_(*broken),
        router_(*router),
        boundaries_(job->stages() - 1) {}

  /// Training begins: routes go from neighbour to neighbour of the roster as it is, and by its
  /// regions.
  void ShowRoster();
  void OnLinks(const WorkerId& from, const Links& links);
  const LinkTable& links() const { return links_; }
  /// Notes how many bytes cross the boundaries.
  void OnProgress(const Progress& progress);
  /// As noted: one for each stage but the last; 0 is not known.
  const std::vector<BoundaryBytes>& boundaries() const { return boundaries_; }
  /// Plans anew when the roster has changed, and every kPlanInterval. Call it once a tick.
  void Refresh(Turn& turn);

 private:
  std::vector<std::vector<PlacedWorker>> PlaceWorkers() const;
  /// The rates of all stages and the bytes at all boundaries are known.
  bool IsMeasured(const std::vector<std::vector<PlacedWorker>>& stages) const;
  CountBroken BrokenByPlaces() const;
  Place PlaceOf(const WorkerId& id) const;
  void OnNewRoster();

  const Job& job_;
  Members& members_;
  const BrokenPairs& broken_;
  Router& router_;
  LinkTable links_;
  std::vector<BoundaryBytes> boundaries_;
  std::size_t roster_size_ = 0;
  std::set<Place> places_;  // of the roster
  Epoch roster_;            // of the last tick
  bool planned_ = false;    // for that roster
  Timepoint next_{};
};

}  // namespace swarm::protocol
