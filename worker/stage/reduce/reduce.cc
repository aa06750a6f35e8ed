#include "worker/stage/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/vectorized.h"

namespace swarm::stage {

using protocol::ReduceChunk;
using protocol::ReduceGrid;
using protocol::WorkerId;
using Phase = ReduceChunk::Phase;

namespace {

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

/// Pieces begin on cache lines.
constexpr std::uint64_t kAlignElements = 16;

}  // namespace

GroupReduce::GroupReduce(const protocol::Reduce& reduce, const WorkerId& self,
                         model::GradientSum own, BufferPool& buffers, SendChunk send,
                         Thinning thinning, const std::vector<std::uint64_t>& part_sizes)
    : reduce_(reduce),
      own_(std::move(own)),
      element_bytes_(checkpoint::ElementBytes(own_.type)),
      elements_(own_.elements.size() / element_bytes_),
      send_(std::move(send)),
      thinning_(std::move(thinning)),
      grid_(reduce_.participants.size(), reduce_.rows, reduce_.regions) {
  SWARM_CHECK(thinning_.codec == nullptr || own_.type == checkpoint::ElementType::kF32,
              "a codec for a reduce of integers");
  seat_ = SeatOf(self);
  row_ = grid_.RowOf(seat_);
  column_ = grid_.ColumnOf(seat_);
  region_ = grid_.RegionOf(seat_);
  if (reduce_.participants.size() == 1) return;  // the sum is the contribution: no buffer, no copy
  result_ = buffers.Take(own_.elements.size());
  if (thin()) residual_.reset(new float[elements_]());
  peers_.resize(reduce_.participants.size());
  for (const ReduceGrid::Seat seat : grid_.PeersOf(seat_)) {
    peers_[seat].early = kEarlyBytes / grid_.PeersOf(seat).size();
  }
  if (!divided()) {
    CutIntoColumns();
    if (grid_.rows() == 1 || own_chunks_.empty() || SendsOwn()) return;
    const Chunk& last = own_chunks_.back();
    partials_ =
        buffers.Take((last.offset + last.count - own_chunks_.front().offset) * element_bytes_);
    return;
  }
  SWARM_CHECK(part_sizes.size() == reduce_.holders.size() && grid_.rows() == 1,
              "the parts of a reduce are not those of its group");
  begins_.push_back(0);
  for (const std::uint64_t size : part_sizes) begins_.push_back(begins_.back() + size);
  SWARM_CHECK(begins_.back() == elements_, "parts that are not the whole group");
  CutIntoParts();
}

ReduceGrid::Seat GroupReduce::SeatOf(const WorkerId& id) const {
  const auto found = std::ranges::find(reduce_.participants, id);
  SWARM_CHECK(found != reduce_.participants.end(), "a reduce without " + id.value);
  return static_cast<ReduceGrid::Seat>(found - reduce_.participants.begin());
}

void GroupReduce::CutIntoColumns() {
  missing_elements_ = elements_;
  for (std::size_t piece = 0; piece < grid_.pieces(); ++piece) {
    begins_.push_back(elements_ * piece / grid_.pieces() / kAlignElements * kAlignElements);
  }
  begins_.push_back(elements_);
  const auto for_column = [&](std::size_t column, const std::function<void(Range)>& take) {
    ForEachChunk(column * grid_.rows(), (column + 1) * grid_.rows(), take);
  };
  for (const ReduceGrid::Seat seat : grid_.PeersOf(seat_)) {
    if (grid_.RowOf(seat) != row_ || !grid_.OwnsPiece(seat)) continue;
    Peer& peer = peers_[seat];
    for_column(grid_.ColumnOf(seat), [&](Range range) { peer.contributions.push_back(range); });
  }
  if (!grid_.OwnsPiece(seat_)) return;
  for_column(column_, [&](Range range) { AddOwnChunk(range); });
}

void GroupReduce::CutIntoParts() {
  for (std::size_t part = 0; part < reduce_.holders.size(); ++part) {
    const protocol::PartHolders& holders = reduce_.holders[part];
    owners_.push_back(SeatOf(holders.first));
    seconds_.push_back(holders.second.empty() ? std::nullopt
                                              : std::optional(SeatOf(holders.second)));
    if (owners_.back() == seat_ || seconds_.back() == seat_) {
      missing_elements_ += PieceBegin(part + 1) - PieceBegin(part);
    }
    ForEachChunk(part, part + 1, [&](Range range) {
      if (owners_.back() == seat_) return AddOwnChunk(range);
      peers_[owners_.back()].contributions.push_back(range);
    });
  }
}

void GroupReduce::ForEachChunk(std::size_t first_piece, std::size_t end_piece,
                               const std::function<void(Range)>& take) const {
  for (std::uint64_t at = PieceBegin(first_piece); at < PieceBegin(end_piece);) {
    const Range range = ChunkAt(at);
    take(range);
    at += range.count;
  }
}

void GroupReduce::AddOwnChunk(Range range) {
  Chunk chunk{range.offset, range.count, PieceAt(range.offset), {}, {}};
  chunk.row = {std::vector<std::optional<Bytes>>(grid_.RowSize(row_)), grid_.RowSize(row_) - 1};
  const std::size_t rows = grid_.RowsOf(region_).size(), regions = grid_.regions();
  chunk.column = {std::vector<std::optional<Bytes>>(rows), rows};
  chunk.regions = {std::vector<std::optional<Bytes>>(regions), regions};
  own_chunks_.push_back(std::move(chunk));
}

std::size_t GroupReduce::PieceAt(std::uint64_t element) const {
  // The last one that begins there: those before it are empty.
  const auto after = std::ranges::upper_bound(begins_, element);
  return static_cast<std::size_t>(after - begins_.begin()) - 1;
}

GroupReduce::Range GroupReduce::ChunkAt(std::uint64_t offset) const {
  if (offset >= elements_) return {};
  const std::size_t piece = PieceAt(offset);
  if ((offset - PieceBegin(piece)) % chunk_elements() != 0) return {};
  return {offset, std::min(chunk_elements(), PieceBegin(piece + 1) - offset)};
}

GroupReduce::Chunk* GroupReduce::FindOwn(std::uint64_t offset) {
  const auto found = std::ranges::lower_bound(own_chunks_, offset, {}, &Chunk::offset);
  return found == own_chunks_.end() || found->offset != offset ? nullptr : &*found;
}

Bytes GroupReduce::result() const {
  if (result_ == nullptr) return own_.elements;
  return Bytes::Wrap(result_.get(), own_.elements.size(), result_);
}

Bytes GroupReduce::residual() const {
  if (residual_ == nullptr) return thinning_.residual;  // a sum of one participant rounds nothing
  return Bytes::Wrap(residual_.get(), elements_ * sizeof(float), residual_);
}

std::vector<float> GroupReduce::Compensated(Range range) const {
  std::vector<float> values(range.count);
  std::memcpy(values.data(), own_.elements.data() + range.offset * sizeof(float),
              range.count * sizeof(float));
  if (thinning_.residual.size() != elements_ * sizeof(float)) return values;
  const auto* residual = reinterpret_cast<const float*>(thinning_.residual.data()) + range.offset;
  AddFloats(values.data(), values.data(), residual, range.count);
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

void GroupReduce::Send(ReduceGrid::Seat to, Phase phase, Range range, Bytes payload) {
  peers_[to].sent += range.count * element_bytes_;
  send_(reduce_.participants[to],
        {reduce_.generation, reduce_.step, reduce_.group, reduce_.k, phase, range.offset},
        std::move(payload));
}

void GroupReduce::Start() {
  if (peers_.empty()) return;
  const std::size_t size = grid_.RowSize(row_);
  // Who owns nothing gets no contributions, and would not hear that the owners have begun.
  if (grid_.OwnsPiece(seat_) && size > grid_.columns()) {
    Send(grid_.SeatAt(row_, grid_.columns()), Phase::kScatter, {}, Bytes());
  }
  // The same: between two workers there may be no part of which one adds what the other has, and
  // between those of two regions one may add nothing of the other's.
  for (const ReduceGrid::Seat seat : grid_.PeersOf(seat_)) {
    if (divided() || grid_.RegionOf(seat) != region_) Send(seat, Phase::kScatter, {}, Bytes());
  }
  // Chunk by chunk over all owners of the row, beginning with the next one, so that every owner can
  // begin to sum at once and no owner is first for all participants.
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 1; i < size; ++i) {
      more |= Contribute(grid_.SeatAt(row_, (column_ + i) % size));
    }
  }
  if (size > 1) return;
  for (Chunk& chunk : own_chunks_) AddRow(chunk);
}

