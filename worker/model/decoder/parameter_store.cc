#include "worker/model/decoder/parameter_store.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "worker/model/arithmetic/subspace.h"
#include "worker/model/start/start.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/muon.h"
#include "worker/optim/update.h"

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

/// The single number of an int64 scalar. Errors: kNotFound; kInvalidArgument.
Result<std::int64_t> ReadNumber(const checkpoint::TensorLookup& tensors, const std::string& name) {
  Result<checkpoint::NamedTensor> tensor = tensors(name);
  if (!tensor.ok()) return tensor.status().WithContext(name);
  std::int64_t number = 0;
  if (tensor->type != checkpoint::ElementType::kI64 || tensor->data.size() != sizeof number) {
    return InvalidArgument(name + ": expected one int64");
  }
  std::memcpy(&number, tensor->data.data(), sizeof number);
  return number;
}

/// A part of a reduced sum.
template <typename T>
std::span<const T> PartOf(const Bytes& sum, std::uint64_t offset, std::uint64_t count) {
  return {reinterpret_cast<const T*>(sum.data()) + offset, count};
}

std::span<float> PartOf(std::span<float> group, const ParameterSlot& slot) {
  return group.subspan(slot.offset, slot.count);
}

/// Reads the tensor `name`, of the slot's shape and any floating-point type, into `to`.
Status ReadTensor(const checkpoint::TensorLookup& tensors, const std::string& name,
                  const ParameterSlot& slot, std::span<float> to) {
  Result<checkpoint::NamedTensor> tensor = tensors(name);
  if (!tensor.ok()) return tensor.status().WithContext(name);
  if (tensor->shape != slot.shape) {
    return InvalidArgument(name + ": expected shape " + ShapeText(slot.shape) + ", found " +
                           ShapeText(tensor->shape));
  }
  tensor = checkpoint::ConvertToFloat32(*tensor);
  if (!tensor.ok()) return tensor.status();
  std::memcpy(to.data(), tensor->data.data(), to.size_bytes());
  return {};
}

/// Calls body(i) for all i < count, on all threads.
void ForEach(std::size_t count, const std::function<void(std::size_t)>& body) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) body(static_cast<std::size_t>(i));
                   });
}

using Turn = void (*)(std::span<float>, std::span<const double>, std::size_t, Entries);

/// How a parameter changes when the basis is turned; null for a parameter that is not in the basis.
Turn TurnOf(const ParameterSlot& slot) {
  if (slot.start == Start::kSpread) return TurnColumns;
  return slot.start == Start::kEmbeddingInBasis ? TurnRows : nullptr;
}

/// The same for a step's sum of a parameter. For the basis, the sum is M U, whose rows are in U.
Turn TurnOfSum(const ParameterSlot& slot) {
  return slot.name == kBasisName ? TurnRows : TurnOf(slot);
}

}  // namespace

ParameterStore::ParameterStore(const Layout& layout, const StageOptions& options, at::Device device)
    : layout_(layout),
      accumulation_(options.accumulation),
      microbatches_(options.microbatches),
      contribution_bits_(optim::ContributionBits(options.microbatches)),
      optimizer_(options.optimizer),
      config_(options.config),
      boundary_(options.boundary) {
  const std::size_t versions = options.step_mode == api::StepMode::kDelayed ? 2 : 1;
  for (std::size_t i = 0; i < versions; ++i) {
    const Weights* sharing = buffers_.empty() ? nullptr : buffers_.front().get();
    buffers_.push_back(std::make_unique<Weights>(layout, options.precision, device, sharing));
  }
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    if (options.divided && layout.slots[i].group == 0) parts_.push_back(i);
  }
  first_moments_.resize(layout.slots.size());
  second_moments_.resize(layout.slots.size());
}

const Weights* ParameterStore::Find(Version version) const {
  if (newest_held_ && version == version_) return &newest();
  if (previous_held_ && version.Next() == version_) return &previous();
  return nullptr;
}

