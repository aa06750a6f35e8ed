#include "worker/checkpoint/pieces.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "worker/checkpoint/safetensors.h"

namespace swarm::checkpoint {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

std::uint64_t PiecesIn(std::uint64_t bytes) {
  return bytes / kPieceBytes + (bytes % kPieceBytes == 0 ? 0 : 1);
}

/// Of each tensor, in order: its bytes before the next piece begins.
std::vector<std::uint64_t> FirstPieces(const SafetensorsPlan& plan) {
  std::vector<std::uint64_t> first;
  std::uint64_t begin = plan.header.size();
  for (const NamedTensor* tensor : plan.order) {
    first.push_back((kPieceBytes - begin % kPieceBytes) % kPieceBytes);
    begin += SizeOf(*tensor);
  }
  return first;
}

std::uint64_t ReadWord(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, kWordBytes);
  return word;
}

}  // namespace

std::uint64_t PieceIndex::Size(std::uint64_t piece) const {
  return std::min(kPieceBytes, bytes - Offset(piece));
}

bool PieceIndex::Matches(std::uint64_t piece, std::span<const std::byte> content) const {
  return content.size() == Size(piece) && ComputeDigest(content) == digests[piece];
}

Bytes EncodePieceIndex(const PieceIndex& index) {
  std::vector<std::uint64_t> words = {index.bytes};
  for (const Digest& digest : index.digests) {
    words.push_back(digest.high);
    words.push_back(digest.low);
  }
  return Bytes::Copy(words.data(), words.size() * kWordBytes);
}

Result<PieceIndex> DecodePieceIndex(std::span<const std::byte> encoded) {
  constexpr std::size_t kDigestBytes = 2 * kWordBytes;
  if (encoded.size() < kWordBytes || (encoded.size() - kWordBytes) % kDigestBytes != 0) {
    return DataLoss("an index of " + std::to_string(encoded.size()) + " bytes");
  }
  PieceIndex index{.bytes = ReadWord(encoded.data())};
  const std::uint64_t count = (encoded.size() - kWordBytes) / kDigestBytes;
  if (PiecesIn(index.bytes) != count) {
    return DataLoss("an index of " + std::to_string(count) + " pieces for " +
                    std::to_string(index.bytes) + " bytes");
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::byte* at = encoded.data() + kWordBytes + i * kDigestBytes;
    index.digests.push_back({ReadWord(at), ReadWord(at + kWordBytes)});
  }
  return index;
}

