#include "worker/pod/worker_flags.h"

#include <charconv>

namespace swarm::pod {
namespace {

/// host:port with a port greater by `more`, where that is a number and not 0.
std::string WithPort(const std::string& address, std::size_t more) {
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos) return address;
  std::uint64_t port = 0;
  const char* const end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port == 0) return address;
  return address.substr(0, colon + 1) + std::to_string(port + more);
}

/// The gateway takes a number before the name for ports behind the pod's first.
std::string BehindGateway(const std::string& gateway, std::size_t index) {
  if (gateway.empty() || index == 0) return gateway;
  const protocol::Address way = *ParseGateway(gateway);  // it was checked
  return way.dial + "/" + std::to_string(index) + "." + way.tls_server_name;
}

}  // namespace

std::string WorkerName(const WorkerFlags& pod, std::size_t index) {
  return pod.id + "-" + std::to_string(index);
}

WorkerFlags WorkerOf(const WorkerFlags& pod, std::size_t index, std::uint64_t memory) {
  WorkerFlags flags = pod;
  flags.id = WorkerName(pod, index);
  flags.device = pod.devices.at(index);
  flags.devices.clear();
  if (pod.pod.empty()) flags.pod = pod.id;
  flags.listen = WithPort(pod.listen, index);
  flags.advertise = WithPort(pod.advertise, index);
  flags.gateway = BehindGateway(pod.gateway, index);
  if (!pod.metrics_listen.empty()) {
    const std::size_t colon = pod.metrics_listen.rfind(':');
    flags.metrics_listen =
        "127.0.0.1:" + (colon == std::string::npos ? "" : pod.metrics_listen.substr(colon + 1));
    flags.metrics_listen = WithPort(flags.metrics_listen, 1 + index);
  }
  if (!pod.profile.empty()) flags.profile = pod.profile + "-" + std::to_string(index);
  if (!pod.metrics_address_file.empty()) {
    flags.metrics_address_file = pod.metrics_address_file + "-" + std::to_string(index);
  }
  if (pod.memory == 0) flags.memory = memory / pod.devices.size();
  return flags;
}

}  // namespace swarm::pod
