#include "worker/net/grpc/link_meter.h"

#include <algorithm>
#include <utility>

namespace swarm::net {

protocol::Link LinkMeter::OnLook(const Look& look) {
  const double known = std::max(best_, best_before_);
  if (look.filled || (known > 0 && look.bytes_per_second > known)) {
    if (look.at - half_begins_ >= kMemory / 2) {
      best_before_ = std::exchange(best_, 0);
      half_begins_ = look.at;
    }
    best_ = std::max(best_, look.bytes_per_second);
  }
  return {look.round_trip, std::max(best_, best_before_)};
}

}  // namespace swarm::net
