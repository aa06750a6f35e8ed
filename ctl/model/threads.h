// How many threads compute, where the user leaves it open.
#pragma once

#include "api/swarmjob.h"

namespace swarm::ctl {

/// `wanted`, or, where that is 0, a thread for every ten million parameters, at least one and at
/// most the machine's cores: the operations of a small model are so short that threads would wait
/// for each other for longer than they compute, most of all on a machine that is busy. A config
/// that is not known yet (hidden_size 0) counts as large.
int ComputeThreads(int wanted, const api::LlamaConfig& config);

}  // namespace swarm::ctl
