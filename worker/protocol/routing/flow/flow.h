// How many microbatches should take which way, where devices and links are unlike: a min-cost flow
// from the first stage to the last (docs/protocol.md, rule 29). Pure.
//
// Microbatches go from place to place. A place is what has links of its own: one worker, or in a
// large swarm all workers of a region. A place works for several stages if its workers do.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace swarm::protocol {

using Place = std::string;

/// What a microbatch passes: the workers of a stage in a place, or the links between two places.
struct Passage {
  double rate = 0;     ///< microbatches a second that it can take; above 0
  double seconds = 0;  ///< that one takes where nothing waits, there and back
};

struct FlowGraph {
  using Cut = std::map<std::pair<Place, Place>, Passage>;
  std::vector<std::map<Place, Passage>> stages;
  /// [s]: the links from stage s to s + 1. What is not there cannot be passed.
  std::vector<Cut> cuts;
};

/// [s]: the part of all microbatches that comes into stage s from one place to another, above 0. In
/// the sum 1 for each stage. They come into stage 0 from the place "".
using Shares = std::vector<std::map<std::pair<Place, Place>, double>>;

/// Shares, and what they bring by the graph for which they were computed.
struct Flow {
  Shares shares;       ///< empty: there is no way through all stages
  double rate = 0;     ///< microbatches a second, at most
  double seconds = 0;  ///< of a microbatch on its way at that rate, on average
};

/// The highest rate, and of all flows with that rate the one of the shortest time on average.
/// The time grows with the number of links: below a millisecond for hundreds, above a second for
/// hundreds of thousands.
Flow SolveFlow(const FlowGraph& graph);

/// What the shares bring by this graph. Rate 0: the graph lacks one of their ways.
Flow JudgeShares(const FlowGraph& graph, Shares shares);

/// The shares of draws that know the rates of workers and nothing of links.
Shares PlainShares(const FlowGraph& graph);

/// The shares that routes should follow from now on; empty: routes without shares are as good.
/// `current` are those that they follow now (empty: none), `without` what routes without shares
/// bring (empty: as plain draws). Shares change only where others are better by kBetter in rate or
/// in time: small changes of the measurements lead to quite other flows that are worth hardly more.
/// Routes without shares are more even, so a shorter way alone is reason for shares only where
/// theirs takes kMuchSlower times as long.
Shares ChooseShares(const FlowGraph& graph, const Shares& current, const Shares& without = {});
inline constexpr double kBetter = 0.1;
inline constexpr double kMuchSlower = 2;

}  // namespace swarm::protocol
