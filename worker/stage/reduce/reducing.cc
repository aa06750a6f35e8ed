#include "worker/stage/reduce/reducing.h"

#include <utility>

#include "base/log.h"
#include "base/parallel.h"
#include "worker/optim/fixed_point.h"
#include "worker/stage/reduce/norms.h"

namespace swarm::stage {

using protocol::ReduceChunk;
using protocol::WorkerId;

namespace {

/// At least this much of what peers send for sums that this worker has not begun is kept. They send
/// at most GroupReduce::kEarlyBytes for the sum of a group, so only peers that break that rule
/// exceed it: there are at most three groups, and one attempt of each counts.
constexpr std::uint64_t kEarlyBytesMin = 4 * GroupReduce::kEarlyBytes;

constexpr Duration kReportInterval = std::chrono::seconds(1);

/// Of the tensors that the step's sum of the stage's group is of, in their order.
std::vector<std::uint64_t> PartSizes(const model::Stage& stage, protocol::Step step,
                                     std::uint64_t group) {
  std::vector<std::uint64_t> sizes;
  for (const model::ParameterSlot& slot : stage.SumSlots(step, group)) sizes.push_back(slot.count);
  return sizes;
}

protocol::PartDigest DescribePart(const protocol::PartName& name, const Bytes& sum,
                                  checkpoint::ElementType type) {
  protocol::PartDigest part{name, ComputeDigest(sum.span())};
  if (type == checkpoint::ElementType::kI64) {
    part.magnitude_bits = static_cast<std::uint64_t>(optim::MagnitudeBits(
        {reinterpret_cast<const std::int64_t*>(sum.data()), sum.size() / sizeof(std::int64_t)}));
  }
  return part;
}

/// The fields of a key or a chunk that identify a sum, whichever the attempt.
auto SumOf(const auto& named) { return std::tie(named.generation, named.step, named.group); }

}  // namespace

Reducing::Reducing(WorkerId self, int threads, WorkerMetrics* metrics, MemoryAccount* account,
                   Done done, Wait wait, Unreadable unreadable)
    : self_(std::move(self)),
      threads_(threads),
      metrics_(metrics),
      account_(account),
      done_(std::move(done)),
      wait_(std::move(wait)),
      unreadable_(std::move(unreadable)) {}

void Reducing::Attach(net::Endpoint* endpoint) {
  loop_.Post([this, endpoint] { outbox_ = std::make_unique<net::Outbox>(endpoint, &loop_); });
}

void Reducing::Begin(const protocol::Reduce& reduce, std::shared_ptr<const model::Stage> stage,
                     std::uint64_t group, std::function<Result<model::GradientSum>()> give,
                     api::ReduceCodec codec, std::map<WorkerId, std::string> regions) {
  loop_.Post([this, reduce, stage = std::move(stage), group, give = std::move(give), codec,
              regions = std::move(regions)] {
    const Timepoint begun = Clock::now();
    const Result<model::GradientSum> own = give();
    if (!own.ok()) return unreadable_(own.status());
    const Key key{reduce.generation, reduce.step, reduce.group, reduce.k};
    std::erase_if(sums_, [&](const auto& entry) { return SumOf(entry.first) == SumOf(key); });
    ForgetChunks([&](const ReduceChunk& chunk) { return SumOf(chunk) == SumOf(key); });
    ForgetEarlyBefore(key);
    Sum& sum = sums_[key] = {MakeReduceCodec(codec), nullptr, stage, group, *own, begun};
    sum.reduce = std::make_unique<GroupReduce>(
        reduce, self_, *own, buffers_,
        [this, regions](const WorkerId& to, ReduceChunk chunk, Bytes payload) {
          if (gone_.contains(to)) return;  // this sum will be made anew without it
          metrics_->reduce_bytes += payload.size();
          const auto region = regions.find(to);
          metrics_->region_bytes.AddSent(region == regions.end() ? "" : region->second,
                                         payload.size());
          const Status status = outbox_->Send(to, net::Lane::kData, {chunk, std::move(payload)});
          if (!status.ok()) LOG_WARN("reduce: {}", status.message());
        },
        Thinning{sum.codec.get(), sum.codec ? ResidualBefore(key, stage->fragments()) : Bytes()},
        reduce.holders.empty() ? std::vector<std::uint64_t>() : PartSizes(*stage, key.step, group));
    sum.reduce->Start();
    if (auto early = early_.extract(key)) {
      for (EarlyChunk& chunk : early.mapped()) {
        Take(chunk.from, chunk.chunk, std::move(chunk.payload));
      }
    }
    FinishIfDone(key);
    NoteSumming();
    ReportLater(key);
  });
}

void Reducing::ReportLater(const Key& key) {
  loop_.PostAt(Clock::now() + kReportInterval, [this, key] {
    const auto sum = sums_.find(key);
    if (sum == sums_.end() || sum->second.reduce->done()) return;
    const GroupReduce& reduce = *sum->second.reduce;
    wait_({key.generation, key.step, key.group, key.k, reduce.chunks(), reduce.Awaited()});
    ReportLater(key);
  });
}

Bytes Reducing::ResidualBefore(const Key& key, std::uint64_t fragments) const {
  const auto group = residuals_.find({key.generation, key.group, key.step.value % fragments});
  if (group == residuals_.end()) return Bytes();
  const auto after = group->second.lower_bound(key.step);
  return after == group->second.begin() ? Bytes() : std::prev(after)->second;
}

void Reducing::KeepResidual(const Key& key, std::uint64_t fragments, Bytes residual) {
  if (residual.empty()) return;
  ForgetResidualsBefore(key.generation);
  auto& steps = residuals_[{key.generation, key.group, key.step.value % fragments}];
  steps[key.step] = std::move(residual);
  if (steps.size() > 2) steps.erase(steps.begin());
}

void Reducing::ForgetResidualsBefore(protocol::Generation generation) {
  std::erase_if(residuals_,
                [&](const auto& entry) { return std::get<0>(entry.first) < generation; });
}

void Reducing::OnChunk(const WorkerId& from, const ReduceChunk& chunk, Bytes payload) {
  loop_.Post([this, from, chunk, payload = std::move(payload)]() mutable {
    Take(from, chunk, std::move(payload));
  });
}

void Reducing::Take(const WorkerId& from, const ReduceChunk& chunk, Bytes payload) {
  const Key key{chunk.generation, chunk.step, chunk.group, chunk.k};
  if (std::pair(chunk.generation, chunk.step) < floor_) {
    metrics_->refused.Add("late chunk");
    return;
  }
  const auto it = sums_.find(key);
  if (it == sums_.end()) {
    const auto later = sums_.upper_bound(key);
    if (later != sums_.end() && SumOf(later->first) == SumOf(key)) {
      metrics_->refused.Add("late chunk");
      return;
    }
    KeepEarly(key, from, chunk, std::move(payload));
    return;
  }
  const bool was_done = it->second.reduce->done();
  if (const Status status = it->second.reduce->OnChunk(from, chunk, payload); !status.ok()) {
    metrics_->refused.Add("bad chunk");
    LOG_WARN("reduce of step {}: {}", chunk.step.value, status.message());
  }
  if (!was_done) FinishIfDone(key);
}

void Reducing::KeepEarly(const Key& key, const WorkerId& from, const ReduceChunk& chunk,
                         Bytes payload) {
  // The peer heard of the reduce first. It may be the second attempt of which this worker hears.
  const auto later = early_.upper_bound(key);
  if (later != early_.end() && SumOf(later->first) == SumOf(key)) {
    metrics_->refused.Add("late chunk");
    return;
  }
  ForgetEarlyBefore(key);
  const std::uint64_t most = std::max(kEarlyBytesMin, account_->share(MemoryKind::kEarlyChunks));
  if (account_->bytes(MemoryKind::kEarlyChunks) + payload.size() > most) {
    metrics_->refused.Add("too many early chunks");
    return;
  }
  MemoryCharge charge(account_, MemoryKind::kEarlyChunks, payload.size());
  early_[key].push_back({from, chunk, std::move(payload), std::move(charge)});
}

void Reducing::ForgetEarlyBefore(const Key& key) {
  Key first = key;
  first.k = {};
  early_.erase(early_.lower_bound(first), early_.lower_bound(key));
}

void Reducing::FinishIfDone(const Key& key) {
  const auto it = sums_.find(key);
  if (it == sums_.end() || !it->second.reduce->done()) return;
  const Sum& sum = it->second;
  if (sum.codec) KeepResidual(key, sum.stage->fragments(), sum.reduce->residual());
  ReducedSum result{.generation = key.generation,
                    .step = key.step,
                    .group = key.group,
                    .k = key.k,
                    .elements = sum.reduce->result(),
                    .pieces = {},
                    .norms = {},
                    .parts = {},
                    .holders = sum.reduce->reduce().holders,
                    .begun = sum.begun};
  std::vector<bool> held;
  for (const protocol::PartHolders& holders : result.holders) held.push_back(holders.Has(self_));
  if (result.holders.empty()) {
    // Where nothing was added to it, a device may know the digests of the own sum.
    const bool own = result.elements.data() == sum.own.elements.data();
    result.pieces = std::make_shared<const checkpoint::PiecedBytes>(
        std::vector<Bytes>{result.elements},
        [this](std::size_t count, const auto& body) { ForEachOn(threads_, count, body); },
        own ? sum.own.piece_digests : std::vector<Digest>());
  } else {
    const std::uint64_t element = checkpoint::ElementBytes(sum.own.type);
    std::uint64_t offset = 0;
    const std::vector<std::uint64_t> sizes = PartSizes(*sum.stage, key.step, sum.group);
    for (std::size_t part = 0; part < sizes.size(); offset += sizes[part++] * element) {
      if (!held[part]) continue;
      result.parts.push_back(DescribePart(
          {key.group, part}, result.elements.Slice(offset, sizes[part] * element), sum.own.type));
    }
  }
  result.norms =
      ComputeTensorNorms(*sum.stage, key.step, sum.group, sum.own, result.elements, held, threads_);
  done_(std::move(result));
  NoteSumming();
}

void Reducing::NoteSumming() {
  const bool summing = std::any_of(sums_.begin(), sums_.end(),
                                   [](const auto& entry) { return !entry.second.reduce->done(); });
  metrics_->summing.Set(summing, Clock::now());
}

void Reducing::Abandon(protocol::Generation generation, protocol::Step step) {
  loop_.Post([this, generation, step] {
    std::erase_if(sums_, [&](const auto& entry) {
      return entry.first.generation == generation && entry.first.step == step;
    });
    NoteSumming();
    ForgetChunks([&](const ReduceChunk& chunk) {
      return chunk.generation == generation && chunk.step == step;
    });
  });
}

void Reducing::ForgetChunks(const std::function<bool(const ReduceChunk&)>& unwanted) {
  if (!outbox_) return;
  outbox_->ForgetIf([&](const protocol::Message& message) {
    const auto* chunk = std::get_if<ReduceChunk>(&message);
    return chunk != nullptr && unwanted(*chunk);
  });
}

void Reducing::Release(protocol::Generation generation, protocol::Step step) {
  loop_.Post([this, generation, step] { RaiseFloor(generation, step.Next()); });
}

void Reducing::RaiseFloor(protocol::Generation generation, protocol::Step step) {
  floor_ = std::max(floor_, std::pair(generation, step));
  const auto over = [&](const auto& entry) {
    return std::pair(entry.first.generation, entry.first.step) < floor_;
  };
  std::erase_if(sums_, over);
  std::erase_if(early_, over);
  NoteSumming();
}

std::shared_future<void> Reducing::ForgetBefore(protocol::Generation generation) {
  const auto done = std::make_shared<std::promise<void>>();
  loop_.Post([this, generation, done] {
    RaiseFloor(generation, protocol::Step(0));
    ForgetResidualsBefore(generation);
    ForgetChunks([&](const ReduceChunk& chunk) { return chunk.generation < generation; });
    done->set_value();
  });
  return done->get_future().share();
}

void Reducing::Flush() {
  loop_.Post([this] {
    if (outbox_) outbox_->Flush();
  });
}

void Reducing::Forget(const WorkerId& peer) {
  loop_.Post([this, peer] {
    gone_.insert(peer);
    if (outbox_) outbox_->Forget(peer);
  });
}

void Reducing::Expect(const WorkerId& peer) {
  loop_.Post([this, peer] { gone_.erase(peer); });
}

std::size_t Reducing::CountWaiting() {
  std::promise<std::size_t> count;
  loop_.Post([&] { count.set_value(outbox_->waiting()); });
  return count.get_future().get();
}

}  // namespace swarm::stage
