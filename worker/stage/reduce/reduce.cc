#include "worker/stage/reduce/reduce.h"

#include <algorithm>
#include <cmath>
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

/// to[i] = a[i] + b[i]; `to` may be `a`. All instruction sets give the same bits: there is nothing
/// to fuse.
SWARM_VECTORIZED void AddFloats(float* to, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

/// The same of integers; modulo 2^64, as a peer may send anything.
SWARM_VECTORIZED void AddIntegers(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b,
                                  std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

void Add(checkpoint::ElementType type, std::byte* to, const std::byte* a, const std::byte* b,
         std::size_t count) {
  if (type == checkpoint::ElementType::kF32) {
    AddFloats(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(a),
              reinterpret_cast<const float*>(b), count);
  } else {
    AddIntegers(reinterpret_cast<std::uint64_t*>(to), reinterpret_cast<const std::uint64_t*>(a),
                reinterpret_cast<const std::uint64_t*>(b), count);
  }
}

bool IsAligned(const std::byte* p, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

/// Shards begin on cache lines.
constexpr std::uint64_t kAlignElements = 16;

}  // namespace

struct SumBuffers::Shelf {
  std::mutex mutex;
  std::multimap<std::size_t, std::unique_ptr<std::byte[]>> buffers;
};

std::shared_ptr<SumBuffers::Shelf> SumBuffers::MakeShelf() { return std::make_shared<Shelf>(); }

std::shared_ptr<std::byte[]> SumBuffers::Take(std::size_t size) {
  std::unique_ptr<std::byte[]> memory;
  {
    std::lock_guard lock(shelf_->mutex);
    if (const auto it = shelf_->buffers.find(size); it != shelf_->buffers.end()) {
      memory = std::move(it->second);
      shelf_->buffers.erase(it);
    }
  }
  if (!memory) memory.reset(new std::byte[size]);
  return std::shared_ptr<std::byte[]>(memory.release(),
                                      [shelf = shelf_, size](std::byte* returned) {
                                        std::unique_ptr<std::byte[]> buffer(returned);
                                        std::lock_guard lock(shelf->mutex);
                                        if (shelf->buffers.count(size) < 2)
                                          shelf->buffers.emplace(size, std::move(buffer));
                                      });
}

GroupReduce::GroupReduce(const protocol::Reduce& reduce, const WorkerId& self,
                         model::GradientSum own, SumBuffers& buffers, SendChunk send,
                         Thinning thinning)
    : reduce_(reduce),
      own_(std::move(own)),
      element_bytes_(checkpoint::ElementBytes(own_.type)),
      elements_(own_.elements.size() / element_bytes_),
      send_(std::move(send)),
      thinning_(std::move(thinning)) {
  SWARM_CHECK(thinning_.codec == nullptr || own_.type == checkpoint::ElementType::kF32,
              "a codec for a reduce of integers");
  const auto& participants = reduce_.participants;
  const auto me = std::find(participants.begin(), participants.end(), self);
  SWARM_CHECK(me != participants.end(), "a reduce without this worker");
  rank_ = static_cast<std::size_t>(me - participants.begin());
  if (ranks() == 1) return;  // the sum of one participant is its contribution: no buffer, no copy
  missing_elements_ = elements_;
  result_ = buffers.Take(own_.elements.size());
  if (thin()) residual_.reset(new float[elements_]());
  gathered_.resize(elements_ / kAlignElements + 1);
  contributed_.resize(ranks());
  for (std::uint64_t at = ShardBegin(rank_); at < ShardBegin(rank_ + 1); at += chunk_elements()) {
    OwnChunk chunk{at, std::min(chunk_elements(), ShardBegin(rank_ + 1) - at), {}};
    chunk.contributions.resize(ranks());
    own_chunks_.push_back(std::move(chunk));
  }
}

std::uint64_t GroupReduce::ShardBegin(std::size_t rank) const {
  if (rank == ranks()) return elements_;
  return elements_ * rank / ranks() / kAlignElements * kAlignElements;
}

Bytes GroupReduce::result() const {
  return ranks() == 1 ? own_.elements : Bytes::Wrap(result_.get(), own_.elements.size(), result_);
}

Bytes GroupReduce::residual() const {
  if (residual_ == nullptr) return thinning_.residual;  // a sum of one participant rounds nothing
  return Bytes::Wrap(residual_.get(), elements_ * sizeof(float), residual_);
}

std::vector<float> GroupReduce::Compensated(std::uint64_t offset, std::uint64_t count) const {
  std::vector<float> values(count);
  std::memcpy(values.data(), own_.elements.data() + offset * sizeof(float), count * sizeof(float));
  if (thinning_.residual.size() != elements_ * sizeof(float)) return values;
  const auto* residual = reinterpret_cast<const float*>(thinning_.residual.data()) + offset;
  AddFloats(values.data(), values.data(), residual, count);
  return values;
}

Bytes GroupReduce::Thinned(std::uint64_t offset, std::span<float> values) {
  Bytes payload = thinning_.codec->Encode(values);
  const std::vector<float> meant(values.begin(), values.end());
  SWARM_CHECK(thinning_.codec->Decode(payload, values).ok(),
              "a codec that cannot read what it wrote");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float lost = meant[i] - values[i];
    residual_[offset + i] = std::isfinite(lost) ? lost : 0;  // not finite: the step is skipped
  }
  return payload;
}

ReduceChunk GroupReduce::Header(ReduceChunk::Phase phase, std::uint64_t offset) const {
  return {reduce_.generation, reduce_.step, reduce_.group, reduce_.k, phase, offset};
}

void GroupReduce::Start() {
  // Chunk by chunk over all owners, beginning with the next one, so that every owner can begin to
  // sum at once and no owner is first for all participants.
  const std::uint64_t others = ranks() - 1;
  const std::uint64_t early =
      others == 0 ? 0 : std::max<std::uint64_t>(1, kEarlyBytes / kChunkBytes / others);
  for (std::uint64_t i = 0; i < early; ++i) {
    bool more = false;
    for (std::size_t step = 1; step < ranks(); ++step) more |= Contribute((rank_ + step) % ranks());
    if (!more) return;
  }
}

bool GroupReduce::Contribute(std::size_t rank) {
  const std::uint64_t at = ShardBegin(rank) + contributed_[rank] * chunk_elements();
  if (at >= ShardBegin(rank + 1)) return false;
  ++contributed_[rank];
  const std::uint64_t count = std::min(chunk_elements(), ShardBegin(rank + 1) - at);
  Bytes payload;
  if (thin()) {
    std::vector<float> values = Compensated(at, count);
    payload = Thinned(at, values);
  } else {
    payload = own_.elements.Slice(at * element_bytes_, count * element_bytes_);
  }
  send_(reduce_.participants[rank], Header(ReduceChunk::Phase::kScatter, at), std::move(payload));
  return true;
}

Status GroupReduce::OnChunk(const WorkerId& from, const ReduceChunk& chunk, const Bytes& payload) {
  const auto& participants = reduce_.participants;
  const auto sender = std::find(participants.begin(), participants.end(), from);
  if (sender == participants.end()) return DataLoss(from.value + " takes no part in this reduce");
  const auto rank = static_cast<std::size_t>(sender - participants.begin());
  if (rank == rank_ || ranks() == 1) return DataLoss("a chunk from this worker itself");
  ++chunks_;
  while (Contribute(rank)) {
  }
  return chunk.phase == ReduceChunk::Phase::kScatter ? Scatter(rank, chunk, payload)
                                                     : Gather(rank, chunk, payload);
}

Status GroupReduce::Scatter(std::size_t from, const ReduceChunk& chunk, const Bytes& payload) {
  const std::uint64_t begin = ShardBegin(rank_);
  const std::uint64_t index = (chunk.offset - begin) / chunk_elements();
  if (chunk.offset < begin || index >= own_chunks_.size() ||
      own_chunks_[index].offset != chunk.offset) {
    return DataLoss("a contribution that fits no chunk of this worker's shard");
  }
  OwnChunk& own = own_chunks_[index];
  if (own.summed || own.contributions[from]) return Status();
  if (thin()) {
    // Decoded at once: a payload that cannot be decoded is the sender's fault, and must not spoil
    // the sum.
    const std::shared_ptr<std::byte[]> memory(new std::byte[own.count * sizeof(float)]);
    RETURN_IF_ERROR(thinning_.codec->Decode(
        payload, {reinterpret_cast<float*>(memory.get()), static_cast<std::size_t>(own.count)}));
    own.contributions[from] = Bytes::Wrap(memory.get(), own.count * sizeof(float), memory);
  } else {
    if (payload.size() != own.count * element_bytes_) {
      return DataLoss("a contribution that fits no chunk of this worker's shard");
    }
    own.contributions[from] = payload;
  }
  if (++own.present == ranks() - 1) thin() ? SumThin(own) : Sum(own);
  return Status();
}

std::vector<WorkerId> GroupReduce::Awaited() const {
  std::vector<bool> missing(ranks(), false);
  for (const OwnChunk& chunk : own_chunks_) {
    if (chunk.summed) continue;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (rank != rank_ && !chunk.contributions[rank]) missing[rank] = true;
    }
  }
  if (std::ranges::find(missing, true) == missing.end()) {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const std::uint64_t end = ShardBegin(rank + 1);
      for (std::uint64_t at = ShardBegin(rank); at < end && rank != rank_; at += chunk_elements()) {
        if (!gathered_[at / kAlignElements]) missing[rank] = true;
      }
    }
  }
  std::vector<WorkerId> awaited;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    if (missing[rank]) awaited.push_back(reduce_.participants[rank]);
  }
  return awaited;
}

