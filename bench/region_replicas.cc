// Runs the replicas of one region, which sum their gradients again and again with those of other
// regions: flat, and within each region first, in turns. bench/wan_region_reduce.py runs one of it
// in each region. Prints a line for each sum: "flat" or "regions", the seconds until all replicas
// here have the whole sum, and the bytes that they sent to other regions. Ends when its standard
// input does, since other regions may need what it has yet to send.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <latch>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

/// The replicas of a region listen at this port and those behind it.
constexpr int kFirstPort = 7000;

struct Flags {
  std::string region;
  std::map<std::string, std::string> hosts;  // by region
  std::uint64_t replicas = 4, mib = 32, rounds = 3;
};

struct Replica {
  WorkerId id;
  std::string region, address;
};

/// The replicas of all regions, in one order everywhere.
std::vector<Replica> AllReplicas(const Flags& flags) {
  std::vector<Replica> all;
  for (const auto& [region, host] : flags.hosts) {
    for (std::uint64_t i = 0; i < flags.replicas; ++i) {
      all.push_back({WorkerId(region + std::to_string(i)), region,
                     host + ":" + std::to_string(kFirstPort + static_cast<int>(i))});
    }
  }
  return all;
}

/// Even rounds are flat.
bool IsFlat(std::uint64_t round) { return round % 2 == 0; }

protocol::Reduce ReduceOf(std::uint64_t round, const std::vector<Replica>& all) {
  std::vector<protocol::PlacedMember> members;
  for (const Replica& each : all) {
    members.push_back({.id = each.id, .region = IsFlat(round) ? "" : each.region});
  }
  const protocol::Seating seating = protocol::SeatByPlace(members);
  protocol::Reduce reduce;
  reduce.step = protocol::Step(round);
  reduce.participants = seating.seats;
  reduce.rows = seating.rows;
  reduce.regions = seating.regions;
  return reduce;
}

/// A round, as the replicas of this region see it.
struct Round {
  explicit Round(std::uint64_t number, std::uint64_t replicas)
      : number(number), done(static_cast<std::ptrdiff_t>(replicas)) {}

  const std::uint64_t number;
  std::latch done;                        // of all replicas
  std::atomic<std::uint64_t> across = 0;  // bytes that they sent to other regions
};

/// One replica. A chunk of a round that has not begun here belongs to that round, too.
class Summer final : public net::EndpointHandler {
 public:
  Summer(const Replica& self, const std::vector<Replica>& all, Bytes data, std::latch* connected)
      : self_(self),
        all_(all),
        data_{.elements = std::move(data), .exponents = {}},
        connected_(connected) {
    for (const Replica& each : all) {
      if (each.region == self.region) near_.insert(each.id);
    }
    auto made = net::GrpcEndpoint::Create(
        {.self = self.id, .listen = self.address, .job = "bench", .plaintext = true}, this);
    SWARM_CHECK(made.ok(), made.status().ToString());
    endpoint_ = std::move(*made);
    outbox_ = std::make_unique<net::Outbox>(endpoint_.get(), &loop_);
  }
  ~Summer() override {
    loop_.Stop();
    endpoint_.reset();
  }

  /// Of two replicas the later one dials.
  void Dial() {
    for (const Replica& each : all_) {
      if (each.id == self_.id) return;
      endpoint_->Connect(each.id, {{"cluster", each.address, ""}});
    }
  }
  void Begin(Round* round) {
    loop_.Post([this, round] {
      round_ = round;
      PartOf(round->number).reduce->Start();
      FinishIfDone(round->number);
    });
  }

 private:
  struct Part {
    std::unique_ptr<GroupReduce> reduce;
    std::uint64_t across = 0;
  };

