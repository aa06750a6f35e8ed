// A number that stands for everything that trainer and workers of a run decided, in order. Two
// builds whose fingerprints are equal over many seeds decide alike: what a refactoring has to show.
#pragma once

#include <cstdint>

#include "worker/protocol/coordinator/coordinator.h"
#include "worker/protocol/replica/replica.h"

namespace swarm::simulation {

/// Every field of every order and action counts, except texts for people (reasons, messages), so
/// that their wording may change.
class Fingerprint {
 public:
  void Add(const protocol::Order& order);
  void Add(const protocol::Action& action);
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace swarm::simulation