void InOrder(std::size_t count, const std::function<void(std::size_t)>& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

PiecedBytes::PiecedBytes(std::vector<Bytes> parts, const ForEach& for_each,
                         std::vector<Digest> known)
    : parts_(std::move(parts)) {
  std::uint64_t end = 0;
  for (const Bytes& part : parts_) ends_.push_back(end += part.size());
  const std::size_t first = known.size();
  PieceIndex index{.bytes = bytes(), .digests = std::move(known)};
  index.digests.resize(count());
  for_each(count() - first,
           [&](std::size_t i) { index.digests[first + i] = ComputeDigest(SlicesOf(first + i)); });
  index_ = EncodePieceIndex(index);
  digest_ = ComputeDigest(index_.span());
}

std::vector<Bytes> PiecedBytes::SlicesOf(std::uint64_t piece) const {
  std::uint64_t at = PieceIndex::Offset(piece);
  const std::uint64_t end = std::min(at + kPieceBytes, bytes());
  std::vector<Bytes> slices;
  auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
  for (; at < end; ++part) {
    const std::uint64_t begin = ends_[part] - parts_[part].size();
    const std::uint64_t size = std::min(end, ends_[part]) - at;
    slices.push_back(parts_[part].Slice(at - begin, size));
    at += size;
  }
  return slices;
}

Bytes PiecedBytes::Piece(std::uint64_t piece) const {
  const std::vector<Bytes> slices = SlicesOf(piece);
  if (slices.size() == 1) return slices.front();
  std::size_t size = 0;
  for (const Bytes& slice : slices) size += slice.size();
  return Bytes::Make(size, [&](std::byte* out) {
    for (const Bytes& slice : slices) {
      if (!slice.empty()) std::memcpy(out, slice.data(), slice.size());
      out += slice.size();
    }
  });
}

Result<PiecedBytes> CutState(std::span<const NamedTensor> tensors, const ForEach& for_each) {
  ASSIGN_OR_RETURN(std::vector<Bytes> parts, EncodeSafetensors(tensors));
  return PiecedBytes(std::move(parts), for_each);
}

Result<Digest> DigestState(std::span<const NamedTensor> tensors) {
  const auto is_here = [](const NamedTensor& tensor) { return tensor.elsewhere == nullptr; };
  if (std::ranges::all_of(tensors, is_here)) {
    ASSIGN_OR_RETURN(const PiecedBytes pieces, CutState(tensors));
    return pieces.digest();
  }
  ASSIGN_OR_RETURN(const SafetensorsPlan plan, PlanSafetensors(tensors));
  const std::vector<std::uint64_t> first = FirstPieces(plan);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::uint64_t size = SizeOf(*plan.order[i]);
    if (plan.order[i]->elsewhere == nullptr || size < first[i] + kPieceBytes) continue;
    plan.order[i]->elsewhere->ExpectPieces(first[i], kPieceBytes, (size - first[i]) / kPieceBytes);
  }
  PieceIndex index;
  std::vector<std::byte> piece(kPieceBytes);
  std::uint64_t filled = 0;
  const auto end_piece = [&] {
    index.digests.push_back(ComputeDigest(std::span(piece).first(filled)));
    index.bytes += std::exchange(filled, 0);
  };
  const auto add = [&](std::uint64_t size, const Elsewhere* from, const auto& read) -> Status {
    for (std::uint64_t at = 0; at < size;) {
      const bool whole = filled == 0 && size - at >= kPieceBytes;
      if (const auto known = whole && from != nullptr ? from->KnownDigest(at, kPieceBytes)
                                                      : std::optional<Digest>()) {
        index.digests.push_back(*known);
        index.bytes += kPieceBytes;
        at += kPieceBytes;
        continue;
      }
      const std::uint64_t some = std::min(size - at, kPieceBytes - filled);
      RETURN_IF_ERROR(read(at, std::span(piece).subspan(filled, some)));
      at += some;
      filled += some;
      if (filled == kPieceBytes) end_piece();
    }
    return {};
  };
  RETURN_IF_ERROR(add(plan.header.size(), nullptr, [&](std::uint64_t at, std::span<std::byte> to) {
    std::memcpy(to.data(), plan.header.data() + at, to.size());
    return Status();
  }));
  for (const NamedTensor* tensor : plan.order) {
    const auto read = [&](std::uint64_t at, std::span<std::byte> to) {
      return ReadBytes(*tensor, at, to);
    };
    RETURN_IF_ERROR(add(SizeOf(*tensor), tensor->elsewhere.get(), read));
  }
  if (filled > 0) end_piece();
  return ComputeDigest(EncodePieceIndex(index).span());
}

Result<std::map<std::string, std::uint64_t>> FindFirstPieces(std::span<const NamedTensor> tensors) {
  ASSIGN_OR_RETURN(const SafetensorsPlan plan, PlanSafetensors(tensors));
  const std::vector<std::uint64_t> first = FirstPieces(plan);
  std::map<std::string, std::uint64_t> by_name;
  for (std::size_t i = 0; i < first.size(); ++i) by_name[plan.order[i]->name] = first[i];
  return by_name;
}

Result<TensorLookup> ReadState(const Bytes& whole) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, ReadSafetensors(whole));
  return TensorLookup([file](const std::string& name) { return file.Lookup(name); });
}

}  // namespace swarm::checkpoint
