#include "worker/model/swap/tensor_shelf.h"

#include <ATen/Parallel.h>

#include <utility>

#include "worker/checkpoint/pieces.h"

namespace swarm::model {

std::shared_ptr<const void> MemoryGauge::Hold(std::uint64_t bytes) {
  const std::uint64_t now = now_ += bytes;
  for (std::uint64_t peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {
  }
  return std::shared_ptr<const void>(nullptr, [this, bytes](const void*) { now_ -= bytes; });
}

class TensorShelf::InTier final : public checkpoint::Elsewhere {
 public:
  InTier(tier::Space& space, std::shared_ptr<const tier::Extent> extent,
         std::shared_ptr<const std::vector<Pieces>> pieces, std::shared_ptr<const void> reader)
      : space_(space),
        extent_(std::move(extent)),
        pieces_(std::move(pieces)),
        reader_(std::move(reader)) {}

  Status Read(std::uint64_t offset, std::span<std::byte> to) const override {
    return space_.tier().Read(extent_->offset() + offset, to);
  }
  std::optional<Bytes> Map() const override {
    auto mapped = space_.tier().Map(extent_->offset(), extent_->size(), extent_);
    if (!mapped.ok()) return {};
    return *std::move(mapped);
  }
  std::optional<Digest> KnownDigest(std::uint64_t offset, std::uint64_t size) const override {
    if (size != checkpoint::kPieceBytes) return {};
    for (const Pieces& pieces : *pieces_) {
      const std::uint64_t begin = offset - pieces.first, piece = begin / checkpoint::kPieceBytes;
      const bool is_one = offset >= pieces.first && begin % checkpoint::kPieceBytes == 0;
      if (is_one && piece < pieces.digests.size()) return pieces.digests[piece];
    }
    return {};
  }

 private:
  tier::Space& space_;
  const std::shared_ptr<const tier::Extent> extent_;
  const std::shared_ptr<const std::vector<Pieces>> pieces_;
  const std::shared_ptr<const void> reader_;
};

Status TensorShelf::Put(const checkpoint::NamedTensor& tensor, Transit* transit) {
  Entry& entry = entries_[tensor.name];
  entry.tensor = {tensor.name, tensor.type, tensor.shape, {}};
  if (tensor.type == checkpoint::ElementType::kI64) {
    entry.tensor.data = Bytes::Copy(tensor.data.data(), tensor.data.size());
    return {};
  }
  const std::uint64_t size = checkpoint::SizeOf(tensor);
  // What others have mapped is left to them, and what is kept stays.
  if (entry.extent == nullptr || entry.extent->size() != size || entry.extent.use_count() > 1) {
    ASSIGN_OR_RETURN(entry.extent, space_.Take(size));
  }
  transit->Write(space_.tier(), entry.extent->offset(), tensor.data);
  const auto [begin, end] = first_.equal_range(tensor.name);
  auto known = std::make_shared<std::vector<Pieces>>();
  for (auto first = begin; first != end; ++first) {
    Pieces& pieces = known->emplace_back(Pieces{first->second, {}});
    if (size < pieces.first) continue;
    pieces.digests.resize((size - pieces.first) / checkpoint::kPieceBytes);
    at::parallel_for(0, std::ssize(pieces.digests), 1, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const auto piece = static_cast<std::uint64_t>(i);
        pieces.digests[piece] = ComputeDigest(tensor.data.span().subspan(
            pieces.first + piece * checkpoint::kPieceBytes, checkpoint::kPieceBytes));
      }
    });
  }
  entry.pieces = std::move(known);
  return {};
}

void TensorShelf::Keep(const std::string& name, const std::string& as) {
  Entry kept = entries_.at(name);
  kept.tensor.name = as;
  entries_[as] = std::move(kept);
}

std::vector<checkpoint::NamedTensor> TensorShelf::Show(
    const std::shared_ptr<const void>& reader) const {
  std::vector<checkpoint::NamedTensor> tensors;
  for (const auto& [name, entry] : entries_) {
    checkpoint::NamedTensor& tensor = tensors.emplace_back(entry.tensor);
    if (entry.extent != nullptr) {
      tensor.elsewhere = std::make_shared<InTier>(space_, entry.extent, entry.pieces, reader);
    } else {
      const Bytes& data = entry.tensor.data;
      tensor.data = Bytes::Wrap(data.data(), data.size(), reader);
    }
  }
  return tensors;
}

std::int64_t TensorShelf::Number(const std::string& name) const {
  const auto found = entries_.find(name);
  std::int64_t number = 0;
  SWARM_CHECK(found != entries_.end() && found->second.tensor.data.size() == sizeof number,
              name + " is no number of this stage");
  std::memcpy(&number, found->second.tensor.data.data(), sizeof number);
  return number;
}

std::unique_ptr<TensorShelf::Loading> TensorShelf::Begin(const std::vector<Place>& places) const {
  auto loading = std::make_unique<Loading>();
  loading->shelf_ = this;
  std::uint64_t bytes = 0;
  for (const auto& [name, from, memory] : places) {
    const Entry& entry = entries_.at(from);
    const tier::Extent& extent = *entry.extent;
    checkpoint::NamedTensor tensor = entry.tensor;
    tensor.data = Bytes::Wrap(memory.get(), extent.size(), memory);
    loading->transit_.Read(space_.tier(), extent.offset(), memory, extent.size());
    loading->tensors_.emplace(name, std::move(tensor));
    bytes += extent.size();
  }
  loading->held_ = gauge_.Hold(bytes);
  return loading;
}

Result<checkpoint::NamedTensor> TensorShelf::Loading::Find(const std::string& name) {
  RETURN_IF_ERROR(transit_.Wait());
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  const auto number = shelf_->entries_.find(name);
  if (number == shelf_->entries_.end() || number->second.extent != nullptr) {
    return NotFound("no tensor " + name);
  }
  return number->second.tensor;
}

}  // namespace swarm::model
