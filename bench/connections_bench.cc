// What connections cost that carry little: the memory and the processor time of endpoints in this
// process that keep connections to some others over mutual TLS, as workers do to their neighbours.
// Each connection counts once; it has two ends here, and a lane for control and one for data at
// each. First nothing is sent for SECONDS, then a beat goes each way over every connection once a
// second.
// Usage: connections_bench [ENDPOINTS=40] [NEIGHBOURS=20] [SECONDS=10] [DIALS_AT_ONCE=32]
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/exit.h"
#include "base/identity/authority.h"
#include "base/loop.h"
#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::net {
namespace {

constexpr char kJob[] = "bench";

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

double ResidentKib() {
  std::ifstream status("/proc/self/status");
  const std::string text{std::istreambuf_iterator<char>(status), {}};
  return std::strtod(text.c_str() + text.find("VmRSS:") + 6, nullptr);
}

class Counter final : public EndpointHandler {
 public:
  void OnMessage(const WorkerId&, Lane, Envelope) override { ++messages; }
  void OnPeerUp(const WorkerId&) override { ++up; }
  void OnPeerDown(const WorkerId&, const Status&) override { --up; }
  std::atomic<std::uint64_t> messages = 0;
  std::atomic<std::int64_t> up = 0;
};

[[noreturn]] void Run(std::size_t endpoints, std::size_t neighbours, int seconds,
                      std::size_t dials) {
  const auto authority = identity::JobAuthority::Create(kJob);
  SWARM_CHECK(authority.ok(), authority.status().ToString());
  const auto loop = std::make_shared<Loop>("net");
  const auto dial_slots = std::make_shared<DialSlots>(dials);
  Counter counter;
  std::vector<std::unique_ptr<GrpcEndpoint>> all;
  const auto id = [](std::size_t i) { return WorkerId("w" + std::to_string(i)); };
  for (std::size_t i = 0; i < endpoints; ++i) {
    const auto pair = authority->Issue(id(i).value, identity::WorkerUri(kJob, id(i).value));
    SWARM_CHECK(pair.ok(), pair.status().ToString());
    auto made = GrpcEndpoint::Create(
        {.self = id(i),
         .listen = "127.0.0.1:0",
         .job = kJob,
         .tls_pem = TlsPem{authority->pair().certificate, pair->certificate, pair->key},
         .loop = loop,
         .dial_slots = dial_slots},
        &counter);
    SWARM_CHECK(made.ok(), made.status().ToString());
    all.push_back(std::move(*made));
  }
  const double kib = ResidentKib(), processor = ProcessorSeconds();
  const Timepoint begin = Clock::now();
  std::vector<std::pair<std::size_t, std::size_t>> ways;
  for (std::size_t i = 0; i < endpoints; ++i) {
    for (std::size_t n = 1; n <= neighbours / 2; ++n) {
      const std::size_t other = (i + n) % endpoints;
      all[i]->Connect(id(other), all[other]->addresses());
      ways.insert(ways.end(), {{i, other}, {other, i}});
    }
  }
  const auto connections = static_cast<double>(ways.size()) / 2;
  while (counter.up < static_cast<std::int64_t>(ways.size())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::printf("%6.0f connections: open after %.2f s; each %.2f ms of processor, %.0f KiB\n",
              connections, ToSeconds(Clock::now() - begin),
              1e3 * (ProcessorSeconds() - processor) / connections,
              (ResidentKib() - kib) / connections);
  std::fflush(stdout);
  const double idle = ProcessorSeconds();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  std::printf("%6.0f connections: %.1f us of processor a second each while nothing is sent\n",
              connections, 1e6 * (ProcessorSeconds() - idle) / seconds / connections);
  std::fflush(stdout);
  const double before = ProcessorSeconds();
  std::uint64_t sent = 0;
  for (Timepoint at = Clock::now(); seconds-- > 0;) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const auto& [from, to] = ways[i];
      sent += all[from]->Send(id(to), Lane::kControl, {protocol::PeerBeat{}, {}}).ok() ? 1 : 0;
      std::this_thread::sleep_until(at + (i + 1) * std::chrono::seconds(1) / ways.size());
    }
    at += std::chrono::seconds(1);
  }
  std::printf("%6.0f beats: each %.1f us of processor, both ends; %.0f KiB a connection\n",
              static_cast<double>(sent), 1e6 * (ProcessorSeconds() - before) / sent,
              (ResidentKib() - kib) / connections);
  ExitWith(0);  // with all endpoints open: each that closes would have others dial it
}

}  // namespace
}  // namespace swarm::net

int main(int argc, char** argv) {
  const std::size_t endpoints = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 40;
  const std::size_t neighbours = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 20;
  const int seconds = argc > 3 ? std::atoi(argv[3]) : 10;
  swarm::net::Run(endpoints, neighbours, seconds,
                  argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 32);
}