bool GroupReduce::MaySend(const Peer& peer, std::uint64_t bytes) const {
  return peer.heard || peer.sent == 0 || peer.sent + bytes <= peer.early;
}

bool GroupReduce::Contribute(ReduceGrid::Seat to) {
  Peer& peer = peers_[to];
  if (peer.contributions.empty()) return false;
  const Range range = peer.contributions.front();
  if (!MaySend(peer, range.count * element_bytes_)) return false;
  peer.contributions.pop_front();
  Bytes payload;
  if (thin()) {
    std::vector<float> values = Compensated(range);
    payload = Thinned(range.offset, values);
  } else {
    payload = own_.elements.Slice(range.offset * element_bytes_, range.count * element_bytes_);
  }
  Send(to, Phase::kScatter, range, std::move(payload));
  return true;
}

void GroupReduce::SendPartials(ReduceGrid::Seat to) {
  Peer& peer = peers_[to];
  while (!peer.partials.empty()) {
    const std::uint64_t bytes = peer.partials.front().range.count * element_bytes_;
    if (!MaySend(peer, bytes)) return;
    Partial partial = std::move(peer.partials.front());
    peer.partials.pop_front();
    if (thin()) {
      std::vector<float> values(partial.range.count);
      std::memcpy(values.data(), partial.elements.data(), bytes);
      partial.elements = Thinned(partial.range.offset, values);
    }
    Send(to, Phase::kScatter, partial.range, std::move(partial.elements));
  }
}

