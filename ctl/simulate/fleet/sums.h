// The reduces between the replicas of a stage, as flows. A participant sends and receives what its
// place in the grid demands (worker/protocol/grid/reduce_grid.h), about twice its gradients, to and
// from all its peers at once: one flow from it to itself, over both directions of its line, that
// weighs as one connection for each peer. A sum is done when the flows of all participants are, and
// two delays later: a contribution goes to the owner of its piece, and the sum comes back. In a
// grid there are two more: partial sums go from row to row, and sums come back. Where rows are of
// several regions, only the sums of regions, and the sums, go from one to another.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "ctl/simulate/fleet/flow_network.h"
#include "ctl/simulate/fleet/links.h"
#include "ctl/simulate/fleet/traffic.h"
#include "worker/protocol/grid/reduce_grid.h"
#include "worker/protocol/messages/control.h"

namespace swarm::ctl {

class Sums {
 public:
  struct Part {
    protocol::WorkerId worker;
    FlowNetwork::Node node = 0;
    double bytes = 0;            ///< of the worker's gradients
    std::function<void()> done;  ///< the sum is here
  };
  using FindRegion = std::function<Region(const protocol::WorkerId&)>;

  /// All outlive the object.
  Sums(EventQueue* queue, FlowNetwork* network, const Links* links, TrafficCounts* traffic,
       FindRegion find_region);

  /// The worker begins its part. Requires that it is a participant.
  void Begin(const protocol::Reduce& reduce, Part part);
  /// The worker takes no part in sums of the step any more.
  void Stop(const protocol::WorkerId& worker, protocol::Generation generation, protocol::Step step);
  /// The worker takes no part in any sum any more.
  void Remove(const protocol::WorkerId& worker);
  /// How far the sum has come at this worker, and for whom it waits (rule 11). None: it is over.
  std::optional<protocol::Awaiting> Describe(const protocol::WorkerId& worker,
                                             const protocol::Reduce& reduce);

 private:
  using Name =
      std::tuple<protocol::Generation, protocol::Step, protocol::GroupIndex, protocol::Attempt>;
  struct Running {
    Part part;
    FlowNetwork::FlowId flow;
    double bytes = 0;  ///< of the flow
    bool sent = false;
  };
  struct Round {
    protocol::ReduceGrid grid;
    std::vector<protocol::WorkerId> seated;  // the participants, by seat
    std::set<Region> regions;
    std::map<protocol::WorkerId, Running> running;
    std::size_t sent = 0;
  };
  using Rounds = std::map<Name, Round>;

  static Name NameOf(const protocol::Reduce& reduce) {
    return {reduce.generation, reduce.step, reduce.group, reduce.k};
  }
  void OnSent(const Name& name, const protocol::WorkerId& worker);
  void FinishIfSent(Rounds::iterator round);
  /// Returns the round after it, if the round ends with it.
  Rounds::iterator Leave(Rounds::iterator round, const protocol::WorkerId& worker);
  /// Of the participant in that seat, to and from all its peers.
  double RateMax(const Round& round, std::size_t seat, Region own) const;
  /// From the end of the flows to the sum.
  Duration Delay(const Round& round) const;

  EventQueue& queue_;
  FlowNetwork& network_;
  const Links& links_;
  TrafficCounts& traffic_;
  const FindRegion find_region_;
  Rounds rounds_;
};

}  // namespace swarm::ctl
