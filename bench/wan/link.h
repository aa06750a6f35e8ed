// One direction of a path between two hosts: packets wait in a queue of bounded size for a wire of
// a given rate, some are lost on it, the others come out after a fixed delay, in order.
//
// Pure: the time comes in with each call and must not go back. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "base/time.h"

namespace swarm::wan {

struct LinkOptions {
  double bits_per_second = 0;         ///< of the wire, packets with their IP headers; 0: unlimited
  Duration delay = Duration::zero();  ///< one way, after the last bit has left the queue
  double loss = 0;                    ///< probability that a packet is lost on the wire
  std::uint64_t queue_bytes = 0;      ///< that may wait for the wire; the rest is dropped
  std::uint64_t transit_bytes_max = 512u << 20;  ///< in queue and wire together: a memory bound

  bool operator==(const LinkOptions&) const = default;
};

/// What a link has done. Counts only grow.
struct LinkCounts {
  std::uint64_t packets = 0;  ///< delivered, or on their way
  std::uint64_t bytes = 0;    ///< of these
  std::uint64_t lost = 0;     ///< on the wire
  std::uint64_t dropped = 0;  ///< because the queue had no room
};

class Link {
 public:
  /// `seed` decides which packets are lost.
  Link(const LinkOptions& options, std::uint64_t seed) : options_(options), rng_(seed) {}

  /// A packet enters. Returns when it comes out, never before an earlier packet; none if it never
  /// does. At that time, the caller must call Deliver.
  std::optional<Timepoint> Send(std::uint64_t bytes, Timepoint now);
  /// A packet of that size has come out.
  void Deliver(std::uint64_t bytes) { transit_bytes_ -= bytes; }

  /// Bytes that wait for the wire, the packet that is on it included.
  std::uint64_t QueuedBytes(Timepoint now) const;
  const LinkOptions& options() const { return options_; }
  const LinkCounts& counts() const { return counts_; }

 private:
  LinkOptions options_;
  Rng rng_;
  Timepoint wire_free_{};  // when the wire has sent all that was admitted
  std::uint64_t transit_bytes_ = 0;
  LinkCounts counts_;
};

}  // namespace swarm::wan
