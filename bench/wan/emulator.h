// Carries packets between the network namespaces of a topology, through a TUN device in each.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/wan/link.h"
#include "bench/wan/topology.h"

namespace swarm::wan {

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// One thread owns it and runs it.
class Emulator {
 public:
  /// Takes the device `device` of every node: FOLDER/NODE is the node's network namespace, in which
  /// the device exists (ip tuntap add mode tun). `seed` decides which packets are lost. Errors:
  /// kNotFound, kPermissionDenied, kUnavailable.
  static Result<std::unique_ptr<Emulator>> Open(const Topology& topology, const std::string& folder,
                                                const std::string& device, std::uint64_t seed);
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  /// Carries packets until `stop` is readable.
  /// Errors: kUnavailable, if the kernel gives no more service.
  Status Run(int stop);

  /// The counts of the links and the lateness of deliveries, as JSON. Not while it runs.
  std::string Report() const;

 private:
  struct Packet {
    Timepoint due;
    std::vector<std::byte> bytes;
  };
  struct Wire {
    Link link;
    std::size_t to = 0;
    std::queue<Packet> packets = {};  // due in this order
  };
  /// When the first packet of a wire is due. Earliest first.
  struct Next {
    Timepoint due;
    std::size_t wire;
    bool operator<(const Next& other) const { return due > other.due; }
  };

  Emulator(const Topology& topology, std::uint64_t seed);
  void ReadSome(std::size_t node);
  void Accept(std::size_t from, std::size_t size);
  void DeliverDue();

  const Topology topology_;
  std::vector<Descriptor> devices_;            // one a node
  std::vector<Wire> wires_;                    // from * nodes + to
  std::priority_queue<Next> agenda_;           // an entry for every wire that has packets
  std::vector<std::vector<std::byte>> spare_;  // buffers for reuse
  std::vector<std::byte> arriving_;
  std::uint64_t unroutable_ = 0, refused_ = 0;
  std::uint64_t delivered_ = 0, late_ = 0;  // late: by more than kLate
  Duration lateness_ = Duration::zero(), latest_ = Duration::zero();
};

}  // namespace swarm::wan
