#include "worker/net/grpc/tcp_tuning.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace swarm::net {
namespace {

// Bytes a second, more than any link has: the kernel goes by window and round trip alone.
constexpr std::uint64_t kNoPaceLimit = 1'000'000'000'000;
// A message of activations fits in at once: with a quarter of it, a stage that had to wake up four
// times for each lost some per cent of its tokens a second on a busy machine.
constexpr int kUnsentBytesMax = 1 << 20;

/// An IP (IPv4 mapped) and a port, as a key.
std::string KeyOf(const in6_addr& ip, std::uint16_t port) {
  std::string key(reinterpret_cast<const char*>(&ip), sizeof(ip));
  return key + std::to_string(port);
}

in6_addr Mapped(const in_addr& ip) {
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(mapped.s6_addr + 12, &ip, sizeof(ip));
  return mapped;
}

/// `text` after the one of these with which it begins; empty if it begins with none.
std::string_view After(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  for (const std::string_view beginning : beginnings) {
    if (text.starts_with(beginning)) return text.substr(beginning.size());
  }
  return {};
}

bool IsLoopback(const in6_addr& ip) {
  return IN6_IS_ADDR_V4MAPPED(&ip) ? ip.s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(&ip) != 0;
}

/// The key of a peer as gRPC writes it; none: do not tune its connection.
std::optional<std::string> KeyOf(std::string_view peer, bool loopback) {
  const std::size_t colon = peer.rfind(':');
  if (colon == peer.npos) return std::nullopt;
  std::uint16_t port = 0;
  const char* const end = peer.data() + peer.size();
  const auto [parsed_to, error] = std::from_chars(peer.data() + colon + 1, end, port);
  if (error != std::errc() || parsed_to != end) return std::nullopt;
  in6_addr ip{};
  if (const auto v4 = After(peer.substr(0, colon), {"ipv4:"}); !v4.empty()) {
    in_addr parsed{};
    if (inet_pton(AF_INET, std::string(v4).c_str(), &parsed) != 1) return std::nullopt;
    ip = Mapped(parsed);
  } else {
    const auto v6 = After(peer.substr(0, colon), {"ipv6:%5B", "ipv6:["});
    const std::string host(v6.substr(0, v6.find_first_of("%]")));  // a zone begins with %, too
    if (inet_pton(AF_INET6, host.c_str(), &ip) != 1) return std::nullopt;
  }
  if (!loopback && IsLoopback(ip)) return std::nullopt;
  return KeyOf(ip, port);
}

/// The other end of a TCP connection; empty: `socket` is no TCP connection.
std::string PeerOf(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return KeyOf(Mapped(v4.sin_addr), ntohs(v4.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    return KeyOf(v6.sin6_addr, ntohs(v6.sin6_port));
  }
  return "";
}

/// The kernel's identifier of a socket, unique as long as the machine runs; 0: not available.
std::uint64_t CookieOf(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return 0;
  return cookie;
}

}  // namespace

int TcpTuning::Begin(const std::string& address, const protocol::WorkerId& peer, bool loopback) {
  const auto wanted = KeyOf(address, loopback);
  if (!wanted) return 0;
  int found = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (PeerOf(fd) != *wanted) continue;
    ++found;
    (void)setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &kNoPaceLimit, sizeof(kNoPaceLimit));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax, sizeof(kUnsentBytesMax));
    const std::uint64_t cookie = CookieOf(fd);
    const bool known = std::any_of(tuned_.begin(), tuned_.end(),
                                   [&](const Tuned& tuned) { return tuned.cookie == cookie; });
    if (cookie != 0 && !known) {
      tuned_.push_back({.socket = fd, .cookie = cookie, .peer = peer});
    }
  }
  return found;
}

std::map<protocol::WorkerId, protocol::Link> TcpTuning::Look(Timepoint now) {
  std::erase_if(tuned_, [&](Tuned& tuned) { return !Look(tuned, now); });
  std::map<protocol::WorkerId, protocol::Link> links;
  for (const Tuned& tuned : tuned_) links[tuned.peer] = tuned.link;
  return links;
}

bool TcpTuning::Look(Tuned& tuned, Timepoint now) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (CookieOf(tuned.socket) != tuned.cookie ||
      getsockopt(tuned.socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_delivery_rate) + sizeof(info.tcpi_delivery_rate)) {
    return false;
  }
  tuned.link = tuned.meter.OnLook({.at = now,
                                   .round_trip = info.tcpi_min_rtt * 1e-6,
                                   .bytes_per_second = static_cast<double>(info.tcpi_delivery_rate),
                                   .filled = info.tcpi_delivery_rate_app_limited == 0});
  // Not tcpi_bytes_received: it stands still while a lost packet is missing, and then leaps.
  const std::uint32_t segments = info.tcpi_data_segs_in - tuned.segments;
  tuned.segments = info.tcpi_data_segs_in;
  // Counts short segments as full ones: a bound that is too large is better than one too small.
  tuned.segment_bytes = std::max(tuned.segment_bytes, info.tcpi_rcv_mss);
  tuned.bytes += std::uint64_t{segments} * tuned.segment_bytes;
  const std::uint64_t bound =
      tuned.window.OnArrivals({now, tuned.bytes, std::chrono::microseconds(info.tcpi_min_rtt)});
  const int clamp =
      bound == 0 ? kNoClamp : static_cast<int>(std::min<std::uint64_t>(bound, kNoClamp));
  // The kernel raises it on its own when it enlarges the buffer.
  const bool stands =
      clamp == tuned.clamp && info.tcpi_rcv_ssthresh <= static_cast<std::uint32_t>(clamp);
  if (stands) return true;
  tuned.clamp = clamp;
  return setsockopt(tuned.socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp)) == 0;
}

}  // namespace swarm::net
