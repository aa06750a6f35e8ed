// Measures the reduce among replicas beside the transport that carries it: two endpoints in this
// process, connected over loopback TCP. The yardstick sends both ways at once, in chunks of the
// same size, as many bytes as each side of the reduce sends. The target is at least 0.8 of the
// transport's rate. Integers (exact accumulation) take twice the bytes of as many floats.
// Usage: reduce_bench [LARGEST_MIB=128] [ROUNDS=7]
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "base/loop.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/outbox.h"
#include "worker/stage/reduce/reduce.h"

namespace swarm::stage {
namespace {

using protocol::ReduceChunk;
using protocol::WorkerId;

/// One side: an endpoint and the loop that owns what arrives.
struct Side final : net::EndpointHandler {
  explicit Side(const std::string& name) : id(name) {
    auto created = net::GrpcEndpoint::Create(
        {.self = id, .listen = "127.0.0.1:0", .job = "bench", .plaintext = true}, this);
    SWARM_CHECK(created.ok(), created.status().ToString());
    endpoint = std::move(*created);
    outbox = std::make_unique<net::Outbox>(endpoint.get(), &loop);
  }
  ~Side() override {
    loop.Stop();
    endpoint.reset();
  }
  void OnMessage(const WorkerId& from, net::Lane, net::Envelope envelope) override {
    loop.Post([this, from, envelope = std::move(envelope)] {
      take(from, std::get<ReduceChunk>(envelope.message), envelope.payload);
    });
  }
  void OnPeerUp(const WorkerId&) override { up.set_value(); }
  void OnPeerDown(const WorkerId&, const Status&) override {}
  void Send(const WorkerId& to, ReduceChunk chunk, Bytes payload) {
    (void)outbox->Send(to, net::Lane::kData, {chunk, std::move(payload)});
  }

  WorkerId id;
  std::function<void(const WorkerId&, const ReduceChunk&, const Bytes&)> take;
  std::promise<void> up;
  Loop loop{"side"};
  std::unique_ptr<net::Endpoint> endpoint;
  std::unique_ptr<net::Outbox> outbox;
};

/// Seconds from when both sides begin until `done` of both. `prepare` sets the receiver of arriving
/// messages.
double Time(Side& a, Side& b, const std::function<void(Side&, std::function<void()>)>& prepare,
            const std::function<void(Side&)>& begin) {
  std::promise<void> done_a, done_b;
  for (auto [side, done] : {std::pair(&a, &done_a), std::pair(&b, &done_b)}) {
    std::promise<void> prepared;
    side->loop.Post([&, side, done] {
      prepare(*side, [done] { done->set_value(); });
      prepared.set_value();
    });
    prepared.get_future().wait();
  }
  const Timepoint start = Clock::now();
  for (Side* side : {&a, &b}) {
    side->loop.Post([&begin, side] { begin(*side); });
  }
  done_a.get_future().wait();
  done_b.get_future().wait();
  return ToSeconds(Clock::now() - start);
}

double TimeTransport(Side& a, Side& b, const Bytes& data) {
  const auto prepare = [&](Side& side, std::function<void()> done) {
    auto left = std::make_shared<std::uint64_t>(data.size());
    side.take = [left, done = std::move(done)](const WorkerId&, const ReduceChunk&,
                                               const Bytes& payload) {
      *left -= payload.size();
      if (*left == 0) done();
    };
  };
  return Time(a, b, prepare, [&](Side& side) {
    for (std::uint64_t at = 0; at < data.size(); at += GroupReduce::kChunkBytes) {
      const std::uint64_t size =
          std::min<std::uint64_t>(GroupReduce::kChunkBytes, data.size() - at);
      side.Send(&side == &a ? b.id : a.id, {}, data.Slice(at, size));
    }
  });
}

double TimeReduce(Side& a, Side& b, const model::GradientSum& data, SumBuffers& buffers) {
  protocol::Reduce reduce;
  reduce.participants = {a.id, b.id};
  std::map<Side*, std::shared_ptr<GroupReduce>> parts;
  for (Side* side : {&a, &b}) {
    parts[side] =
        std::make_shared<GroupReduce>(reduce, side->id, data, buffers,
                                      [side](const WorkerId& to, ReduceChunk chunk, Bytes bytes) {
                                        side->Send(to, chunk, std::move(bytes));
                                      });
  }
  const auto prepare = [&](Side& side, std::function<void()> done) {
    side.take = [part = parts[&side], done = std::move(done)](
                    const WorkerId& from, const ReduceChunk& chunk, const Bytes& payload) {
      const bool before = part->done();
      SWARM_CHECK(part->OnChunk(from, chunk, payload).ok(), "a chunk was refused");
      if (!before && part->done()) done();
    };
  };
  return Time(a, b, prepare, [&](Side& side) { parts[&side]->Start(); });
}

}  // namespace
}  // namespace swarm::stage

int main(int argc, char** argv) {
  using namespace swarm::stage;
  const std::uint64_t mib_max = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 128;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  Side a("a"), b("b");
  a.endpoint->Connect(b.id, b.endpoint->addresses());
  a.up.get_future().wait();
  b.up.get_future().wait();
  std::printf("%8s %10s %14s %14s %8s\n", "elements", "MiB", "transport GB/s", "reduce GB/s",
              "ratio");
  for (const auto type :
       {swarm::checkpoint::ElementType::kF32, swarm::checkpoint::ElementType::kI64}) {
    for (const std::uint64_t mib : {4, 32, 128}) {
      if (mib > mib_max) break;
      const std::vector<std::int64_t> zeros(mib * 1024 * 1024 / sizeof(std::int64_t));
      const swarm::model::GradientSum data{
          .elements = swarm::Bytes::Copy(zeros.data(), zeros.size() * sizeof(zeros[0])),
          .type = type,
          .exponents = {}};
      SumBuffers buffers;
      double transport = 1e9, reduce = 1e9;
      for (int i = 0; i < rounds; ++i) {
        transport = std::min(transport, TimeTransport(a, b, data.elements));
        reduce = std::min(reduce, TimeReduce(a, b, data, buffers));
      }
      const double gigabytes = static_cast<double>(data.elements.size()) * 1e-9;
      std::printf("%8s %10llu %14.2f %14.2f %8.2f\n",
                  type == swarm::checkpoint::ElementType::kF32 ? "float" : "int64",
                  static_cast<unsigned long long>(mib), gigabytes / transport, gigabytes / reduce,
                  transport / reduce);
    }
  }
  return 0;
}
