// Measures the reduce among replicas beside the transport that carries it: two endpoints in this
// process, connected over loopback TCP. The yardstick sends both ways at once, in chunks of the
// same size, as many bytes as each side of the reduce sends. The target is at least 0.8 of the
// transport's rate. Integers (exact accumulation) take twice the bytes of as many floats.
// Then sums of 4, 16 and 64 replicas in this process: flat, and over a grid. Their messages pass
// without sockets and copies, and all replicas share this machine's cores, so the time is that of
// all their work besides the network's.
// Usage: reduce_bench [LARGEST_MIB=128] [ROUNDS=7] [LARGEST_REPLICAS=64]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/loopback/loopback.h"
#include "worker/net/outbox.h"
#include "worker/stage/reduce/reduce.h"

namespace swarm::stage {
namespace {

using protocol::ReduceChunk;
using protocol::WorkerId;

/// One side: an endpoint and the loop that owns what arrives.
struct Side final : net::EndpointHandler {
  /// On a loopback network, or over loopback TCP.
  Side(WorkerId name, net::LoopbackNetwork* network) : id(std::move(name)) {
    if (network != nullptr) {
      Own(network->CreateEndpoint(id, this));
    } else {
      Own(net::GrpcEndpoint::Create(
          {.self = id, .listen = "127.0.0.1:0", .job = "bench", .plaintext = true}, this));
    }
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
  void OnPeerUp(const WorkerId& peer) override {
    loop.Post([this, peer] {
      if (up.insert(peer).second && up.size() == awaited) connected.set_value();
    });
  }
  void OnPeerDown(const WorkerId&, const Status&) override {}
  template <typename E>
  void Own(Result<std::unique_ptr<E>> created) {
    SWARM_CHECK(created.ok(), created.status().ToString());
    endpoint = std::move(*created);
  }
  void Send(const WorkerId& to, ReduceChunk chunk, Bytes payload) {
    sent += payload.size();
    (void)outbox->Send(to, net::Lane::kData, {chunk, std::move(payload)});
  }

  WorkerId id;
  std::function<void(const WorkerId&, const ReduceChunk&, const Bytes&)> take;
  std::uint64_t sent = 0;
  std::size_t awaited = 0;  // connections; set before any is asked for
  std::set<WorkerId> up;
  BufferPool buffers;
  std::promise<void> connected;
  Loop loop{"side"};
  std::unique_ptr<net::Endpoint> endpoint;
  std::unique_ptr<net::Outbox> outbox;
};

using Sides = std::vector<std::unique_ptr<Side>>;

WorkerId NameOfSide(std::size_t number) { return WorkerId("side" + std::to_string(number)); }

/// Sides of which those that `exchange` are connected.
Sides MakeSides(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& exchange,
                net::LoopbackNetwork* network) {
  Sides sides;
  for (std::size_t i = 0; i < count; ++i) {
    sides.push_back(std::make_unique<Side>(NameOfSide(i), network));
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) sides[i]->awaited += exchange(i, j) ? 1 : 0;
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      if (exchange(i, j)) {
        sides[i]->endpoint->Connect(sides[j]->id, sides[j]->endpoint->addresses());
      }
    }
  }
  for (const auto& side : sides) side->connected.get_future().wait();
  return sides;
}

/// Seconds from when all sides begin until `done` of all. `prepare` sets the receiver of arriving
/// messages.
double Time(const Sides& sides, const std::function<void(Side&, std::function<void()>)>& prepare,
            const std::function<void(Side&)>& begin) {
  std::latch done(static_cast<std::ptrdiff_t>(sides.size()));
  for (const auto& side : sides) {
    std::promise<void> prepared;
    side->loop.Post([&] {
      prepare(*side, [&done] { done.count_down(); });
      prepared.set_value();
    });
    prepared.get_future().wait();
  }
  const Timepoint start = Clock::now();
  for (const auto& side : sides) {
    side->loop.Post([&begin, &side] { begin(*side); });
  }
  done.wait();
  return ToSeconds(Clock::now() - start);
}

double TimeTransport(const Sides& sides, const Bytes& data) {
  const auto prepare = [&](Side& side, std::function<void()> done) {
    auto left = std::make_shared<std::uint64_t>(data.size());
    side.take = [left, done = std::move(done)](const WorkerId&, const ReduceChunk&,
                                               const Bytes& payload) {
      *left -= payload.size();
      if (*left == 0) done();
    };
  };
  return Time(sides, prepare, [&](Side& side) {
    const WorkerId& other = sides[&side == sides[0].get() ? 1 : 0]->id;
    for (std::uint64_t at = 0; at < data.size(); at += GroupReduce::kChunkBytes) {
      const std::uint64_t size =
          std::min<std::uint64_t>(GroupReduce::kChunkBytes, data.size() - at);
      side.Send(other, {}, data.Slice(at, size));
    }
  });
}

double TimeReduce(const Sides& sides, std::size_t rows, const model::GradientSum& data) {
  protocol::Reduce reduce;
  for (const auto& side : sides) reduce.participants.push_back(side->id);
  reduce.rows = rows;
  std::map<Side*, std::shared_ptr<GroupReduce>> parts;
  for (const auto& each : sides) {
    Side* side = each.get();
    parts[side] =
        std::make_shared<GroupReduce>(reduce, side->id, data, side->buffers,
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
  return Time(sides, prepare, [&](Side& side) { parts[&side]->Start(); });
}

/// Zeros, of that type.
model::GradientSum MakeSum(checkpoint::ElementType type, std::uint64_t mib) {
  const std::vector<std::int64_t> zeros(mib * 1024 * 1024 / sizeof(std::int64_t));
  return {.elements = Bytes::Copy(zeros.data(), zeros.size() * sizeof(zeros[0])),
          .type = type,
          .exponents = {}};
}

void CompareWithTransport(std::uint64_t mib_max, int rounds) {
  const Sides pair = MakeSides(2, std::not_equal_to<>(), nullptr);
  std::printf("%8s %10s %14s %14s %8s\n", "elements", "MiB", "transport GB/s", "reduce GB/s",
              "ratio");
  for (const auto type : {checkpoint::ElementType::kF32, checkpoint::ElementType::kI64}) {
    for (const std::uint64_t mib : {4, 32, 128}) {
      if (mib > mib_max) break;
      const model::GradientSum data = MakeSum(type, mib);
      double transport = 1e9, reduce = 1e9;
      for (int i = 0; i < rounds; ++i) {
        transport = std::min(transport, TimeTransport(pair, data.elements));
        reduce = std::min(reduce, TimeReduce(pair, 1, data));
      }
      const double gigabytes = static_cast<double>(data.elements.size()) * 1e-9;
      std::printf("%8s %10llu %14.2f %14.2f %8.2f\n",
                  type == checkpoint::ElementType::kF32 ? "float" : "int64",
                  static_cast<unsigned long long>(mib), gigabytes / transport, gigabytes / reduce,
                  transport / reduce);
    }
  }
}

struct Cost {
  double seconds = 1e9;  // of the fastest round
  std::size_t connections = 0;
  double mib_sent = 0;  // of the participant that sends most
};

Cost MeasureSum(std::size_t replicas, std::size_t rows, const model::GradientSum& data,
                int rounds) {
  const protocol::ReduceGrid grid(replicas, rows);
  net::LoopbackNetwork network;
  const Sides sides = MakeSides(
      replicas, [&](std::size_t a, std::size_t b) { return grid.Exchange(a, b); }, &network);
  Cost cost;
  for (int i = 0; i < rounds; ++i) {
    cost.seconds = std::min(cost.seconds, TimeReduce(sides, rows, data));
  }
  for (const auto& side : sides) {
    cost.connections = std::max(cost.connections, side->awaited);
    cost.mib_sent = std::max(cost.mib_sent, static_cast<double>(side->sent) / rounds / (1 << 20));
  }
  return cost;
}

void CompareGrids(std::size_t replicas_max, int rounds) {
  constexpr std::uint64_t kMib = 16;
  const model::GradientSum data = MakeSum(checkpoint::ElementType::kF32, kMib);
  std::printf("\nsums of %llu MiB; connections and MiB sent are those of one replica\n",
              static_cast<unsigned long long>(kMib));
  std::printf("%8s %22s %22s %22s\n", "replicas", "connections flat, grid", "MiB sent flat, grid",
              "time grid / flat");
  for (const std::size_t replicas : {4, 16, 64}) {
    if (replicas > replicas_max) break;
    const Cost flat = MeasureSum(replicas, 1, data, rounds);
    const Cost grid = MeasureSum(replicas, protocol::ChooseRows(replicas, 1), data, rounds);
    std::printf("%8zu %14zu, %6zu %14.1f, %6.1f %22.2f\n", replicas, flat.connections,
                grid.connections, flat.mib_sent, grid.mib_sent, grid.seconds / flat.seconds);
  }
}

}  // namespace
}  // namespace swarm::stage

int main(int argc, char** argv) {
  const std::uint64_t mib_max = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 128;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  const std::size_t replicas_max = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 64;
  swarm::stage::CompareWithTransport(mib_max, rounds);
  swarm::stage::CompareGrids(replicas_max, rounds);
  return 0;
}
