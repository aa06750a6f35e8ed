// Prints the least bytes that cross from one region to another in a step, for workers that are
// equally fast and sit where the arguments say: of the boundaries alone, and with the sums.
// Usage: least_crossing BOUNDARY_BYTES SUM_BYTES MICROBATCHES REGION,REGION,... REGION,...
//   BOUNDARY_BYTES  of a microbatch over a boundary, there and back
//   SUM_BYTES       of a stage's sum of gradients
//   then the regions of the replicas of each stage
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "worker/protocol/balance/regions.h"

namespace swarm::protocol {
namespace {

StageLoad StageOf(const std::string& regions) {
  StageLoad stage;
  std::istringstream names(regions);
  for (std::string region; std::getline(names, region, ',');) {
    stage.replicas.push_back({.rate = 1, .ready = true, .region = region});
  }
  return stage;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4) {
    std::fprintf(stderr, "least_crossing: see the beginning of its source for its arguments\n");
    return 2;
  }
  const double microbatches = std::atof(arguments[2].c_str());
  std::vector<StageLoad> stages;
  for (std::size_t i = 3; i < arguments.size(); ++i) stages.push_back(StageOf(arguments[i]));
  RegionRule rule{.boundary_bytes = std::atof(arguments[0].c_str())};
  const double boundaries = CrossingBytes(stages, rule) * microbatches;
  rule.sum_bytes.assign(stages.size(), std::atof(arguments[1].c_str()) / microbatches);
  std::printf("%.0f %.0f\n", boundaries, CrossingBytes(stages, rule) * microbatches);
  return 0;
}

}  // namespace
}  // namespace swarm::protocol

int main(int argc, char** argv) { return swarm::protocol::Main({argv + 1, argv + argc}); }
