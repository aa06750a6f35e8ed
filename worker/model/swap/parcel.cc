#include "worker/model/swap/parcel.h"

#include <utility>

namespace swarm::model {

Result<std::shared_ptr<Parcel>> Parcel::Send(tier::Space& space, MemoryGauge& gauge, Bytes bytes) {
  auto parcel = std::make_shared<Parcel>(Bytes(), gauge.Hold(bytes.size()));
  parcel->space_ = &space;
  parcel->gauge_ = &gauge;
  ASSIGN_OR_RETURN(parcel->extent_, space.Take(bytes.size()));
  parcel->leaving_.Write(space.tier(), parcel->extent_->offset(), bytes);
  return parcel;
}

Status Parcel::Settle() {
  Status status = leaving_.Wait();
  if (space_ != nullptr) held_.reset();
  return status;
}

void Parcel::Begin() {
  if (space_ == nullptr || !coming_.empty() || !Settle().ok()) return;
  struct Counted {
    std::shared_ptr<std::byte[]> memory;
    std::shared_ptr<const void> held;
  };
  const std::uint64_t size = extent_->size();
  const auto counted = std::make_shared<Counted>(tier::MakeMemory(size), gauge_->Hold(size));
  const std::shared_ptr<std::byte[]> memory(counted, counted->memory.get());
  coming_ = Bytes::Wrap(memory.get(), size, memory);
  bringing_.Read(space_->tier(), extent_->offset(), memory, size);
}

Result<Bytes> Parcel::Take() {
  if (space_ == nullptr) return bytes_;
  Begin();
  RETURN_IF_ERROR(Settle());
  RETURN_IF_ERROR(bringing_.Wait());
  return std::exchange(coming_, {});
}

}  // namespace swarm::model