void ParameterStore::Reset(Version version) {
  readers_.AwaitNone();
  version_ = version;
  newest_held_ = false;
  previous_held_ = false;
  updates_ = 0;
  division_.reset();
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    first_moments_[i].assign(slot.count, 0.0F);
    second_moments_[i].assign(StepsByMuon(slot) ? 0 : slot.count, 0.0F);
  }
  if (!exact()) return;
  scales_.clear();
  for (const ParameterSlot& slot : layout_.slots) {
    scales_.push_back(slot.name == kBasisName ? optim::StartExponentOfSquares(microbatches_)
                                              : optim::StartExponent(contribution_bits_));
  }
  previous_scales_ = scales_;
}

void ParameterStore::InitRandom(std::uint64_t seed) {
  Reset(Version(0));
  const auto fill = [&](const ParameterSlot& slot) {
    FillStart(seed, config_, slot, PartOf(newest().group(slot.group), slot));
  };
  at::parallel_for(0, static_cast<std::int64_t>(layout_.slots.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) fill(layout_.slots[i]);
                   });
  for (const ParameterSlot& slot : layout_.frozen) fill(slot);
  newest().Refresh();
  newest_held_ = true;
}

Status ParameterStore::Load(const checkpoint::TensorLookup& tensors, Version version,
                            bool optimizer) {
  Reset(version);
  Status status = LoadTensors(tensors, optimizer);
  newest_held_ = status.ok();
  return status;
}

Status ParameterStore::LoadTensors(const checkpoint::TensorLookup& tensors, bool optimizer) {
  for (const ParameterSlot& slot : layout_.frozen) {
    RETURN_IF_ERROR(ReadTensor(tensors, slot.name, slot, PartOf(newest().group(slot.group), slot)));
  }
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

Status ParameterStore::LoadOptimizer(const checkpoint::TensorLookup& tensors) {
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    const Status first =
        ReadTensor(tensors, "optimizer.exp_avg." + slot.name, slot, first_moments_[i]);
    if (first.code() == StatusCode::kNotFound && std::ranges::count(parts_, i) > 0) {
      first_moments_[i] = {};
      second_moments_[i] = {};
    } else {
      RETURN_IF_ERROR(first);
      if (!StepsByMuon(slot)) {
        RETURN_IF_ERROR(
            ReadTensor(tensors, "optimizer.exp_avg_sq." + slot.name, slot, second_moments_[i]));
      }
    }
    const std::string name = "optimizer.step." + slot.name;
    const Result<std::int64_t> updates = ReadNumber(tensors, name);
    if (!updates.ok()) return updates.status();
    if (*updates < 0 || (&slot != &layout_.slots.front() && *updates != updates_)) {
      return InvalidArgument(name + " is " + std::to_string(*updates) + ", other tensors' is " +
                             std::to_string(updates_) + ": not the state of one moment");
    }
    updates_ = *updates;
  }
  return exact() ? LoadScales(tensors) : Status();
}

Status ParameterStore::LoadScales(const checkpoint::TensorLookup& tensors) {
  const auto load = [&](const std::string& name, std::int64_t& scale) {
    const Result<std::int64_t> number = ReadNumber(tensors, name);
    if (number.ok()) scale = optim::ClampExponent(contribution_bits_, *number);
    // A state that was made with float sums has none: the start exponents stay.
    return number.status().code() == StatusCode::kNotFound ? Status() : number.status();
  };
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const std::string& name = layout_.slots[i].name;
    RETURN_IF_ERROR(load("optimizer.scale." + name, scales_[i]));
    if (buffers_.size() > 1) {
      RETURN_IF_ERROR(load("optimizer.previous_scale." + name, previous_scales_[i]));
    }
  }
  return {};
}

