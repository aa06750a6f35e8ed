// The nodes of a network and the links between them, read from JSON.
//
//   {"nodes": [{"name": "trainer", "region": "eu"}, {"name": "w0", "region": "us"}],
//    "links": [{"between": ["eu", "us"], "rateMbps": 200, "oneWayMs": 40},
//              {"between": ["w0", "*"], "rateMbps": 80, "oneWayMs": 40, "loss": 0.001,
//               "queueBytes": 100000}]}
//
// Every pair of nodes has a link of its own in each direction. A link is between regions, nodes, or
// anything ("*"); the last one that fits a pair counts, as a whole. A pair without a link is
// unlimited. Without queueBytes the queue holds what the wire sends in 100 ms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/wan/link.h"

namespace swarm::wan {

/// Nodes have addresses in 10.77.0.0/24, from .1 on, in their order.
constexpr std::size_t kNodesMax = 254;

struct Topology {
  struct Node {
    std::string name;
    std::string region;
  };
  std::vector<Node> nodes;
  std::vector<std::vector<LinkOptions>> links;  ///< [from][to]
};

/// Errors: kInvalidArgument, with what is wrong and where.
Result<Topology> ParseTopology(std::string_view json);

}  // namespace swarm::wan
