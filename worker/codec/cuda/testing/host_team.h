// A team (worker/codec/cuda/team.h) on the host: one lane after the other.
#pragma once

#include <algorithm>
#include <cstdint>

namespace swarm::codec::cuda {

/// In which order a phase runs its lanes. On a device there is none, so every order must give the
/// same result; a lane that reads in a phase what another writes in it shows as a difference.
enum class LaneOrder { kUp, kDown };

template <unsigned kLanesOfTeam>
class HostTeam {
 public:
  static constexpr unsigned kLanes = kLanesOfTeam;

  explicit HostTeam(LaneOrder order) : order_(order) {}

  template <typename Phase>
  void Each(Phase phase) const {
    for (unsigned i = 0; i < kLanes; ++i) {
      phase(order_ == LaneOrder::kUp ? i : kLanes - 1 - i);
    }
  }
  template <typename Action>
  void Once(Action action) const {
    action();
  }
  template <typename Phase>
  std::uint32_t Max(Phase phase) const {
    std::uint32_t value = 0;
    Each([&](unsigned lane) { value = std::max(value, phase(lane)); });
    return value;
  }
  template <typename Phase>
  std::uint64_t Or(Phase phase) const {
    std::uint64_t value = 0;
    Each([&](unsigned lane) { value |= phase(lane); });
    return value;
  }
  template <typename Phase>
  double SumInOrder(double start, Phase phase) const {
    double values[kLanes];
    Each([&](unsigned lane) { values[lane] = phase(lane); });
    double sum = start;
    for (const double value : values) sum += value;
    return sum;
  }
  void Lower(std::uint32_t* word, std::uint32_t value) const { *word = std::min(*word, value); }
  void Raise(std::uint32_t* word, std::uint32_t value) const { *word = std::max(*word, value); }
  void SetBits(std::uint64_t* word, std::uint64_t value) const { *word |= value; }

 private:
  LaneOrder order_;
};

}  // namespace swarm::codec::cuda