Status GroupReduce::OnChunk(const WorkerId& from, const ReduceChunk& chunk, const Bytes& payload) {
  const std::vector<WorkerId>& seats = reduce_.participants;
  const auto sender = std::ranges::find(seats, from);
  if (sender == seats.end()) return DataLoss(from.value + " takes no part in this reduce");
  const auto seat = static_cast<std::size_t>(sender - seats.begin());
  if (!grid_.Exchange(seat, seat_)) {
    return DataLoss(from.value + " exchanges nothing with this worker");
  }
  ++chunks_;
  peers_[seat].heard = true;
  while (Contribute(seat)) {
  }
  SendPartials(seat);
  return chunk.phase == Phase::kScatter ? Scatter(seat, chunk, payload)
                                        : Gather(seat, chunk, payload);
}

Status GroupReduce::CheckSize(const Bytes& payload, std::uint64_t count) const {
  if (payload.size() == count * element_bytes_) return Status();
  return DataLoss("a chunk of " + std::to_string(payload.size()) + " bytes for " +
                  std::to_string(count) + " elements");
}

Result<Bytes> GroupReduce::Elements(const Bytes& payload, std::uint64_t count) const {
  if (!thin()) {
    RETURN_IF_ERROR(CheckSize(payload, count));
    return payload;
  }
  const std::shared_ptr<std::byte[]> memory(new std::byte[count * sizeof(float)]);
  RETURN_IF_ERROR(
      thinning_.codec->Decode(payload, {reinterpret_cast<float*>(memory.get()), count}));
  return Bytes::Wrap(memory.get(), count * sizeof(float), memory);
}

std::pair<GroupReduce::Inputs*, std::size_t> GroupReduce::InputsFor(Chunk& chunk,
                                                                    ReduceGrid::Seat from) {
  if (grid_.RowOf(from) == row_) return {&chunk.row, grid_.ColumnOf(from)};
  const std::size_t region = grid_.RegionOf(from);
  if (region == region_) {
    if (HeadOf(chunk.piece) != seat_) return {};
    return {&chunk.column, grid_.NumberOf(grid_.RowOf(from))};
  }
  if (grid_.OwnerOf(chunk.piece) != seat_ || grid_.HeadOf(region, chunk.piece) != from) return {};
  return {&chunk.regions, region};
}

Status GroupReduce::Scatter(ReduceGrid::Seat from, const ReduceChunk& chunk, const Bytes& payload) {
  const bool tells = divided() || !grid_.OwnsPiece(seat_) || grid_.RegionOf(from) != region_;
  if (tells && payload.empty()) return Status();  // that the sender has begun
  Chunk* own = FindOwn(chunk.offset);
  const auto [inputs, place] =
      own == nullptr ? std::pair<Inputs*, std::size_t>() : InputsFor(*own, from);
  if (inputs == nullptr) {
    return DataLoss("a contribution that fits no chunk that this worker sums");
  }
  if (inputs->added || inputs->come[place]) return Status();
  // Decoded at once: a payload that cannot be decoded is the sender's fault, and must not spoil the
  // sum.
  ASSIGN_OR_RETURN(inputs->come[place], Elements(payload, own->count));
  if (--inputs->missing > 0) return Status();
  if (inputs == &own->row) {
    AddRow(*own);
  } else if (inputs == &own->column) {
    AddColumn(*own);
  } else {
    AddRegions(*own);
  }
  return Status();
}

