// TCP that spreads what it sends over the round trip instead of sending it in bursts.
//
// Where both directions of a link are full, as in a reduce, acknowledgements wait behind the other
// direction's bytes and come in bunches; what they release then overflows the queue of the link,
// and TCP shrinks its window far below what the link carries. Sums of 32 MiB by two replicas over
// 200 Mb/s and 80 ms used 0.66 of the line without pacing, 0.80 to 0.94 with it
// (bench/wan_reduce.py).
#pragma once

#include <string>

namespace swarm::net {

/// Asks the kernel to pace what this process sends to `peer`, an address as gRPC writes it:
/// "ipv4:10.0.0.1:7000", "ipv6:%5Bfd00::1%5D:7000". Returns how many connections that are. None for
/// what is no such address, nor for one of this machine alone, where nothing would be gained (with
/// `loopback` it is paced, too). gRPC lends nobody its sockets, so they are looked for among all
/// that the process has.
int PaceConnectionsWith(const std::string& peer, bool loopback = false);

}  // namespace swarm::net
