// Runs one of two replicas that sum their gradients again and again over a network.
// bench/wan_reduce.py runs one at each end of a link. Prints the seconds of each sum, one per line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/exit.h"
#include "base/log.h"
#include "base/loop.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/outbox.h"
#include "worker/stage/reduce/reduce.h"

namespace swarm::stage {
namespace {

using protocol::ReduceChunk;
using protocol::WorkerId;

struct Flags {
  std::string listen, peer;
  std::uint64_t mib = 32, rounds = 8;
  double idle_seconds = 0;
};

/// Replica "a" listens, replica "b" dials it. Round n sums step n. A chunk of a round that has not
/// begun here belongs to that round, too.
class Replica final : public net::EndpointHandler {
 public:
  explicit Replica(const Flags& flags)
      : self_(flags.peer.empty() ? "a" : "b"), other_(flags.peer.empty() ? "b" : "a") {
    const std::uint64_t size = flags.mib << 20;
    data_.elements =
        Bytes::Make(size, [size](std::byte* to) { std::fill_n(to, size, std::byte{0}); });
    auto made = net::GrpcEndpoint::Create(
        {.self = self_, .listen = flags.listen, .job = "bench", .plaintext = true}, this);
    SWARM_CHECK(made.ok(), made.status().ToString());
    endpoint_ = std::move(*made);
    outbox_ = std::make_unique<net::Outbox>(endpoint_.get(), &loop_);
    if (!flags.peer.empty()) endpoint_->Connect(other_, {{"cluster", flags.peer, ""}});
    up_.get_future().wait();
  }
  ~Replica() override {
    loop_.Stop();
    endpoint_.reset();
  }

  /// The seconds of a round, from its beginning here to the whole sum here.
  double Sum(std::uint64_t round) {
    std::promise<void> done;
    const Timepoint begin = Clock::now();
    loop_.Post([&, round] {
      waiting_ = &done;
      awaited_ = round;
      Part(round).Start();
      FinishIfDone(round);
    });
    done.get_future().wait();
    return ToSeconds(Clock::now() - begin);
  }

 private:
  void OnMessage(const WorkerId& from, net::Lane, net::Envelope envelope) override {
    loop_.Post([this, from, envelope = std::move(envelope)] {
      const auto& chunk = std::get<ReduceChunk>(envelope.message);
      const Status status = Part(chunk.step.value).OnChunk(from, chunk, envelope.payload);
      SWARM_CHECK(status.ok(), status.ToString());
      FinishIfDone(chunk.step.value);
    });
  }
  void OnPeerUp(const WorkerId&) override {
    if (!is_up_.exchange(true)) up_.set_value();
  }
  void OnPeerDown(const WorkerId&, const Status&) override {}

  GroupReduce& Part(std::uint64_t round) {
    auto& part = parts_[round];
    if (!part) {
      protocol::Reduce reduce;
      reduce.step = protocol::Step(round);
      reduce.participants = {WorkerId("a"), WorkerId("b")};
      part = std::make_unique<GroupReduce>(
          reduce, self_, data_, buffers_,
          [this](const WorkerId& to, ReduceChunk chunk, Bytes payload) {
            (void)outbox_->Send(to, net::Lane::kData, {chunk, std::move(payload)});
          });
    }
    return *part;
  }
  void FinishIfDone(std::uint64_t round) {
    if (waiting_ == nullptr || round != awaited_ || !parts_.at(round)->done()) return;
    parts_.erase(round);
    std::exchange(waiting_, nullptr)->set_value();
  }

  const WorkerId self_, other_;
  model::GradientSum data_{.elements = {}, .exponents = {}};
  BufferPool buffers_;
  std::map<std::uint64_t, std::unique_ptr<GroupReduce>> parts_;
  std::promise<void>* waiting_ = nullptr;
  std::uint64_t awaited_ = 0;
  std::atomic<bool> is_up_{false};
  std::promise<void> up_;
  Loop loop_{"reduce"};
  std::unique_ptr<net::Endpoint> endpoint_;
  std::unique_ptr<net::Outbox> outbox_;
};

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("One of two replicas that sum over a network");
  app.add_option("--listen", flags.listen, "host:port")->required();
  app.add_option("--peer", flags.peer, "host:port of the other; without: wait for it");
  app.add_option("--mib", flags.mib, "Size of the sum");
  app.add_option("--rounds", flags.rounds, "How often");
  app.add_option("--idle-seconds", flags.idle_seconds, "Between two rounds");
  CLI11_PARSE(app, argc, argv);
  StartLogging("reduce_pair", "warn");
  Replica replica(flags);
  for (std::uint64_t round = 0; round < flags.rounds; ++round) {
    std::printf("%.4f\n", replica.Sum(round));
    std::fflush(stdout);
    std::this_thread::sleep_for(FromSeconds(flags.idle_seconds));
  }
  // The messages that the other replica still needs are in flight.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  return 0;
}

}  // namespace
}  // namespace swarm::stage

int main(int argc, char** argv) { swarm::ExitWith(swarm::stage::Main(argc, argv)); }
