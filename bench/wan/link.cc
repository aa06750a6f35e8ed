#include "bench/wan/link.h"

#include <algorithm>

namespace swarm::wan {

std::uint64_t Link::QueuedBytes(Timepoint now) const {
  if (wire_free_ <= now) return 0;
  return static_cast<std::uint64_t>(ToSeconds(wire_free_ - now) * options_.bits_per_second / 8);
}

std::optional<Timepoint> Link::Send(std::uint64_t bytes, Timepoint now) {
  const bool limited = options_.bits_per_second > 0;
  const std::uint64_t queued = limited ? QueuedBytes(now) : 0;
  // A packet finds room on a free wire, however small the queue is.
  if ((queued > 0 && queued + bytes > options_.queue_bytes) ||
      transit_bytes_ + bytes > options_.transit_bytes_max) {
    ++counts_.dropped;
    return std::nullopt;
  }
  wire_free_ = std::max(wire_free_, now);
  if (limited) {
    wire_free_ += FromSeconds(static_cast<double>(bytes) * 8 / options_.bits_per_second);
  }
  // Lost behind the queue: it has used the wire.
  if (options_.loss > 0 && rng_.Uniform() < options_.loss) {
    ++counts_.lost;
    return std::nullopt;
  }
  ++counts_.packets;
  counts_.bytes += bytes;
  transit_bytes_ += bytes;
  return wire_free_ + options_.delay;
}

}  // namespace swarm::wan