std::vector<WorkerId> GroupReduce::Awaited() const {
  std::vector<bool> missing(grid_.participants(), false);
  bool any = false;
  const auto miss = [&](ReduceGrid::Seat seat) { any = missing[seat] = true; };
  for (const Chunk& chunk : own_chunks_) {
    for (std::size_t place = 0; place < chunk.row.come.size(); ++place) {
      if (place != column_ && !chunk.row.come[place]) miss(grid_.SeatAt(row_, place));
    }
  }
  for (const Chunk& chunk : own_chunks_) {
    if (any || grid_.rows() == 1 || HeadOf(chunk.piece) != seat_) continue;
    for (std::size_t i = 0; i < chunk.column.come.size(); ++i) {
      const std::size_t row = grid_.RowsOf(region_)[i];
      if (!chunk.column.come[i]) miss(grid_.AdderOf(row, chunk.piece));
    }
  }
  for (const Chunk& chunk : own_chunks_) {
    if (any || grid_.regions() == 1 || grid_.OwnerOf(chunk.piece) != seat_) continue;
    for (std::size_t region = 0; region < chunk.regions.come.size(); ++region) {
      if (!chunk.regions.come[region]) miss(grid_.HeadOf(region, chunk.piece));
    }
  }
  for (std::uint64_t at = 0; !any && at < elements_; at += ChunkAt(at).count) {
    const std::optional<ReduceGrid::Seat> sender = SumSender(PieceAt(at));
    if (sender && !gathered_.contains(at)) missing[*sender] = true;
  }
  std::vector<WorkerId> awaited;
  for (std::size_t seat = 0; seat < missing.size(); ++seat) {
    if (missing[seat]) awaited.push_back(reduce_.participants[seat]);
  }
  return awaited;
}

void GroupReduce::AddUp(std::byte* to, std::span<const std::byte* const> inputs,
                        std::uint64_t count) const {
  const std::size_t bytes = count * element_bytes_;
  Bytes aligned;  // keeps a copy
  const std::byte* first = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::byte* from = inputs[i];
    if (i == 0 && inputs.size() > 1 && IsAligned(from, element_bytes_)) {
      first = from;  // added with the second in one pass
      continue;
    }
    if (!IsAligned(from, element_bytes_)) {
      aligned = Bytes::Copy(from, bytes);
      from = aligned.data();
    }
    if (i == 0) {
      std::memcpy(to, from, bytes);
    } else {
      const std::byte* other = std::exchange(first, nullptr);
      Add(own_.type, to, other != nullptr ? other : to, from, count);
    }
  }
}

void GroupReduce::AddRow(Chunk& chunk) {
  const std::uint64_t bytes = chunk.count * element_bytes_;
  const Bytes own = own_.elements.Slice(chunk.offset * element_bytes_, bytes);
  if (SendsOwn()) {
    chunk.row = {.come = {}, .added = true};
    return PassOn(chunk, own);
  }
  std::vector<float> compensated;
  const std::byte* mine = own.data();
  if (thin()) {
    compensated = Compensated({chunk.offset, chunk.count});
    mine = reinterpret_cast<const std::byte*>(compensated.data());
  }
  std::vector<const std::byte*> inputs;
  for (std::size_t place = 0; place < chunk.row.come.size(); ++place) {
    inputs.push_back(place == column_ ? mine : chunk.row.come[place]->data());
  }
  const bool flat = grid_.rows() == 1;
  std::byte* to =
      flat ? ResultAt(chunk.offset)
           : partials_.get() + (chunk.offset - own_chunks_.front().offset) * element_bytes_;
  AddUp(to, inputs, chunk.count);
  chunk.row = {.come = {}, .added = true};
  if (flat) return SendSum(chunk);
  PassOn(chunk, Bytes::Wrap(to, bytes, partials_));
}

void GroupReduce::PassOn(Chunk& chunk, const Bytes& partial) {
  const ReduceGrid::Seat head = HeadOf(chunk.piece);
  if (head != seat_) {
    peers_[head].partials.push_back({{chunk.offset, chunk.count}, partial});
    return SendPartials(head);
  }
  chunk.column.come[grid_.NumberOf(row_)] = partial;
  if (--chunk.column.missing == 0) AddColumn(chunk);
}

