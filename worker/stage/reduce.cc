#include "worker/stage/reduce.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace swarm::stage {

using protocol::ReduceChunk;
using protocol::WorkerId;

namespace {

#if defined(__SANITIZE_THREAD__)
// The choice among clones is made before the sanitizer can observe it.
#define SWARM_VECTORIZED
#else
#define SWARM_VECTORIZED \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif

/// to[i] = a[i] + b[i]. One instruction set gives what the other gives: there is nothing to fuse.
SWARM_VECTORIZED void Add(float* __restrict to, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

/// to[i] += from[i].
SWARM_VECTORIZED void Accumulate(float* __restrict to, const float* __restrict from,
                                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

bool IsAligned(const float* p) { return reinterpret_cast<std::uintptr_t>(p) % alignof(float) == 0; }

/// Shards begin on cache lines.
constexpr std::uint64_t kAlignElements = 16;

}  // namespace

struct SumBuffers::Shelf {
  std::mutex mutex;
  std::multimap<std::size_t, std::unique_ptr<float[]>> buffers;
};

std::shared_ptr<SumBuffers::Shelf> SumBuffers::MakeShelf() { return std::make_shared<Shelf>(); }

std::shared_ptr<float[]> SumBuffers::Take(std::size_t count) {
  std::unique_ptr<float[]> memory;
  {
    std::lock_guard lock(shelf_->mutex);
    if (const auto it = shelf_->buffers.find(count); it != shelf_->buffers.end()) {
      memory = std::move(it->second);
      shelf_->buffers.erase(it);
    }
  }
  if (!memory) memory.reset(new float[count]);
  return std::shared_ptr<float[]>(memory.release(), [shelf = shelf_, count](float* returned) {
    std::unique_ptr<float[]> buffer(returned);
    std::lock_guard lock(shelf->mutex);
    if (shelf->buffers.count(count) < 2) shelf->buffers.emplace(count, std::move(buffer));
  });
}

GroupReduce::GroupReduce(const protocol::Reduce& reduce, const WorkerId& self,
                         std::span<const float> own, SumBuffers& buffers, SendChunk send)
    : reduce_(reduce), own_(own), send_(std::move(send)) {
  const auto& participants = reduce_.participants;
  const auto me = std::find_if(participants.begin(), participants.end(),
                               [&](const auto& p) { return p.worker == self; });
  SWARM_CHECK(me != participants.end(), "a reduce without this worker");
  rank_ = static_cast<std::size_t>(me - participants.begin());
  if (ranks() == 1) return;  // the sum of one is itself: no buffer, no copy
  missing_elements_ = own_.size();
  result_ = buffers.Take(own_.size());
  gathered_.resize(own_.size() / kAlignElements + 1);
  for (std::uint64_t at = ShardBegin(rank_); at < ShardBegin(rank_ + 1); at += kChunkElements) {
    OwnChunk chunk{at, std::min(kChunkElements, ShardBegin(rank_ + 1) - at), {}};
    chunk.contributions.resize(ranks());
    own_chunks_.push_back(std::move(chunk));
  }
}

std::uint64_t GroupReduce::ShardBegin(std::size_t rank) const {
  if (rank == ranks()) return own_.size();
  return own_.size() * rank / ranks() / kAlignElements * kAlignElements;
}

std::span<const float> GroupReduce::result() const {
  return ranks() == 1 ? own_ : std::span<const float>(result_.get(), own_.size());
}

ReduceChunk GroupReduce::Header(ReduceChunk::Phase phase, std::uint64_t offset) const {
  return {reduce_.generation, reduce_.step, reduce_.group, reduce_.k, phase, offset};
}

void GroupReduce::Start() {
  // Chunk by chunk over all owners, beginning with the next one, so that every owner can begin to
  // sum at once and no owner is everybody's first.
  bool more = ranks() > 1;
  for (std::uint64_t i = 0; more; ++i) {
    more = false;
    for (std::size_t step = 1; step < ranks(); ++step) {
      const std::size_t owner = (rank_ + step) % ranks();
      const std::uint64_t at = ShardBegin(owner) + i * kChunkElements;
      if (at >= ShardBegin(owner + 1)) continue;
      const std::uint64_t count = std::min(kChunkElements, ShardBegin(owner + 1) - at);
      send_(reduce_.participants[owner].worker, Header(ReduceChunk::Phase::kScatter, at),
            Bytes::Wrap(own_.data() + at, count * sizeof(float), nullptr));
      more = true;
    }
  }
}

Status GroupReduce::OnChunk(const WorkerId& from, const ReduceChunk& chunk, const Bytes& payload) {
  const auto& participants = reduce_.participants;
  const auto sender = std::find_if(participants.begin(), participants.end(),
                                   [&](const auto& p) { return p.worker == from; });
  if (sender == participants.end()) return DataLoss(from.value + " takes no part in this reduce");
  const auto rank = static_cast<std::size_t>(sender - participants.begin());
  if (rank == rank_ || ranks() == 1) return DataLoss("a chunk from this worker itself");
  return chunk.phase == ReduceChunk::Phase::kScatter ? Scatter(rank, chunk, payload)
                                                     : Gather(rank, chunk, payload);
}

Status GroupReduce::Scatter(std::size_t from, const ReduceChunk& chunk, const Bytes& payload) {
  const std::uint64_t begin = ShardBegin(rank_);
  const std::uint64_t index = (chunk.offset - begin) / kChunkElements;
  if (chunk.offset < begin || index >= own_chunks_.size() ||
      own_chunks_[index].offset != chunk.offset ||
      payload.size() != own_chunks_[index].count * sizeof(float)) {
    return DataLoss("a contribution that fits no chunk of this worker's shard");
  }
  OwnChunk& own = own_chunks_[index];
  if (own.summed || !own.contributions[from].empty()) return Status();
  own.contributions[from] = payload;
  if (++own.present == ranks() - 1) Sum(own);
  return Status();
}

void GroupReduce::Sum(OwnChunk& chunk) {
  float* to = result_.get() + chunk.offset;
  std::vector<float> aligned;
  const float* first = nullptr;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const auto* from = rank == rank_
                           ? own_.data() + chunk.offset
                           : reinterpret_cast<const float*>(chunk.contributions[rank].data());
    if (rank == 0 && IsAligned(from)) {
      first = from;  // added with the second in one pass
      continue;
    }
    if (!IsAligned(from)) {
      aligned.resize(chunk.count);
      std::memcpy(aligned.data(), from, chunk.count * sizeof(float));
      from = aligned.data();
    }
    if (rank == 0) {
      std::memcpy(to, from, chunk.count * sizeof(float));
    } else if (const float* other = std::exchange(first, nullptr)) {
      Add(to, other, from, chunk.count);
    } else {
      Accumulate(to, from, chunk.count);
    }
  }
  chunk.contributions.clear();
  chunk.summed = true;
  missing_elements_ -= chunk.count;
  const Bytes sum = Bytes::Wrap(to, chunk.count * sizeof(float), result_);
  for (std::size_t step = 1; step < ranks(); ++step) {
    send_(reduce_.participants[(rank_ + step) % ranks()].worker,
          Header(ReduceChunk::Phase::kGather, chunk.offset), sum);
  }
}

Status GroupReduce::Gather(std::size_t from, const ReduceChunk& chunk, const Bytes& payload) {
  const std::uint64_t begin = ShardBegin(from), end = ShardBegin(from + 1);
  const std::uint64_t count = payload.size() / sizeof(float);
  if (chunk.offset < begin || chunk.offset >= end || (chunk.offset - begin) % kChunkElements != 0 ||
      payload.size() % sizeof(float) != 0 ||
      count != std::min(kChunkElements, end - chunk.offset)) {
    return DataLoss("a sum that fits no chunk of its sender's shard");
  }
  std::vector<bool>::reference seen = gathered_[chunk.offset / kAlignElements];
  if (seen) return Status();
  seen = true;
  std::memcpy(result_.get() + chunk.offset, payload.data(), payload.size());
  missing_elements_ -= count;
  return Status();
}

}  // namespace swarm::stage
