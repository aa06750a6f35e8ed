// Bytes that crossed the network, by what they were.
#pragma once

#include <array>
#include <cstdint>

#include "base/enum_names.h"

namespace swarm::ctl {

enum class Traffic : std::uint8_t {
  kTokens,       ///< trainer to the first stage
  kActivations,  ///< stage to stage
  kGradients,    ///< back
  kReduce,       ///< between the replicas of a stage
  kState,        ///< to joiners
  kReplay,       ///< reduced gradients, to joiners
  kParcels,      ///< sums of leavers
  kCheckpoints,  ///< to and from the storage
};
inline constexpr std::size_t kTrafficKinds = 8;

class TrafficCounts {
 public:
  void Add(Traffic kind, double bytes) { bytes_[static_cast<std::size_t>(kind)] += bytes; }
  double Of(Traffic kind) const { return bytes_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<double, kTrafficKinds> bytes_{};
};

}  // namespace swarm::ctl

namespace swarm {

template <>
struct EnumNames<ctl::Traffic> {
  using E = ctl::Traffic;
  static constexpr auto kNames = NameTable<E>({
      {E::kTokens, "tokens"},
      {E::kActivations, "activations"},
      {E::kGradients, "gradients"},
      {E::kReduce, "reduce"},
      {E::kState, "state"},
      {E::kReplay, "replay"},
      {E::kParcels, "parcels"},
      {E::kCheckpoints, "checkpoints"},
  });
};

}  // namespace swarm