void GroupReduce::SumThin(OwnChunk& chunk) {
  std::vector<float> sum(chunk.count);
  const std::vector<float> mine = Compensated(chunk.offset, chunk.count);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const float* from = rank == rank_
                            ? mine.data()
                            : reinterpret_cast<const float*>(chunk.contributions[rank]->data());
    AddFloats(sum.data(), sum.data(), from, chunk.count);
  }
  const Bytes payload = Thinned(chunk.offset, sum);
  std::memcpy(result_.get() + chunk.offset * sizeof(float), sum.data(),
              chunk.count * sizeof(float));
  SendSum(chunk, payload);
}

void GroupReduce::Sum(OwnChunk& chunk) {
  const std::size_t bytes = chunk.count * element_bytes_;
  std::byte* to = result_.get() + chunk.offset * element_bytes_;
  Bytes aligned;  // keeps a copy
  const std::byte* first = nullptr;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const std::byte* from = rank == rank_ ? own_.elements.data() + chunk.offset * element_bytes_
                                          : chunk.contributions[rank]->data();
    if (rank == 0 && IsAligned(from, element_bytes_)) {
      first = from;  // added with the second in one pass
      continue;
    }
    if (!IsAligned(from, element_bytes_)) {
      aligned = Bytes::Copy(from, bytes);
      from = aligned.data();
    }
    if (rank == 0) {
      std::memcpy(to, from, bytes);
    } else {
      const std::byte* other = std::exchange(first, nullptr);
      Add(own_.type, to, other != nullptr ? other : to, from, chunk.count);
    }
  }
  SendSum(chunk, Bytes::Wrap(to, bytes, result_));
}