  void OnMessage(const WorkerId& from, net::Lane, net::Envelope envelope) override {
    loop_.Post([this, from, envelope = std::move(envelope)] {
      const auto& chunk = std::get<ReduceChunk>(envelope.message);
      const Status status = PartOf(chunk.step.value).reduce->OnChunk(from, chunk, envelope.payload);
      SWARM_CHECK(status.ok(), status.ToString());
      FinishIfDone(chunk.step.value);
    });
  }
  void OnPeerUp(const WorkerId& peer) override {
    loop_.Post([this, peer] {
      if (up_.insert(peer).second && up_.size() + 1 == all_.size()) connected_->count_down();
    });
  }
  void OnPeerDown(const WorkerId& peer, const Status& why) override {
    LOG_INFO("{}: {}", peer.value, why.message());
  }

  Part& PartOf(std::uint64_t round) {
    Part& part = parts_[round];
    if (!part.reduce) {
      part.reduce = std::make_unique<GroupReduce>(
          ReduceOf(round, all_), self_.id, data_, buffers_,
          [this, &part](const WorkerId& to, ReduceChunk chunk, Bytes payload) {
            if (!near_.contains(to)) part.across += payload.size();
            (void)outbox_->Send(to, net::Lane::kData, {chunk, std::move(payload)});
          });
    }
    return part;
  }
  void FinishIfDone(std::uint64_t round) {
    if (round_ == nullptr || round != round_->number) return;
    const auto part = parts_.find(round);
    if (!part->second.reduce->done()) return;
    // All that this replica owes has gone out: it has the sum of every other one.
    round_->across += part->second.across;
    parts_.erase(part);
    std::exchange(round_, nullptr)->done.count_down();
  }

  const Replica self_;
  const std::vector<Replica> all_;
  const model::GradientSum data_;
  std::latch* const connected_;
  std::set<WorkerId> near_;
  BufferPool buffers_;
  std::map<std::uint64_t, Part> parts_;
  Round* round_ = nullptr;  // that is awaited
  std::set<WorkerId> up_;
  Loop loop_{"reduce"};
  std::unique_ptr<net::Endpoint> endpoint_;
  std::unique_ptr<net::Outbox> outbox_;
};

int Run(const Flags& flags) {
  const std::vector<Replica> all = AllReplicas(flags);
  const std::uint64_t size = flags.mib << 20;
  const Bytes data =
      Bytes::Make(size, [size](std::byte* to) { std::fill_n(to, size, std::byte{0}); });
  std::latch connected(static_cast<std::ptrdiff_t>(flags.replicas));
  std::vector<std::unique_ptr<Summer>> summers;
  for (const Replica& each : all) {
    if (each.region == flags.region) {
      summers.push_back(std::make_unique<Summer>(each, all, data, &connected));
    }
  }
  for (const auto& summer : summers) summer->Dial();
  connected.wait();
  for (std::uint64_t number = 0; number < 2 * flags.rounds; ++number) {
    Round round(number, flags.replicas);
    const Timepoint begin = Clock::now();
    for (const auto& summer : summers) summer->Begin(&round);
    round.done.wait();
    std::printf("%s %.4f %llu\n", IsFlat(number) ? "flat" : "regions",
                ToSeconds(Clock::now() - begin),
                static_cast<unsigned long long>(round.across.load()));
    std::fflush(stdout);
  }
  while (std::getchar() != EOF) {
  }
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("The replicas of one region, which sum with those of others");
  app.add_option("--region", flags.region, "of this process; one of --hosts")->required();
  std::vector<std::string> hosts;
  app.add_option("--hosts", hosts, "REGION=ADDRESS,...: the same everywhere")
      ->delimiter(',')
      ->required();
  app.add_option("--replicas", flags.replicas, "in each region");
  app.add_option("--mib", flags.mib, "Size of the sum");
  app.add_option("--rounds", flags.rounds, "of each manner");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& each : hosts) {
    const std::size_t equals = each.find('=');
    SWARM_CHECK(equals != each.npos, "--hosts has REGION=ADDRESS,..., and not " + each);
    flags.hosts[each.substr(0, equals)] = each.substr(equals + 1);
  }
  SWARM_CHECK(flags.hosts.contains(flags.region), "--region is one of --hosts");
  StartLogging("region_replicas", "error");
  return Run(flags);
}

}  // namespace
}  // namespace swarm::stage

int main(int argc, char** argv) { swarm::ExitWith(swarm::stage::Main(argc, argv)); }
