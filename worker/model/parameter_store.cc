#include "worker/model/parameter_store.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "worker/model/init.h"
#include "worker/optim/update.h"
#include "worker/state/pieces.h"

namespace swarm::model {
namespace {

constexpr std::uint64_t kUpdateGrain = 1
                                       << 16;  ///< elements of an elementwise update a thread takes

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

std::span<float> PartOf(std::span<float> group, const ParameterSlot& slot) {
  return group.subspan(slot.offset, slot.count);
}

/// Reads the tensor `name`, of the slot's shape and any floating-point type, into `to`.
Status ReadTensor(const state::TensorLookup& tensors, const std::string& name,
                  const ParameterSlot& slot, std::span<float> to) {
  Result<state::NamedTensor> tensor = tensors(name);
  if (!tensor.ok()) return tensor.status().WithContext(name);
  if (tensor->shape != slot.shape) {
    return InvalidArgument(name + ": expected shape " + ShapeText(slot.shape) + ", found " +
                           ShapeText(tensor->shape));
  }
  tensor = state::ConvertToFloat32(*tensor);
  if (!tensor.ok()) return tensor.status();
  std::memcpy(to.data(), tensor->data.data(), to.size_bytes());
  return {};
}

}  // namespace

ParameterStore::ParameterStore(const Layout& layout, const StageOptions& options, at::Device device)
    : layout_(layout),
      optimizer_(options.optimizer),
      initializer_range_(options.config.initializer_range) {
  const std::size_t versions = options.step_mode == api::StepMode::kDelayed ? 2 : 1;
  for (std::size_t i = 0; i < versions; ++i) {
    buffers_.push_back(std::make_unique<Weights>(layout, options.precision, device));
  }
  for (const ParameterGroup& group : layout.groups) {
    first_moments_.emplace_back(group.count, 0.0F);
    second_moments_.emplace_back(group.count, 0.0F);
  }
}

const Weights* ParameterStore::Find(Version version) const {
  if (newest_held_ && version == version_) return &newest();
  if (previous_held_ && version.Next() == version_) return &previous();
  return nullptr;
}

void ParameterStore::Reset(Version version) {
  version_ = version;
  newest_held_ = false;
  previous_held_ = false;
  updates_ = 0;
  for (auto& moments : first_moments_) std::ranges::fill(moments, 0.0F);
  for (auto& moments : second_moments_) std::ranges::fill(moments, 0.0F);
}

void ParameterStore::InitRandom(std::uint64_t seed) {
  Reset(Version(0));
  const auto fill = [&](const ParameterSlot& slot) {
    const std::span<float> values = PartOf(newest().group(slot.group), slot);
    if (slot.shape.size() > 1) {
      FillNormal(seed, slot.name, initializer_range_, values);
    } else {
      std::ranges::fill(values, 1.0F);
    }
  };
  at::parallel_for(0, static_cast<std::int64_t>(layout_.slots.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) fill(layout_.slots[i]);
                   });
  newest().Refresh();
  newest_held_ = true;
}

Status ParameterStore::Load(const state::TensorLookup& tensors, Version version, bool optimizer) {
  Reset(version);
  Status status = LoadTensors(tensors, optimizer);
  newest_held_ = status.ok();
  return status;
}

Status ParameterStore::LoadTensors(const state::TensorLookup& tensors, bool optimizer) {
  const auto load = [&](const std::string& prefix, Weights& weights) {
    for (const ParameterSlot& slot : layout_.slots) {
      Status status =
          ReadTensor(tensors, prefix + slot.name, slot, PartOf(weights.group(slot.group), slot));
      if (!status.ok()) return status;
    }
    weights.Refresh();
    return Status();
  };
  if (Status status = load("", newest()); !status.ok() || !optimizer) return status;
  if (Status status = LoadOptimizer(tensors); !status.ok()) return status;
  if (buffers_.size() < 2 || version_ == Version(0)) return {};
  Status status = load("previous.", *buffers_[1 - newest_]);
  previous_held_ = status.ok();
  return status;
}

Status ParameterStore::LoadOptimizer(const state::TensorLookup& tensors) {
  for (const ParameterSlot& slot : layout_.slots) {
    Status status = ReadTensor(tensors, "optimizer.exp_avg." + slot.name, slot,
                               PartOf(first_moments_[slot.group], slot));
    if (!status.ok()) return status;
    status = ReadTensor(tensors, "optimizer.exp_avg_sq." + slot.name, slot,
                        PartOf(second_moments_[slot.group], slot));
    if (!status.ok()) return status;

    const std::string name = "optimizer.step." + slot.name;
    Result<state::NamedTensor> count = tensors(name);
    if (!count.ok()) return count.status().WithContext(name);
    std::int64_t updates = 0;
    if (count->type != state::ElementType::kI64 || count->data.size() != sizeof updates) {
      return InvalidArgument(name + ": expected one int64");
    }
    std::memcpy(&updates, count->data.data(), sizeof updates);
    if (updates < 0 || (&slot != &layout_.slots.front() && updates != updates_)) {
      return InvalidArgument(name + " is " + std::to_string(updates) + ", other tensors' is " +
                             std::to_string(updates_) + ": not the state of one moment");
    }
    updates_ = updates;
  }
  return {};
}

