// The flags of the workers of a pod, which its launcher starts: those of the launcher, but for what
// each has of its own. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "worker/flags/flags.h"

namespace swarm::pod {

/// ID-0, ID-1, ...: its TLS identity is that of the pod (net::IdentityUris).
std::string WorkerName(const WorkerFlags& pod, std::size_t index);

/// Worker `index` computes on the device of that place. Where the pod's ports are P for the wire
/// and Q for its pages, it has the port P + index, and serves its pages to the launcher at
/// 127.0.0.1 and the port Q + 1 + index; ports of 0 stay. A gateway knows it as INDEX.NAME, where
/// it knows the first as NAME. `memory`: bytes for all of the pod's workers, which have equal parts
/// of it unless the pod's flags say what each has.
WorkerFlags WorkerOf(const WorkerFlags& pod, std::size_t index, std::uint64_t memory);

}  // namespace swarm::pod