std::vector<checkpoint::NamedTensor> ParameterStore::State() const {
  std::vector<checkpoint::NamedTensor> tensors;
  const std::shared_ptr<const void> reader = readers_.Enter();
  const auto add = [&](const std::string& prefix, const ParameterSlot& slot, const float* values) {
    tensors.push_back({prefix + slot.name, checkpoint::ElementType::kF32, slot.shape,
                       Bytes::Wrap(values, slot.count * sizeof(float), reader)});
  };
  const auto add_number = [&](std::string name, const std::int64_t& number) {
    tensors.push_back({std::move(name),
                       checkpoint::ElementType::kI64,
                       {},
                       Bytes::Wrap(&number, sizeof number, reader)});
  };
  for (const ParameterSlot& slot : layout_.slots) {
    const std::size_t index = static_cast<std::size_t>(&slot - layout_.slots.data());
    add("", slot, newest().group(slot.group).data() + slot.offset);
    if (std::ranges::count(parts_, index) == 0) AddMoments(index, reader, &tensors);
    add_number("optimizer.step." + slot.name, updates_);
    if (previous_held_) add("previous.", slot, previous().group(slot.group).data() + slot.offset);
    if (!exact()) continue;
    add_number("optimizer.scale." + slot.name, scales_[index]);
    if (!previous_held_) continue;
    add_number("optimizer.previous_scale." + slot.name, previous_scales_[index]);
  }
  for (const ParameterSlot& slot : layout_.frozen) {
    add("", slot, newest().group(slot.group).data() + slot.offset);
  }
  std::ranges::sort(tensors, {}, &checkpoint::NamedTensor::name);
  return tensors;
}

void ParameterStore::AddMoments(std::size_t index, const std::shared_ptr<const void>& reader,
                                std::vector<checkpoint::NamedTensor>* tensors) const {
  const ParameterSlot& slot = layout_.slots[index];
  const auto add = [&](const char* prefix, const std::vector<float>& moments) {
    if (moments.empty()) return;
    tensors->push_back({prefix + slot.name, checkpoint::ElementType::kF32, slot.shape,
                        Bytes::Wrap(moments.data(), slot.count * sizeof(float), reader)});
  };
  add("optimizer.exp_avg.", first_moments_[index]);
  add("optimizer.exp_avg_sq.", second_moments_[index]);
}

bool ParameterStore::HoldsPart(std::uint64_t part) const {
  return !first_moments_[parts_.at(part)].empty();
}

std::uint64_t ParameterStore::MomentBytes(std::uint64_t part) const {
  const ParameterSlot& slot = layout_.slots[parts_.at(part)];
  return (StepsByMuon(slot) ? 1 : 2) * slot.count * sizeof(float);
}

std::vector<checkpoint::NamedTensor> ParameterStore::PartState(std::uint64_t part) const {
  const std::shared_ptr<const void> reader = readers_.Enter();
  const ParameterSlot& slot = layout_.slots[parts_.at(part)];
  std::vector<checkpoint::NamedTensor> tensors{
      {slot.name, checkpoint::ElementType::kF32, slot.shape,
       Bytes::Wrap(newest().group(slot.group).data() + slot.offset, slot.count * sizeof(float),
                   reader)}};
  AddMoments(parts_[part], reader, &tensors);
  return tensors;
}

Status ParameterStore::TakeMoments(std::uint64_t part, const Bytes& moments) {
  const std::size_t index = parts_.at(part);
  const ParameterSlot& slot = layout_.slots[index];
  if (moments.size() != MomentBytes(part)) {
    return InvalidArgument("the moments of " + slot.name + " have " +
                           std::to_string(moments.size()) + " bytes");
  }
  const auto* values = reinterpret_cast<const float*>(moments.data());
  first_moments_[index].assign(values, values + slot.count);
  if (!StepsByMuon(slot)) {
    second_moments_[index].assign(values + slot.count, values + 2 * slot.count);
  }
  return {};
}

bool ParameterStore::IsOthers(std::size_t slot) const {
  if (!division_) return false;
  const auto part = std::ranges::find(parts_, slot);
  return part != parts_.end() && !division_->own[static_cast<std::size_t>(part - parts_.begin())];
}

