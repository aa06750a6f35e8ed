#include "worker/stage/parcels.h"

#include <algorithm>
#include <cstring>

namespace swarm::stage {
namespace {

constexpr std::uint64_t kPieceBytes = 4u << 20;

}  // namespace

std::vector<std::pair<protocol::Parcel, Bytes>> CutParcel(const protocol::Parcel& header,
                                                          protocol::GroupIndex group,
                                                          const model::GradientSum& sum) {
  std::vector<std::pair<protocol::Parcel, Bytes>> pieces;
  const std::uint64_t bytes = sum.elements.size();
  for (std::uint64_t at = 0; at < bytes || at == 0; at += kPieceBytes) {
    protocol::Parcel piece = header;
    piece.group = group;
    piece.offset = at;
    piece.count = bytes;
    piece.finite = sum.finite;
    pieces.emplace_back(std::move(piece),
                        sum.elements.Slice(at, std::min(kPieceBytes, bytes - at)));
  }
  return pieces;
}

Result<const Parcels::Whole*> Parcels::Add(
    const protocol::WorkerId& donor, const protocol::Parcel& piece, const Bytes& payload,
    const std::map<protocol::GroupIndex, std::uint64_t>& group_bytes) {
  const auto expected = group_bytes.find(piece.group);
  if (expected == group_bytes.end() || piece.count != expected->second ||
      piece.offset % kPieceBytes != 0 || piece.offset > piece.count ||
      payload.size() != std::min(kPieceBytes, piece.count - piece.offset)) {
    return DataLoss("a piece of " + donor.value + "'s sums that fits nothing here");
  }
  Box& box = boxes_[{donor, piece.step}];
  const bool same =
      box.whole.contributions == piece.contributions && box.whole.level == piece.level;
  if (box.complete && same) {  // the trainer asked again before it heard that the parcel is here
    const bool is_first = piece.group == box.whole.parts.front().group && piece.offset == 0;
    return static_cast<const Whole*>(is_first ? &box.whole : nullptr);
  }
  if (!box.groups.empty() && !same) box = Box();  // handed over once more, with other contributions
  box.whole.level = piece.level;
  box.whole.contributions = piece.contributions;
  Box::Group& group = box.groups[piece.group];
  if (!group.memory) {
    group.memory.reset(new std::byte[piece.count]);
    group.charge = MemoryCharge(account_, MemoryKind::kParcels, piece.count);
  }
  if (group.pieces.try_emplace(piece.offset, payload.size()).second) {
    if (!payload.empty()) {
      std::memcpy(group.memory.get() + piece.offset, payload.data(), payload.size());
    }
    group.bytes += payload.size();
  }
  if (group.bytes == piece.count && !group.pieces.empty()) {
    const auto known = std::find_if(box.whole.parts.begin(), box.whole.parts.end(),
                                    [&](const Part& part) { return part.group == piece.group; });
    if (known == box.whole.parts.end()) {
      box.whole.parts.push_back(
          {piece.group, Bytes::Wrap(group.memory.get(), piece.count, group.memory), piece.finite});
    }
  }
  box.complete = box.whole.parts.size() == group_bytes.size();
  if (!box.complete) return static_cast<const Whole*>(nullptr);
  std::sort(box.whole.parts.begin(), box.whole.parts.end(),
            [](const Part& a, const Part& b) { return a.group < b.group; });
  return static_cast<const Whole*>(&box.whole);
}

const Parcels::Whole* Parcels::Find(const protocol::WorkerId& donor, protocol::Step step) const {
  const auto it = boxes_.find({donor, step});
  return it == boxes_.end() || !it->second.complete ? nullptr : &it->second.whole;
}

void Parcels::Drop(const protocol::WorkerId& donor, protocol::Step step) {
  boxes_.erase({donor, step});
}

void Parcels::DropUpTo(protocol::Step step) {
  std::erase_if(boxes_, [&](const auto& entry) { return entry.first.second <= step; });
}

}  // namespace swarm::stage
