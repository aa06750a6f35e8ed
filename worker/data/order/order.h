// Which sequence a job draws when: a function of the seed and of the number of the draw.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace swarm::data {

/// A corpus among those of a mixture.
struct OrderedSource {
  std::uint64_t sequences = 0;  ///< at least 1
  double weight = 1;            ///< its part of all draws, relative to those of the others
};

/// A sequence of a source.
struct Place {
  std::uint32_t source = 0;
  std::uint64_t sequence = 0;
  bool operator==(const Place&) const = default;
};

/// The order in which a job draws the sequences of its sources. Nothing else is needed to know the
/// place of a draw, so the number of the next draw is the whole cursor. Immutable; safe to use from
/// any thread.
///
/// Each source gives each of its sequences once before it gives one again: once an epoch. The order
/// of an epoch is a permutation with a key of its own. Which draw goes to which source repeats
/// after kPeriod draws; in each period a source has its part, spread evenly, so every step has
/// nearly the wanted mixture.
class Order {
 public:
  static constexpr std::uint64_t kPeriod = 10'000;

  /// Errors: kInvalidArgument (a source without sequences, a weight that is no positive number, or
  /// so small that it is not one draw in kPeriod), naming the source by its index.
  static Result<Order> Make(std::uint64_t seed, std::vector<OrderedSource> sources);

  Place At(std::uint64_t draw) const;
  /// How many of the first `draws` draws go to the source.
  std::uint64_t DrawsOf(std::uint32_t source, std::uint64_t draws) const;
  /// How many times the first `draws` draws go through the source.
  double Epochs(std::uint32_t source, std::uint64_t draws) const {
    return static_cast<double>(DrawsOf(source, draws)) /
           static_cast<double>(sources_[source].sequences);
  }

 private:
  /// A draw of a period.
  struct Slot {
    std::uint32_t source = 0;
    std::uint32_t nth = 0;  ///< of the source's draws in the period
  };

  Order(std::uint64_t seed, std::vector<OrderedSource> sources)
      : seed_(seed), sources_(std::move(sources)) {}

  std::uint64_t seed_;
  std::vector<OrderedSource> sources_;
  std::vector<std::uint64_t> parts_;  // a source's draws in a period
  std::vector<Slot> period_;
};

}  // namespace swarm::data