std::vector<int> ParameterStore::Exponents(Step step, unsigned level) const {
  const bool delayed = buffers_.size() > 1;
  const Version read(delayed && step.value > 0 ? step.value - 1 : step.value);
  SWARM_CHECK(read == version_ || (previous_held_ && read.Next() == version_),
              "exponents of step " + std::to_string(step.value) + " at version " +
                  std::to_string(version_.value));
  std::vector<int> exponents;
  for (const std::int64_t scale : read == version_ ? scales_ : previous_scales_) {
    exponents.push_back(optim::LowerExponent(contribution_bits_, static_cast<int>(scale), level));
  }
  return exponents;
}

Status ParameterStore::Apply(std::span<const Bytes> sums, const ApplyOptions& options) {
  // Whoever holds all parts applies all of them.
  RETURN_IF_ERROR(Begin(sums, options, {std::vector<bool>(parts_.size(), true), {}}));
  return FinishApply({});
}

Result<std::vector<Bytes>> ParameterStore::BeginApply(std::span<const Bytes> sums,
                                                      const ApplyOptions& options,
                                                      const Division& division) {
  RETURN_IF_ERROR(Begin(sums, options, division));
  std::vector<Bytes> weights(parts_.size());
  if (options.skip) return weights;
  // Of the size of the whole group, whatever the parts, so that each update finds the same memory.
  // Pages of the others' parts are not touched.
  const std::span<const float> group = std::as_const(target()).group(0);
  const std::shared_ptr<std::byte[]> copies = copies_.Take(group.size_bytes());
  ForEach(parts_.size(), [&](std::size_t p) {
    if (!division.own[p]) return;
    const ParameterSlot& slot = layout_.slots[parts_[p]];
    std::byte* copy = copies.get() + slot.offset * sizeof(float);
    std::memcpy(copy, group.data() + slot.offset, slot.count * sizeof(float));
    weights[p] = Bytes::Wrap(copy, slot.count * sizeof(float), copies);
  });
  return weights;
}

Status ParameterStore::Begin(std::span<const Bytes> sums, const ApplyOptions& options,
                             const Division& division) {
  if (!newest_held_) return FailedPrecondition("apply: this stage has no weights; load some");
  const std::uint64_t element = exact() ? sizeof(std::int64_t) : sizeof(float);
  const bool fits = std::ranges::equal(sums, layout_.groups, {}, &Bytes::size,
                                       [&](const auto& group) { return group.count * element; });
  if (!fits && !options.skip)
    return InvalidArgument("apply: the sums are not those of this stage's groups");
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (division.own.size() != parts_.size() || (division.own[p] && !HoldsPart(p))) {
      return InvalidArgument("apply: the moments of " + layout_.slots[parts_[p]].name +
                             " are not here");
    }
  }

  readers_.AwaitNone();
  division_ = division;
  skips_ = options.skip;
  next_scales_ = scales_;
  const bool delayed = buffers_.size() > 1;
  if (!options.skip) {
    ++updates_;
    Update(sums, options, target());
    const auto updates = static_cast<std::uint64_t>(updates_);
    if (layout_.basis && updates % boundary_.refreshSteps == 0) TurnBasisOf(target());
  } else {
    if (delayed) {
      for (std::size_t i = 0; i < layout_.groups.size(); ++i) {
        std::ranges::copy(std::as_const(newest()).group(i), target().group(i).begin());
      }
    }
  }
  previous_held_ = false;
  newest_held_ = delayed;
  return {};
}

