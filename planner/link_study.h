// How fast a job trains by the rate of its machines' lines, in each manner in which it can be
// trained; and at which rates one manner overtakes another. Pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "planner/search.h"

namespace swarm::planner {

/// What a user chooses between, the plainer first: the step mode, and whether machines are replicas
/// of the whole model or stages of a pipeline. Local has as many stages as is best.
enum class Manner { kSyncReplicas, kSyncPipeline, kDelayedReplicas, kDelayedPipeline, kLocal };

struct MannerCurve {
  Manner manner = Manner::kSyncReplicas;
  /// The best plan at each rate (bytes a second) that was looked at: those that were asked for,
  /// some between them, and those near which manners overtake each other.
  std::map<double, Plan> plans;
};

struct LeftOut {
  Manner manner = Manner::kSyncReplicas;
  std::string reason;  ///< "the manifest has 4 stages"
};

/// From a rate on, until another one.
struct Lead {
  double rate = 0;  ///< bytes a second
  std::size_t curve = 0;
};

/// At `rate`, the curve `faster` comes to be above `slower`; or, if it is `equal`, within a tie of
/// it: it is the plainer one then.
struct Overtaking {
  double rate = 0;  ///< bytes a second
  std::size_t slower = 0, faster = 0;
  bool equal = false;
};

struct LinkStudy {
  std::vector<MannerCurve> curves;  ///< of the manners that fit, in the order of Manner
  std::vector<LeftOut> left_out;
  std::vector<Lead> leads;              ///< ascending; the first at the lowest rate
  std::vector<Overtaking> overtakings;  ///< ascending
};

/// The fleet, if all its machines have lines of that rate (bytes a second), up and down, and
/// nothing but these limits a connection. Round trips and prices stay.
Fleet WithLines(Fleet fleet, double rate);

/// The curve that leads at a rate that the curves have: of those within kPlanTie of the best the
/// first. Requires curves.
std::size_t LeaderAt(const LinkStudy& study, double rate);

/// What the manifest says is kept, but for the step mode, which is what is compared. Where that is
/// not Local, a round of Local is local.innerSteps steps (50) in which all machines together take
/// about the sequences of a step; where it is, a step of Sync or Delayed has those of an inner
/// step. Requires ascending rates above 0, and Goal::kTokensPerSecond. Rates that are far apart are
/// looked at between, too; what happens twice between two neighbours is not seen.
LinkStudy StudyLinks(const Request& request, std::span<const double> rates);

}  // namespace swarm::planner

namespace swarm {

template <>
struct EnumNames<planner::Manner> {
  using E = planner::Manner;
  static constexpr auto kNames = NameTable<E>({
      {E::kSyncReplicas, "SyncReplicas"},
      {E::kSyncPipeline, "SyncPipeline"},
      {E::kDelayedReplicas, "DelayedReplicas"},
      {E::kDelayedPipeline, "DelayedPipeline"},
      {E::kLocal, "Local"},
  });
};

}  // namespace swarm
