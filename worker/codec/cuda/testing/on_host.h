// Kernels of worker/codec/cuda on the host: the same bodies, one team after the other.
#pragma once

#include <cstddef>
#include <span>

#include "worker/codec/cuda/block_body.h"
#include "worker/codec/cuda/testing/host_team.h"

namespace swarm::codec::cuda {

inline const DynamicTables& TablesOfHost() {
  static const DynamicTables tables{DynamicMap(), NearestEntries()};
  return tables;
}

/// As EncodeBlocks of kernels.h.
template <CodeMap kMap, unsigned kWidth>
void EncodeOnHost(LaneOrder order, const EncodeTask& task) {
  for (std::size_t i = 0; i * task.block < task.n; ++i) {
    EncodeBlock<kMap, kWidth>(HostTeam<32>(order), task, i);
  }
}

/// As DecodeBlocks of kernels.h.
template <CodeMap kMap, unsigned kWidth>
void DecodeOnHost(LaneOrder order, const DecodeTask& task) {
  for (std::size_t i = 0; i * task.block < task.n; ++i) {
    DecodeBlock<kMap, kWidth>(HostTeam<32>(order), task, i);
  }
}

}  // namespace swarm::codec::cuda
