// The step that the mean of the moves of replicas makes in stepMode Local. Pure.
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::api {

/// The replicas that a round is made for: their mean divides by this number, however many are
/// there. Requires a valid job with stepMode Local.
std::uint64_t ReplicasOfRound(const Training& training);

/// A step with Nesterov momentum.
struct OuterStep {
  double learning_rate = 1;
  double momentum = 0;
  bool operator==(const OuterStep&) const = default;
};

/// As the manifest says; what it leaves out follows from the replicas of a round, since the mean of
/// more replicas moves less far. For two and four replicas the defaults are the best of those that
/// docs/numbers.md lists (bench/local_study.py); for eight and more they are published ones
/// (arXiv:2503.09799). One replica goes on from its own weights. Requires as ReplicasOfRound.
OuterStep OuterStepOf(const Training& training);

}  // namespace swarm::api