void GroupReduce::SendSum(OwnChunk& chunk, const Bytes& payload) {
  chunk.contributions.clear();
  chunk.summed = true;
  missing_elements_ -= chunk.count;
  for (std::size_t step = 1; step < ranks(); ++step) {
    send_(reduce_.participants[(rank_ + step) % ranks()],
          Header(ReduceChunk::Phase::kGather, chunk.offset), payload);
  }
}

Status GroupReduce::Gather(std::size_t from, const ReduceChunk& chunk, const Bytes& payload) {
  const std::uint64_t begin = ShardBegin(from), end = ShardBegin(from + 1);
  if (chunk.offset < begin || chunk.offset >= end ||
      (chunk.offset - begin) % chunk_elements() != 0) {
    return DataLoss("a sum that fits no chunk of its sender's shard");
  }
  const std::uint64_t count = std::min(chunk_elements(), end - chunk.offset);
  std::vector<bool>::reference seen = gathered_[chunk.offset / kAlignElements];
  if (seen) return Status();
  std::byte* to = result_.get() + chunk.offset * element_bytes_;
  if (thin()) {
    RETURN_IF_ERROR(thinning_.codec->Decode(
        payload, {reinterpret_cast<float*>(to), static_cast<std::size_t>(count)}));
  } else {
    if (payload.size() != count * element_bytes_) {
      return DataLoss("a sum that fits no chunk of its sender's shard");
    }
    std::memcpy(to, payload.data(), payload.size());
  }
  seen = true;
  missing_elements_ -= count;
  return Status();
}

}  // namespace swarm::stage