std::vector<ParameterStore::Entry> ParameterStore::Entries() const {
  std::vector<Entry> entries;
  const auto add = [&](const std::string& prefix, const ParameterSlot& slot, const float* group) {
    entries.push_back({prefix + slot.name, state::ElementType::kF32, slot.shape,
                       group + slot.offset, slot.count * sizeof(float)});
  };
  for (const ParameterSlot& slot : layout_.slots) {
    add("", slot, newest().group(slot.group).data());
    add("optimizer.exp_avg.", slot, first_moments_[slot.group].data());
    add("optimizer.exp_avg_sq.", slot, second_moments_[slot.group].data());
    entries.push_back(
        {"optimizer.step." + slot.name, state::ElementType::kI64, {}, &updates_, sizeof updates_});
    if (previous_held_) add("previous.", slot, previous().group(slot.group).data());
  }
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

std::vector<state::NamedTensor> ParameterStore::Snapshot() const {
  std::vector<state::NamedTensor> tensors;
  for (Entry& entry : Entries()) {
    tensors.push_back({std::move(entry.name), entry.type, std::move(entry.shape),
                       Bytes::Copy(entry.data, entry.bytes)});
  }
  return tensors;
}

Digest ParameterStore::StateDigest() const {
  std::vector<state::NamedTensor> tensors;
  for (Entry& entry : Entries()) {
    tensors.push_back({std::move(entry.name), entry.type, std::move(entry.shape),
                       Bytes::Wrap(entry.data, entry.bytes, nullptr)});
  }
  const auto pieced = state::CutState(tensors, [](std::size_t count, const auto& body) {
    at::parallel_for(0, static_cast<std::int64_t>(count), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) body(i);
                     });
  });
  SWARM_CHECK(pieced.ok(), pieced.status().message());
  return pieced->digest();
}

Status ParameterStore::Apply(std::span<const std::span<const float>> gradients, double clip,
                             double learning_rate, bool skip) {
  if (!newest_held_) return FailedPrecondition("apply: this stage has no weights; load some");
  const bool fits = gradients.size() == layout_.groups.size() &&
                    std::ranges::equal(gradients, layout_.groups, {}, &std::span<const float>::size,
                                       &ParameterGroup::count);
  if (!fits && !skip)
    return InvalidArgument("apply: the gradients are not those of this stage's groups");

  const bool delayed = buffers_.size() > 1;
  const std::size_t target = delayed ? 1 - newest_ : newest_;
  if (!skip) {
    ++updates_;
    Update(gradients, clip, learning_rate, *buffers_[target]);
  } else if (delayed) {
    for (std::size_t i = 0; i < layout_.groups.size(); ++i) {
      std::ranges::copy(std::as_const(newest()).group(i), buffers_[target]->group(i).begin());
    }
  }
  buffers_[target]->Refresh();
  newest_ = target;
  previous_held_ = delayed;
  version_ = version_.Next();
  return {};
}

void ParameterStore::Update(std::span<const std::span<const float>> gradients, double clip,
                            double learning_rate, Weights& to) {
  const bool lamb = optimizer_.type == api::OptimizerType::kLAMB;
  struct Piece {
    const ParameterSlot* slot;
    std::uint64_t offset, count;
  };
  std::vector<Piece> pieces;
  for (const ParameterSlot& slot : layout_.slots) {
    const std::uint64_t grain = lamb ? slot.count : kUpdateGrain;
    for (std::uint64_t begin = 0; begin < slot.count; begin += grain) {
      pieces.push_back({&slot, slot.offset + begin, std::min(grain, slot.count - begin)});
    }
  }
  const Weights& from = newest();
  const auto update = [&](const Piece& piece) {
    const std::uint64_t group = piece.slot->group;
    const bool decays = piece.slot->shape.size() > 1;
    const optim::UpdateOptions options{learning_rate,
                                       optimizer_.beta1,
                                       optimizer_.beta2,
                                       optimizer_.epsilon,
                                       decays ? optimizer_.weightDecay : 0,
                                       clip,
                                       static_cast<std::uint64_t>(updates_)};
    const optim::UpdateSpans spans{
        from.group(group).subspan(piece.offset, piece.count),
        gradients[group].subspan(piece.offset, piece.count),
        std::span(first_moments_[group]).subspan(piece.offset, piece.count),
        std::span(second_moments_[group]).subspan(piece.offset, piece.count),
        to.group(group).subspan(piece.offset, piece.count)};
    lamb ? optim::UpdateLamb(options, spans) : optim::UpdateAdamW(options, spans);
  };
  at::parallel_for(0, static_cast<std::int64_t>(pieces.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) update(pieces[i]);
                   });
}

}  // namespace swarm::model
