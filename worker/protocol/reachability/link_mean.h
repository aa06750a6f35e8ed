// The mean of several links. Pure.
#pragma once

#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

class LinkMean {
 public:
  /// A link that nothing has ever filled says nothing about rates.
  void Add(const Link& link) {
    round_trips_ += link.round_trip;
    ++count_;
    if (link.bytes_per_second == 0) return;
    rates_ += link.bytes_per_second;
    ++filled_;
  }
  Link Get() const {
    return {count_ == 0 ? 0 : round_trips_ / count_, filled_ == 0 ? 0 : rates_ / filled_};
  }

 private:
  double round_trips_ = 0, rates_ = 0, count_ = 0, filled_ = 0;
};

}  // namespace swarm::protocol
