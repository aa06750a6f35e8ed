#include "bench/wan/emulator.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

namespace swarm::wan {
namespace {

constexpr std::size_t kPacketBytesMax = 65536;
constexpr std::size_t kSpareMax = 16384;
/// The number of packets after which other devices, and due packets, get their turn.
constexpr int kBatch = 32;
/// Packets that are later than this count as late in the report.
constexpr Duration kLate = std::chrono::milliseconds(1);
/// The network of the nodes; the last byte of an address is the node's index plus 1.
constexpr unsigned char kNetwork[3] = {10, 77, 0};

Status Failed(const std::string& what) {
  const std::string message = what + ": " + std::generic_category().message(errno);
  if (errno == ENOENT) return NotFound(message);
  if (errno == EPERM || errno == EACCES) return PermissionDenied(message);
  return Unavailable(message);
}

/// The calling thread is in that namespace while it lives.
class InsideNamespace {
 public:
  InsideNamespace() : before_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {}
  ~InsideNamespace() {
    SWARM_CHECK(::setns(before_.get(), CLONE_NEWNET) == 0, "cannot leave a namespace");
  }
  Status Enter(const std::string& path) {
    const Descriptor target(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (target.get() < 0 || ::setns(target.get(), CLONE_NEWNET) != 0) return Failed(path);
    return Status();
  }

 private:
  const Descriptor before_;
};

/// The device in the namespace of the calling thread.
Result<Descriptor> OpenDevice(const std::string& name) {
  Descriptor device(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (device.get() < 0) return Failed("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(device.get(), TUNSETIFF, &request) != 0) return Failed("device " + name);
  return device;
}

/// The index of the node that an IPv4 packet is for; a large number if there is none.
std::size_t DestinationOf(const std::byte* packet, std::size_t size) {
  constexpr std::size_t kNone = ~std::size_t{0};
  if (size < 20 || std::to_integer<int>(packet[0]) >> 4 != 4) return kNone;
  if (std::memcmp(packet + 16, kNetwork, sizeof kNetwork) != 0) return kNone;
  return static_cast<std::size_t>(std::to_integer<int>(packet[19])) - 1;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Emulator::Emulator(const Topology& topology, std::uint64_t seed)
    : topology_(topology), arriving_(kPacketBytesMax) {
  const std::size_t nodes = topology.nodes.size();
  for (std::size_t i = 0; i < nodes * nodes; ++i) {
    wires_.push_back({Link(topology.links[i / nodes][i % nodes], MixAll(seed, i)), i % nodes});
  }
}

Result<std::unique_ptr<Emulator>> Emulator::Open(const Topology& topology,
                                                 const std::string& folder,
                                                 const std::string& device, std::uint64_t seed) {
  std::unique_ptr<Emulator> emulator(new Emulator(topology, seed));
  for (const Topology::Node& node : topology.nodes) {
    InsideNamespace inside;
    RETURN_IF_ERROR(inside.Enter(folder + "/" + node.name));
    auto opened = OpenDevice(device);
    if (!opened.ok()) return opened.status().WithContext("node " + node.name);
    emulator->devices_.push_back(std::move(*opened));
  }
  return emulator;
}

Status Emulator::Run(int stop) {
  const Descriptor poll(::epoll_create1(EPOLL_CLOEXEC));
  if (poll.get() < 0) return Failed("epoll");
  const auto watch = [&](int fd, std::size_t tag) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
    return ::epoll_ctl(poll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  const std::size_t nodes = devices_.size();
  for (std::size_t i = 0; i < nodes; ++i) {
    if (!watch(devices_[i].get(), i)) return Failed("epoll");
  }
  if (!watch(stop, nodes)) return Failed("epoll");
  std::vector<epoll_event> events(nodes + 1);
  while (true) {
    timespec wait{.tv_sec = 1, .tv_nsec = 0};
    if (!agenda_.empty()) {
      const auto left = std::chrono::nanoseconds(agenda_.top().due - Clock::now()).count();
      wait = {.tv_sec = 0, .tv_nsec = std::clamp<long>(left, 0, 999'999'999)};
    }
    const int count =
        ::epoll_pwait2(poll.get(), events.data(), static_cast<int>(events.size()), &wait, nullptr);
    if (count < 0 && errno != EINTR) return Failed("epoll");
    DeliverDue();
    for (int i = 0; i < count; ++i) {
      if (events[static_cast<std::size_t>(i)].data.u64 == nodes) return Status();
      ReadSome(events[static_cast<std::size_t>(i)].data.u64);
      DeliverDue();
    }
  }
}

void Emulator::ReadSome(std::size_t node) {
  for (int i = 0; i < kBatch; ++i) {
    const ssize_t size = ::read(devices_[node].get(), arriving_.data(), arriving_.size());
    if (size <= 0) return;
    Accept(node, static_cast<std::size_t>(size));
  }
}

void Emulator::Accept(std::size_t from, std::size_t size) {
  const std::size_t to = DestinationOf(arriving_.data(), size);
  if (to >= devices_.size() || to == from) {  // the kernel's own multicasts, mostly
    ++unroutable_;
    return;
  }
  const std::size_t index = from * devices_.size() + to;
  Wire& wire = wires_[index];
  const auto due = wire.link.Send(size, Clock::now());
  if (!due) return;
  std::vector<std::byte> bytes;
  if (!spare_.empty()) {
    bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  const auto begin = arriving_.begin();
  bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
  wire.packets.push({*due, std::move(bytes)});
  if (wire.packets.size() == 1) agenda_.push({*due, index});
}

void Emulator::DeliverDue() {
  Timepoint now = Clock::now();
  while (!agenda_.empty() && agenda_.top().due <= now) {
    const std::size_t index = agenda_.top().wire;
    agenda_.pop();
    Wire& wire = wires_[index];
    Packet packet = std::move(wire.packets.front());
    wire.packets.pop();
    if (!wire.packets.empty()) agenda_.push({wire.packets.front().due, index});
    wire.link.Deliver(packet.bytes.size());
    const ssize_t size = ::write(devices_[wire.to].get(), packet.bytes.data(), packet.bytes.size());
    if (size < 0) ++refused_;
    const Duration lateness = now - packet.due;
    lateness_ += lateness;
    latest_ = std::max(latest_, lateness);
    if (lateness > kLate) ++late_;
    if (++delivered_ % kBatch == 0) now = Clock::now();
    if (spare_.size() < kSpareMax) spare_.push_back(std::move(packet.bytes));
  }
}

std::string Emulator::Report() const {
  using Json = nlohmann::ordered_json;
  Json links = Json::array();
  const std::size_t nodes = devices_.size();
  for (std::size_t i = 0; i < wires_.size(); ++i) {
    const LinkCounts& counts = wires_[i].link.counts();
    if (counts.packets + counts.lost + counts.dropped == 0) continue;
    links.push_back({{"from", topology_.nodes[i / nodes].name},
                     {"to", topology_.nodes[i % nodes].name},
                     {"packets", counts.packets},
                     {"bytes", counts.bytes},
                     {"lost", counts.lost},
                     {"dropped", counts.dropped}});
  }
  const double mean =
      delivered_ == 0 ? 0 : ToSeconds(lateness_) / static_cast<double>(delivered_) * 1e6;
  const Json report = {{"delivered", delivered_},
                       {"meanLateUs", mean},
                       {"maxLateUs", ToSeconds(latest_) * 1e6},
                       {"lateByMoreThan1Ms", late_},
                       {"unroutable", unroutable_},
                       {"refused", refused_},
                       {"links", links}};
  return report.dump(2);
}

}  // namespace swarm::wan
