// What this process asks of the kernel for its TCP connections with other machines, for the sake of
// links that are long and full in both directions, as in a reduce. bench/wan/README.md has figures.
//
// - Little that is not sent yet: HTTP/2's window updates go behind what the socket already holds.
//   Behind megabytes of a transfer the other way they come too late, and both ends wait for each
//   other with the link idle. Now the rest stays in gRPC, which puts such frames first.
// - Pacing: what is sent is spread over the round trip. Acknowledgements that have waited together
//   behind the other direction's bytes release bursts otherwise, which overflow the link's queue,
//   and TCP shrinks its window far below what the link carries.
// - A bound of the bytes under way to this process (receive_window.h): no long queue stands.
//
// Where the kernel offers less than Linux does, less is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/net/grpc/receive_window.h"

namespace swarm::net {

/// Not thread-safe.
class TcpTuning {
 public:
  /// Begins with the connections that this process has with `peer`, an address as gRPC writes it:
  /// "ipv4:10.0.0.1:7000", "ipv6:%5Bfd00::1%5D:7000". Returns how many these are. None for what is
  /// no such address, nor for one of this machine alone, where nothing would be gained (with
  /// `loopback` it is tuned, too). gRPC does not give out its sockets, so this looks for them among
  /// all descriptors of the process.
  int Begin(const std::string& peer, bool loopback = false);

  /// To be called every ReceiveWindow::kLookPeriod. Forgets connections that are closed.
  void Look(Timepoint now);

  std::size_t connections() const { return tuned_.size(); }

 private:
  static constexpr int kNoClamp = 1 << 30;  // more than any buffer has

  struct Tuned {
    int socket = -1;                  // of gRPC, which may close it
    std::uint64_t cookie = 0;         // by which to know that it has not
    std::uint32_t segments = 0;       // that have arrived, as the kernel counts them
    std::uint32_t segment_bytes = 0;  // of the longest
    std::uint64_t bytes = 0;          // of all
    int clamp = kNoClamp;             // of the window, as asked for last
    ReceiveWindow window = {};
  };
  /// False: it is gone, or the kernel does not tell what is needed.
  static bool Look(Tuned& tuned, Timepoint now);

  std::vector<Tuned> tuned_;
};

}  // namespace swarm::net