Status ParameterStore::FinishApply(std::span<const Bytes> weights) {
  SWARM_CHECK(division_, "the second half of an update that has not begun");
  const bool delayed = buffers_.size() > 1;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (division_->own[p]) continue;
    const ParameterSlot& slot = layout_.slots[parts_[p]];
    first_moments_[parts_[p]] = {};
    second_moments_[parts_[p]] = {};
    if (skips_) continue;
    const std::span<float> to = PartOf(target().group(slot.group), slot);
    if (p >= weights.size() || weights[p].size() != to.size_bytes()) {
      return InvalidArgument("the weights of " + slot.name + " have another size");
    }
    std::memcpy(to.data(), weights[p].data(), to.size_bytes());
  }
  division_.reset();
  previous_scales_ = std::exchange(scales_, std::move(next_scales_));
  target().RefreshTrained();
  if (delayed) newest_ = 1 - newest_;
  newest_held_ = true;
  previous_held_ = delayed;
  version_ = version_.Next();
  return {};
}

/// A part of a parameter that is updated at once.
struct ParameterStore::Piece {
  std::size_t slot;
  std::uint64_t offset, count;  ///< within the parameter
  int magnitude_bits = 0;  ///< of the sum, kExact
};

std::vector<double> ParameterStore::OverlapSinceRead() const {
  if (!layout_.basis || !previous_held_) return {};
  const Operand& operand = layout_.operands[*layout_.basis];
  const std::span<const float> read = previous().group(operand.group);
  const std::span<const float> now = newest().group(operand.group);
  if (std::ranges::equal(read, now)) return {};
  return Overlap(read, now, static_cast<std::size_t>(operand.shape[0]),
                 static_cast<std::size_t>(operand.shape[1]));
}

void ParameterStore::Update(std::span<const Bytes> sums, const ApplyOptions& options, Weights& to) {
  // Before anything is written: `to` may be the version that the step has read.
  const std::vector<double> overlap = OverlapSinceRead();
  const std::size_t rank = overlap.empty() ? 0 : boundary_.rank;
  const bool whole = !overlap.empty() || optimizer_.type == api::OptimizerType::kLAMB;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    if (IsOthers(i)) continue;
    const std::uint64_t grain = whole || StepsByMuon(slot) ? slot.count : kUpdateGrain;
    for (std::uint64_t begin = 0; begin < slot.count; begin += grain) {
      pieces.push_back({i, begin, std::min(grain, slot.count - begin)});
    }
  }
  const std::vector<int> exponents =
      exact() ? Exponents(Step(version_.value), options.scale_level) : std::vector<int>();
  const auto update = [&](Piece& piece) {
    const ParameterSlot& slot = layout_.slots[piece.slot];
    const std::uint64_t begin = slot.offset + piece.offset;
    const Turn turn = overlap.empty() ? nullptr : TurnOfSum(slot);
    std::vector<float> floats;
    if (exact()) {
      const auto part = PartOf<std::int64_t>(sums[slot.group], begin, piece.count);
      piece.magnitude_bits = optim::MagnitudeBits(part);
      floats.resize(piece.count);
      optim::Dequantize(part, exponents[piece.slot], piece.magnitude_bits, floats);
    } else {
      const auto part = PartOf<float>(sums[slot.group], begin, piece.count);
      if (turn == nullptr) return UpdatePiece(piece, part, options, to);
      floats.assign(part.begin(), part.end());
    }
    if (turn != nullptr) turn(floats, overlap, rank, Entries::kAsTheyAre);
    UpdatePiece(piece, floats, options, to);
  };
  // Of these, each has a thread; threads share each of the others.
  const auto shared = std::stable_partition(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return !StepsByMuon(layout_.slots[piece.slot]);
  });
  ForEach(static_cast<std::size_t>(shared - pieces.begin()),
          [&](std::size_t i) { update(pieces[i]); });
  std::for_each(shared, pieces.end(), update);
  if (exact()) AdvanceScales(pieces, exponents);
}