void GroupReduce::AddColumn(Chunk& chunk) {
  std::vector<const std::byte*> inputs;
  for (const auto& partial : chunk.column.come) inputs.push_back(partial->data());
  if (grid_.regions() == 1) {
    AddUp(ResultAt(chunk.offset), inputs, chunk.count);
    chunk.column = {.come = {}, .added = true};
    return SendSum(chunk);
  }
  const std::uint64_t bytes = chunk.count * element_bytes_;
  const std::shared_ptr<std::byte[]> sum(new std::byte[bytes]);
  AddUp(sum.get(), inputs, chunk.count);
  chunk.column = {.come = {}, .added = true};
  const Bytes of_region = Bytes::Wrap(sum.get(), bytes, sum);
  const ReduceGrid::Seat owner = grid_.OwnerOf(chunk.piece);
  if (owner != seat_) {
    peers_[owner].partials.push_back({{chunk.offset, chunk.count}, of_region});
    return SendPartials(owner);
  }
  chunk.regions.come[region_] = of_region;
  if (--chunk.regions.missing == 0) AddRegions(chunk);
}

void GroupReduce::AddRegions(Chunk& chunk) {
  std::vector<const std::byte*> inputs;
  for (const auto& sum : chunk.regions.come) inputs.push_back(sum->data());
  AddUp(ResultAt(chunk.offset), inputs, chunk.count);
  chunk.regions = {.come = {}, .added = true};
  SendSum(chunk);
}

void GroupReduce::SendSum(const Chunk& chunk) {
  const Range range{chunk.offset, chunk.count};
  std::byte* sum = ResultAt(range.offset);
  const Bytes payload = thin() ? Thinned(range.offset, {reinterpret_cast<float*>(sum), range.count})
                               : Bytes::Wrap(sum, range.count * element_bytes_, result_);
  missing_elements_ -= range.count;
  if (divided()) {
    const auto second = seconds_[chunk.piece];
    if (second) Send(*second, Phase::kGather, range, payload);
    return;
  }
  // To the other regions first: that takes longest.
  for (std::size_t i = 1; i < grid_.regions(); ++i) {
    const std::size_t region = (region_ + i) % grid_.regions();
    Send(grid_.HeadOf(region, chunk.piece), Phase::kGather, range, payload);
  }
  SendToRegion(range, chunk.piece, payload);
  SendToRow(range, payload);
}

void GroupReduce::SendToRegion(Range range, std::size_t piece, const Bytes& payload) {
  const std::vector<std::size_t>& rows = grid_.RowsOf(region_);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::size_t row = rows[(grid_.NumberOf(row_) + i) % rows.size()];
    Send(grid_.AdderOf(row, piece), Phase::kGather, range, payload);
  }
}

void GroupReduce::SendToRow(Range range, const Bytes& payload) {
  const std::size_t size = grid_.RowSize(row_);
  for (std::size_t i = 1; i < size; ++i) {
    Send(grid_.SeatAt(row_, (column_ + i) % size), Phase::kGather, range, payload);
  }
}

std::optional<ReduceGrid::Seat> GroupReduce::SumSender(std::size_t piece) const {
  const ReduceGrid::Seat owner = OwnerOf(piece);
  if (divided()) return seconds_[piece] == seat_ ? std::optional(owner) : std::nullopt;
  if (owner == seat_) return std::nullopt;
  if (grid_.ColumnOfPiece(piece) != column_) return grid_.AdderOf(row_, piece);
  const ReduceGrid::Seat head = HeadOf(piece);
  return head == seat_ ? owner : head;
}

Status GroupReduce::Gather(ReduceGrid::Seat from, const ReduceChunk& chunk, const Bytes& payload) {
  const Range range = ChunkAt(chunk.offset);
  if (range.count == 0 || SumSender(PieceAt(range.offset)) != from) {
    return DataLoss("a sum that fits no chunk of which its sender has the sum");
  }
  if (gathered_.contains(range.offset)) return Status();
  std::byte* to = ResultAt(range.offset);
  if (thin()) {
    RETURN_IF_ERROR(thinning_.codec->Decode(payload, {reinterpret_cast<float*>(to), range.count}));
  } else {
    RETURN_IF_ERROR(CheckSize(payload, range.count));
    std::memcpy(to, payload.data(), payload.size());
  }
  gathered_.insert(range.offset);
  missing_elements_ -= range.count;
  if (grid_.RegionOf(from) != region_) SendToRegion(range, PieceAt(range.offset), payload);
  if (grid_.RowOf(from) != row_) SendToRow(range, payload);
  return Status();
}

}  // namespace swarm::stage
