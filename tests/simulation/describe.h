// Protocol values as text, for the event log of a run that is replayed.
#pragma once

#include <string>

#include "worker/protocol/coordinator/coordinator.h"
#include "worker/protocol/replica/replica.h"

namespace swarm::simulation {

std::string Describe(const protocol::TaskKey& key);
std::string Describe(const protocol::Message& message);
std::string Describe(const protocol::Action& action);
std::string Describe(const protocol::Order& order);

}  // namespace swarm::simulation
