// Options of the kernel for this process's TCP connections with other machines, for links that are
// long and full in both directions, as in a reduce. bench/wan/README.md has figures.
//
// - Few unsent bytes in the socket: HTTP/2's window updates go behind the bytes that the socket
//   already holds. Behind megabytes of a transfer the other way they come too late, and both ends
//   wait for each other with the link idle. Now the rest stays in gRPC, which puts such frames
//   first.
// - Pacing: the kernel spreads sending over the round trip. Acknowledgements that have waited
//   together behind the other direction's bytes release bursts otherwise, which overflow the link's
//   queue, and TCP shrinks its window far below what the link carries.
// - A bound of the bytes under way to this process (receive_window.h): no long queue stands.
//
// Where the kernel offers less than Linux, this does less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/net/grpc/link_meter.h"
#include "worker/net/grpc/receive_window.h"

namespace swarm::net {

/// Not thread-safe.
class TcpTuning {
 public:
  /// Begins with the connections that this process has with `address`, as gRPC writes it:
  /// "ipv4:10.0.0.1:7000", "ipv6:%5Bfd00::1%5D:7000". Returns their number. It tunes none for other
  /// addresses, nor for an address of this machine alone, where tuning gains nothing (with
  /// `loopback` it tunes that, too). gRPC does not give out its sockets, so this searches all
  /// descriptors of the process for them.
  int Begin(const std::string& address, const protocol::WorkerId& peer, bool loopback = false);

  /// Call this every ReceiveWindow::kLookPeriod. Forgets closed connections. Returns what it knows
  /// of the others.
  std::map<protocol::WorkerId, protocol::Link> Look(Timepoint now);

  std::size_t connections() const { return tuned_.size(); }

 private:
  static constexpr int kNoClamp = 1 << 30;  // more than any buffer has

  struct Tuned {
    int socket = -1;                  // owned by gRPC, which may close it
    std::uint64_t cookie = 0;         // tells whether it has
    std::uint32_t segments = 0;       // arrived, as the kernel counts them
    std::uint32_t segment_bytes = 0;  // of the longest
    std::uint64_t bytes = 0;          // of all
    int clamp = kNoClamp;             // of the window, as asked for last
    ReceiveWindow window = {};
    protocol::WorkerId peer = {};
    LinkMeter meter = {};
    protocol::Link link = {};  // as last seen
  };
  /// False: the connection is gone, or the kernel does not give the needed values.
  static bool Look(Tuned& tuned, Timepoint now);

  std::vector<Tuned> tuned_;
};

}  // namespace swarm::net