void ParameterStore::UpdatePiece(const Piece& piece, std::span<const float> gradient,
                                 const ApplyOptions& options, Weights& to) {
  const ParameterSlot& slot = layout_.slots[piece.slot];
  if (slot.name == kBasisName) return GatherPiece(piece, gradient, to);
  const bool decays = slot.decays && (optimizer_.decayEmbeddings || slot.role != Role::kTable);
  const optim::UpdateOptions update{options.learning_rate * slot.rate,
                                    optimizer_.beta1,
                                    optimizer_.beta2,
                                    optimizer_.epsilon,
                                    decays ? optimizer_.weightDecay : 0,
                                    options.clip,
                                    static_cast<std::uint64_t>(updates_),
                                    /*by_norm=*/slot.start != Start::kZeros};
  const auto part_of = [&](std::vector<float>& moments) {
    return moments.empty() ? std::span<float>()
                           : std::span(moments).subspan(piece.offset, piece.count);
  };
  const std::uint64_t begin = slot.offset + piece.offset;
  const optim::UpdateSpans spans{
      std::as_const(newest()).group(slot.group).subspan(begin, piece.count), gradient,
      part_of(first_moments_[piece.slot]), part_of(second_moments_[piece.slot]),
      to.group(slot.group).subspan(begin, piece.count)};
  if (StepsByMuon(slot)) {
    return optim::UpdateMuon(update, optimizer_.momentum, spans,
                             static_cast<std::size_t>(slot.shape[0]),
                             static_cast<std::size_t>(slot.shape[1]), ForEach);
  }
  optimizer_.type == api::OptimizerType::kLAMB ? optim::UpdateLamb(update, spans)
                                               : optim::UpdateAdamW(update, spans);
}

void ParameterStore::GatherPiece(const Piece& piece, std::span<const float> statistic,
                                 Weights& to) {
  const ParameterSlot& slot = layout_.slots[piece.slot];
  const auto gathered = std::span(first_moments_[piece.slot]).subspan(piece.offset, piece.count);
  for (std::size_t i = 0; i < gathered.size(); ++i) gathered[i] += statistic[i];
  if (&to == &newest()) return;
  const std::uint64_t begin = slot.offset + piece.offset;
  std::ranges::copy(std::as_const(newest()).group(slot.group).subspan(begin, piece.count),
                    to.group(slot.group).subspan(begin, piece.count).begin());
}

void ParameterStore::TurnBasisOf(Weights& to) {
  const Operand& operand = layout_.operands[*layout_.basis];
  const auto rows = static_cast<std::size_t>(operand.shape[0]);
  const auto rank = static_cast<std::size_t>(operand.shape[1]);
  const std::span<float> basis = to.group(operand.group);
  std::vector<float>& gathered = first_moments_.back();  // the basis is the last parameter
  const std::vector<float> turned = TurnBasis(basis, gathered, boundary_.refreshRate, rows, rank);
  const std::vector<double> overlap = Overlap(basis, turned, rows, rank);
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    const Turn turn = TurnOf(slot);
    if (turn == nullptr) continue;
    if (IsOthers(i)) continue;
    turn(PartOf(to.group(slot.group), slot), overlap, rank, Entries::kAsTheyAre);
    turn(first_moments_[i], overlap, rank, Entries::kAsTheyAre);
    if (!StepsByMuon(slot)) turn(second_moments_[i], overlap, rank, Entries::kSquared);
  }
  std::ranges::copy(turned, basis.begin());
  std::ranges::fill(gathered, 0.0F);
}

void ParameterStore::AdvanceScales(std::span<const Piece> pieces,
                                   const std::vector<int>& exponents) {
  std::vector<int> magnitude_bits(layout_.slots.size());
  for (const Piece& piece : pieces) {
    magnitude_bits[piece.slot] = std::max(magnitude_bits[piece.slot], piece.magnitude_bits);
  }
  for (std::size_t p = 0; p < division_->magnitude_bits.size(); ++p) {
    magnitude_bits[parts_[p]] = static_cast<int>(division_->magnitude_bits[p]);
  }
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    if (magnitude_bits[i] == 0) continue;  // a gradient of zeros says nothing about the next
    next_scales_[i] = optim::NextExponent(contribution_bits_, exponents[i], magnitude_bits[i]);
  }
}

}  // namespace swarm::model
