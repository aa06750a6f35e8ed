// The default number of compute threads.
#pragma once

#include "api/swarmjob.h"

namespace swarm::ctl {

/// `wanted`, or if that is 0 one thread for every ten million parameters, at least one and at most
/// the number of cores. The operations of a small model are so short that threads would wait for
/// each other for longer than they compute, above all on a busy machine. A config that is not known
/// yet (hidden_size 0) counts as large.
int ComputeThreads(int wanted, const api::DecoderConfig& config);

}  // namespace swarm::ctl
