#include "worker/model/decoder/parameter_store.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "worker/checkpoint/pieces.h"
#include "worker/model/arithmetic/subspace.h"
#include "worker/model/exact_sums.h"
#include "worker/model/start/start.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/muon.h"
#include "worker/optim/update.h"

namespace swarm::model {
namespace {

constexpr std::size_t kFilledTogether = 16;  ///< parameters whose first weights are on the host
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
  const auto* const from = reinterpret_cast<const float*>(tensor->data.data());
  if (from != to.data()) std::memcpy(to.data(), from, to.size_bytes());  // else they are in place
  return {};
}

/// Calls body(i) for all i < count, on all threads.
void ForEach(std::size_t count, const std::function<void(std::size_t)>& body) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) body(static_cast<std::size_t>(i));
                   });
}

/// Of a whole sum of integers.
int MagnitudeBits(const Bytes& sum) {
  const std::span all(reinterpret_cast<const std::int64_t*>(sum.data()),
                      sum.size() / sizeof(std::int64_t));
  std::vector<int> bits((all.size() + kUpdateGrain - 1) / kUpdateGrain);
  ForEach(bits.size(), [&](std::size_t i) {
    const std::size_t begin = i * kUpdateGrain;
    bits[i] = optim::MagnitudeBits(
        all.subspan(begin, std::min<std::size_t>(kUpdateGrain, all.size() - begin)));
  });
  return bits.empty() ? 0 : *std::ranges::max_element(bits);
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

ParameterStore::ParameterStore(const Layout& layout, const StageOptions& options, at::Device device,
                               StateMemory& memory, StateMemory& there, StateBlocks given)
    : layout_(layout),
      memory_(memory),
      device_(device),
      kernels_(MakeStateKernels(device)),
      accumulation_(options.accumulation),
      microbatches_(options.microbatches),
      contribution_bits_(optim::ContributionBits(options.microbatches)),
      has_moments_(options.updates),
      optimizer_(options.optimizer),
      config_(options.config),
      boundary_(options.boundary),
      given_(std::move(given)) {
  const std::size_t versions = options.step_mode == api::StepMode::kDelayed ? 2 : 1;
  for (std::size_t i = 0; i < versions; ++i) {
    const Weights* sharing = buffers_.empty() ? nullptr : buffers_.front().get();
    buffers_.push_back(std::make_unique<Weights>(layout, options.precision, device, memory, there,
                                                 given_.weights, sharing));
  }
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    if (options.divided && layout.slots[i].group == 0) parts_.push_back(i);
  }
  first_moments_.resize(layout.slots.size());
  second_moments_.resize(layout.slots.size());
  const bool has_pieces = std::ranges::any_of(layout.slots, [](const ParameterSlot& slot) {
    return slot.count * sizeof(float) >= checkpoint::kPieceBytes;
  });
  if (!memory.on_host() && has_pieces) digests_ = std::make_unique<PieceDigests>(memory, *kernels_);
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
    first_moments_[i] = {};
    second_moments_[i] = {};
    if (!has_moments_) continue;
    first_moments_[i] = MomentsOf(kFirstMoments, slot);
    if (!StepsByMuon(slot)) second_moments_[i] = MomentsOf(kSecondMoments, slot);
  }
  if (!exact()) return;
  scales_.clear();
  for (const ParameterSlot& slot : layout_.slots) {
    scales_.push_back(slot.name == kBasisName ? optim::StartExponentOfSquares(microbatches_)
                                              : optim::StartExponent(contribution_bits_));
  }
  previous_scales_ = scales_;
}

StateBlock ParameterStore::ZerosOf(const ParameterSlot& slot) {
  return memory_.Zeros(static_cast<std::int64_t>(slot.count), at::kFloat, StateMemory::Term::kLong);
}

StateBlock ParameterStore::MomentsOf(const std::string& prefix, const ParameterSlot& slot) {
  const auto found = given_.moments.find(prefix + slot.name);
  return found != given_.moments.end() ? found->second : ZerosOf(slot);
}

Status ParameterStore::EditWeights(const Weights& weights, const ParameterSlot& slot,
                                   StateMemory::Edit edit,
                                   const std::function<Status(std::span<float>)>& change) {
  return memory_.EditOnHost(weights.masters()[slot.group], static_cast<std::int64_t>(slot.offset),
                            static_cast<std::int64_t>(slot.count), edit, change);
}

Status ParameterStore::EditMoments(const StateBlock& moments, StateMemory::Edit edit,
                                   const std::function<Status(std::span<float>)>& change) {
  return memory_.EditOnHost(moments, 0, moments.numbers.numel(), edit, change);
}

void ParameterStore::InitRandom(std::uint64_t seed) {
  Reset(Version(0));
  std::vector<const ParameterSlot*> slots;
  for (const ParameterSlot& slot : layout_.slots) slots.push_back(&slot);
  for (const ParameterSlot& slot : layout_.frozen) slots.push_back(&slot);
  const auto edit = [&](const ParameterSlot& slot, const auto& change) {
    const Status filled = EditWeights(newest(), slot, StateMemory::Edit::kOverwrite, change);
    SWARM_CHECK(filled.ok(), filled.message());  // without its device, the process has no use
  };
  if (memory_.on_host()) {
    ForEach(slots.size(), [&](std::size_t i) {
      edit(*slots[i], [&](std::span<float> to) {
        FillStart(seed, config_, *slots[i], to);
        return Status();
      });
    });
  } else {
    // All threads compute some at a time, and one gives them to the device.
    for (std::size_t begin = 0; begin < slots.size(); begin += kFilledTogether) {
      std::vector<std::vector<float>> numbers(std::min(kFilledTogether, slots.size() - begin));
      ForEach(numbers.size(), [&](std::size_t i) {
        numbers[i].resize(slots[begin + i]->count);
        FillStart(seed, config_, *slots[begin + i], numbers[i]);
      });
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        edit(*slots[begin + i], [&](std::span<float> to) {
          std::ranges::copy(numbers[i], to.begin());
          return Status();
        });
      }
    }
  }
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
  const auto read = [&](const std::string& prefix, const ParameterSlot& slot,
                        const Weights& weights) {
    return EditWeights(weights, slot, StateMemory::Edit::kOverwrite, [&](std::span<float> to) {
      return ReadTensor(tensors, prefix + slot.name, slot, to);
    });
  };
  for (const ParameterSlot& slot : layout_.frozen) RETURN_IF_ERROR(read("", slot, newest()));
  const auto load = [&](const std::string& prefix, Weights& weights) {
    for (const ParameterSlot& slot : layout_.slots) {
      if (Status status = read(prefix, slot, weights); !status.ok()) return status;
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

Status ParameterStore::Replace(const checkpoint::TensorLookup& weights) {
  if (!newest_held_) return FailedPrecondition("replace: there are no weights; load some");
  readers_.AwaitNone();
  newest_held_ = false;
  for (const ParameterSlot& slot : layout_.slots) {
    if (weights(slot.name).status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(
        EditWeights(newest(), slot, StateMemory::Edit::kOverwrite,
                    [&](std::span<float> to) { return ReadTensor(weights, slot.name, slot, to); }));
  }
  newest().Refresh();
  newest_held_ = true;
  return {};
}

Status ParameterStore::LoadOptimizer(const checkpoint::TensorLookup& tensors) {
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    const auto read = [&](const char* prefix, const StateBlock& moments) {
      return EditMoments(moments, StateMemory::Edit::kOverwrite, [&](std::span<float> to) {
        return ReadTensor(tensors, prefix + slot.name, slot, to);
      });
    };
    const Status first = read(kFirstMoments, first_moments_[i]);
    if (first.code() == StatusCode::kNotFound && std::ranges::count(parts_, i) > 0) {
      first_moments_[i] = {};
      second_moments_[i] = {};
    } else {
      RETURN_IF_ERROR(first);
      if (!StepsByMuon(slot)) {
        RETURN_IF_ERROR(read(kSecondMoments, second_moments_[i]));
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

class ParameterStore::InDeviceMemory final : public checkpoint::Elsewhere {
 public:
  /// The numbers of the block from `first` on.
  InDeviceMemory(StateMemory& memory, StateBlock block, std::uint64_t first, Reader reader)
      : memory_(memory), block_(std::move(block)), first_(first), reader_(std::move(reader)) {}

  Status Read(std::uint64_t offset, std::span<std::byte> to) const override {
    return memory_.ReadBehind(reader_.behind, block_, static_cast<std::int64_t>(NumberAt(offset)),
                              to);
  }

  void ExpectPieces(std::uint64_t offset, std::uint64_t size, std::uint64_t pieces) const override {
    if (reader_.pieces == nullptr || size != checkpoint::kPieceBytes || expected_ > 0) return;
    begin_ = offset;
    expected_ = pieces;
    piece_ = reader_.pieces->Expect({block_, NumberAt(offset), pieces});
  }

  std::optional<Digest> KnownDigest(std::uint64_t offset, std::uint64_t size) const override {
    const std::uint64_t piece = (offset - begin_) / checkpoint::kPieceBytes;
    if (size != checkpoint::kPieceBytes || offset < begin_ || piece >= expected_ ||
        (offset - begin_) % size != 0) {
      return {};
    }
    const Digest* const known = reader_.pieces->At(piece_ + piece);
    return known == nullptr ? std::optional<Digest>() : *known;
  }

 private:
  std::uint64_t NumberAt(std::uint64_t offset) const {
    SWARM_CHECK(offset % sizeof(float) == 0, "a part of a number");
    return first_ + offset / sizeof(float);
  }

  StateMemory& memory_;
  const StateBlock block_;
  const std::uint64_t first_;
  const Reader reader_;
  // One thread reads at a time. The pieces that are expected, from a byte on, and the number of the
  // first among those of all tensors.
  mutable std::uint64_t begin_ = 0, expected_ = 0;
  mutable std::size_t piece_ = 0;
};

ParameterStore::Reader ParameterStore::Enter() const {
  Reader reader{readers_.Enter(), memory_.Record(), nullptr};
  if (digests_ != nullptr)
    reader.pieces = std::make_shared<ExpectedPieces>(*digests_, reader.behind);
  return reader;
}

checkpoint::NamedTensor ParameterStore::Show(std::string name, const ParameterSlot& slot,
                                             const StateBlock& block, std::uint64_t first,
                                             const Reader& reader) const {
  checkpoint::NamedTensor tensor{std::move(name), checkpoint::ElementType::kF32, slot.shape, {}};
  if (memory_.on_host()) {
    tensor.data = Bytes::Wrap(block.floats() + first, slot.count * sizeof(float), reader.entered);
  } else {
    tensor.elsewhere = std::make_shared<InDeviceMemory>(memory_, block, first, reader);
  }
  return tensor;
}

std::vector<checkpoint::NamedTensor> ParameterStore::State() const {
  std::vector<checkpoint::NamedTensor> tensors;
  const Reader reader = Enter();
  const auto add = [&](const std::string& prefix, const ParameterSlot& slot, const Weights& of) {
    tensors.push_back(
        Show(prefix + slot.name, slot, of.masters()[slot.group], slot.offset, reader));
  };
  const auto add_number = [&](std::string name, const std::int64_t& number) {
    tensors.push_back({std::move(name),
                       checkpoint::ElementType::kI64,
                       {},
                       Bytes::Wrap(&number, sizeof number, reader.entered)});
  };
  for (const ParameterSlot& slot : layout_.slots) {
    const std::size_t index = static_cast<std::size_t>(&slot - layout_.slots.data());
    add("", slot, newest());
    if (std::ranges::count(parts_, index) == 0) AddMoments(index, reader, &tensors);
    add_number("optimizer.step." + slot.name, updates_);
    if (previous_held_) add("previous.", slot, previous());
    if (!exact()) continue;
    add_number("optimizer.scale." + slot.name, scales_[index]);
    if (!previous_held_) continue;
    add_number("optimizer.previous_scale." + slot.name, previous_scales_[index]);
  }
  for (const ParameterSlot& slot : layout_.frozen) add("", slot, newest());
  std::ranges::sort(tensors, {}, &checkpoint::NamedTensor::name);
  return tensors;
}

void ParameterStore::AddMoments(std::size_t index, const Reader& reader,
                                std::vector<checkpoint::NamedTensor>* tensors) const {
  const ParameterSlot& slot = layout_.slots[index];
  const auto add = [&](const char* prefix, const StateBlock& moments) {
    if (moments.empty()) return;
    tensors->push_back(Show(prefix + slot.name, slot, moments, 0, reader));
  };
  add(kFirstMoments, first_moments_[index]);
  add(kSecondMoments, second_moments_[index]);
}

bool ParameterStore::HoldsPart(std::uint64_t part) const {
  return !first_moments_[parts_.at(part)].empty();
}

std::uint64_t ParameterStore::MomentBytes(std::uint64_t part) const {
  const ParameterSlot& slot = layout_.slots[parts_.at(part)];
  return (StepsByMuon(slot) ? 1 : 2) * slot.count * sizeof(float);
}

std::vector<checkpoint::NamedTensor> ParameterStore::PartState(std::uint64_t part) const {
  const Reader reader = Enter();
  const ParameterSlot& slot = layout_.slots[parts_.at(part)];
  std::vector<checkpoint::NamedTensor> tensors{
      Show(slot.name, slot, newest().masters()[slot.group], slot.offset, reader)};
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
  const std::size_t bytes = slot.count * sizeof(float);
  const auto take = [&](StateBlock& block, const Bytes& from) {
    if (block.empty()) block = ZerosOf(slot);
    return EditMoments(block, StateMemory::Edit::kOverwrite, [&](std::span<float> to) {
      std::memcpy(to.data(), from.data(), from.size());
      return Status();
    });
  };
  RETURN_IF_ERROR(take(first_moments_[index], moments.Slice(0, bytes)));
  if (StepsByMuon(slot)) return {};
  return take(second_moments_[index], moments.Slice(bytes, bytes));
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
  RETURN_IF_ERROR(Begin({sums, {}}, options, {std::vector<bool>(parts_.size(), true), {}}));
  return FinishApply({});
}

Status ParameterStore::ApplyFrom(std::span<const StateBlock> sums, const ApplyOptions& options) {
  SWARM_CHECK(!memory_.on_host() && !exact() && !layout_.basis, "sums that stay");
  RETURN_IF_ERROR(Begin({{}, sums}, options, {std::vector<bool>(parts_.size(), true), {}}));
  return FinishApply({});
}

Result<std::vector<Bytes>> ParameterStore::BeginApply(std::span<const Bytes> sums,
                                                      const ApplyOptions& options,
                                                      const Division& division) {
  RETURN_IF_ERROR(Begin({sums, {}}, options, division));
  std::vector<Bytes> weights(parts_.size());
  if (options.skip) return weights;
  // Of the size of the whole group, whatever the parts, so that each update finds the same memory.
  // Pages of the others' parts are not touched.
  const StateBlock& group = target().masters()[0];
  const std::shared_ptr<std::byte[]> copies = copies_.Take(group.numbers.nbytes());
  const auto copy = [&](std::size_t p) -> Status {
    if (!division.own[p]) return {};
    const ParameterSlot& slot = layout_.slots[parts_[p]];
    const std::span to(copies.get() + slot.offset * sizeof(float), slot.count * sizeof(float));
    weights[p] = Bytes::Wrap(to.data(), to.size(), copies);
    return memory_.Read(group, static_cast<std::int64_t>(slot.offset), to);
  };
  if (memory_.on_host()) {
    ForEach(parts_.size(), [&](std::size_t p) { (void)copy(p); });  // does not fail
    return weights;
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) RETURN_IF_ERROR(copy(p));
  return weights;
}

Status ParameterStore::Begin(const Sums& sums, const ApplyOptions& options,
                             const Division& division) {
  if (!newest_held_) return FailedPrecondition("apply: this stage has no weights; load some");
  if (!options.skip && sums.here.empty()) {
    RETURN_IF_ERROR(CheckSums(sums.elements, layout_.groups, accumulation_));
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (division.own.size() != parts_.size() || (division.own[p] && !HoldsPart(p))) {
      return InvalidArgument("apply: the moments of " + layout_.slots[parts_[p]].name +
                             " are not here");
    }
  }

  readers_.AwaitNone();
  // Before anything is written: the target may be the version that the step has read.
  std::vector<double> overlap;
  if (!options.skip) {
    ASSIGN_OR_RETURN(overlap, OverlapSinceRead());
  }
  division_ = division;
  skips_ = options.skip;
  next_scales_ = scales_;
  const bool delayed = buffers_.size() > 1;
  if (!options.skip) {
    ++updates_;
    if (memory_.on_host()) {
      UpdateOnHost(sums.elements, options, overlap, target());
    } else {
      RETURN_IF_ERROR(UpdateOnDevice(sums, options, overlap, target()));
    }
    const auto updates = static_cast<std::uint64_t>(updates_);
    if (layout_.basis && updates % boundary_.refreshSteps == 0) {
      RETURN_IF_ERROR(TurnBasisOf(target()));
    }
  } else if (delayed) {
    for (std::size_t i = 0; i < layout_.groups.size(); ++i) {
      const StateBlock &from = newest().masters()[i], &to = target().masters()[i];
      memory_.Compute({.reads = {from}, .writes = {to}}, [&] { to.numbers.copy_(from.numbers); });
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
    if (p >= weights.size() || weights[p].size() != slot.count * sizeof(float)) {
      return InvalidArgument("the weights of " + slot.name + " have another size");
    }
    RETURN_IF_ERROR(
        EditWeights(target(), slot, StateMemory::Edit::kOverwrite, [&](std::span<float> to) {
          std::memcpy(to.data(), weights[p].data(), to.size_bytes());
          return Status();
        }));
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
  int magnitude_bits = 0;       ///< of the sum, kExact
};

Result<std::vector<double>> ParameterStore::OverlapSinceRead() const {
  if (!layout_.basis || !previous_held_) return std::vector<double>();
  const Operand& operand = layout_.operands[*layout_.basis];
  std::vector<float> bases[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const StateBlock& block = (i == 0 ? previous() : newest()).masters()[operand.group];
    bases[i].resize(static_cast<std::size_t>(block.numbers.numel()));
    RETURN_IF_ERROR(memory_.Read(block, 0, std::as_writable_bytes(std::span(bases[i]))));
  }
  if (bases[0] == bases[1]) return std::vector<double>();
  return Overlap(bases[0], bases[1], static_cast<std::size_t>(operand.shape[0]),
                 static_cast<std::size_t>(operand.shape[1]));
}

void ParameterStore::UpdateOnHost(std::span<const Bytes> sums, const ApplyOptions& options,
                                  std::span<const double> overlap, Weights& to) {
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

optim::UpdateOptions ParameterStore::OptionsOf(const ParameterSlot& slot,
                                               const ApplyOptions& options) const {
  const bool decays = slot.decays && (optimizer_.decayEmbeddings || slot.role != Role::kTable);
  return {options.learning_rate * slot.rate,
          optimizer_.beta1,
          optimizer_.beta2,
          optimizer_.epsilon,
          decays ? optimizer_.weightDecay : 0,
          options.clip,
          static_cast<std::uint64_t>(updates_),
          /*by_norm=*/slot.start != Start::kZeros};
}

void ParameterStore::UpdatePiece(const Piece& piece, std::span<const float> gradient,
                                 const ApplyOptions& options, Weights& to) {
  const ParameterSlot& slot = layout_.slots[piece.slot];
  if (slot.name == kBasisName) return GatherPiece(piece, gradient, to);
  const optim::UpdateOptions update = OptionsOf(slot, options);
  const auto part_of = [&](const StateBlock& moments) {
    return moments.empty() ? std::span<float>()
                           : std::span(moments.floats() + piece.offset, piece.count);
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

Status ParameterStore::UpdateOnDevice(const Sums& sums, const ApplyOptions& options,
                                      std::span<const double> overlap, Weights& to) {
  const std::vector<int> exponents =
      exact() ? Exponents(Step(version_.value), options.scale_level) : std::vector<int>();
  const std::uint64_t element = ElementBytes(accumulation_);
  std::vector<Piece> parameters;
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    if (IsOthers(i)) continue;
    Piece parameter{i, 0, slot.count};
    if (!sums.here.empty()) {
      const StateBlock& sum = sums.here[slot.group];
      const at::Tensor gradient = sum.numbers.narrow(0, static_cast<std::int64_t>(slot.offset),
                                                     static_cast<std::int64_t>(slot.count));
      RETURN_IF_ERROR(StepOnDevice(parameter, gradient, sum, options, to));
      continue;
    }
    const Bytes sum = sums.elements[slot.group].Slice(slot.offset * element, slot.count * element);
    if (exact()) parameter.magnitude_bits = MagnitudeBits(sum);
    RETURN_IF_ERROR(
        UpdateOnDevice(parameter, sum, exact() ? exponents[i] : 0, options, overlap, to));
    parameters.push_back(parameter);
  }
  if (exact()) AdvanceScales(parameters, exponents);
  return {};
}

Status ParameterStore::UpdateOnDevice(const Piece& parameter, const Bytes& sum, int exponent,
                                      const ApplyOptions& options, std::span<const double> overlap,
                                      Weights& to) {
  const ParameterSlot& slot = layout_.slots[parameter.slot];
  const Turn turn = overlap.empty() ? nullptr : TurnOfSum(slot);
  // The gradient's floats, where the host needs them.
  std::vector<float> floats;
  if (turn != nullptr || StepsByMuon(slot)) {
    floats.resize(slot.count);
    if (exact()) {
      optim::Dequantize(PartOf<std::int64_t>(sum, 0, slot.count), exponent,
                        parameter.magnitude_bits, floats);
    } else {
      std::memcpy(floats.data(), sum.data(), sum.size());
    }
    if (turn != nullptr) turn(floats, overlap, boundary_.rank, Entries::kAsTheyAre);
    if (StepsByMuon(slot)) return StepByMuon(slot, floats, options, to);
  }
  const at::Tensor gradient = at::empty({static_cast<std::int64_t>(slot.count)},
                                        at::TensorOptions(device_).dtype(at::kFloat));
  Status status;
  const auto take = [&](std::int64_t first, const at::Tensor& some) {
    const auto count = static_cast<std::size_t>(some.numel());
    if (some.scalar_type() == at::kFloat) {
      gradient.narrow(0, first, some.numel()).copy_(some);
    } else if (status.ok()) {
      status = kernels_->Dequantize({some.const_data_ptr<std::int64_t>(), count}, exponent,
                                    {gradient.mutable_data_ptr<float>() + first, count});
    }
  };
  if (!floats.empty()) {
    const std::span<const float> all(floats);
    RETURN_IF_ERROR(
        memory_.Bring(Bytes::Wrap(all.data(), all.size_bytes(), nullptr), at::kFloat, {}, take));
  } else {
    RETURN_IF_ERROR(memory_.Bring(sum, exact() ? at::kLong : at::kFloat, {}, take));
  }
  RETURN_IF_ERROR(status);
  return StepOnDevice(parameter, gradient, {}, options, to);
}

Status ParameterStore::StepOnDevice(const Piece& parameter, const at::Tensor& gradient,
                                    const StateBlock& of, const ApplyOptions& options,
                                    Weights& to) {
  const ParameterSlot& slot = layout_.slots[parameter.slot];
  const StateBlock &from = newest().masters()[slot.group], &into = to.masters()[slot.group];
  const StateBlock &first = first_moments_[parameter.slot],
                   &second = second_moments_[parameter.slot];
  StateAccess access{.reads = {from}, .writes = {into, first}};
  if (!second.empty()) access.writes.push_back(second);
  if (!of.empty()) access.reads.push_back(of);
  Status status;
  memory_.Compute(access, [&] {
    if (slot.name == kBasisName) {
      first.numbers.add_(gradient);
      if (&to != &newest()) into.numbers.copy_(from.numbers);
      return;
    }
    status = kernels_->Step(optimizer_.type, OptionsOf(slot, options),
                            {{from.floats() + slot.offset, slot.count},
                             {gradient.const_data_ptr<float>(), slot.count},
                             {first.floats(), slot.count},
                             {second.floats(), slot.count},
                             {into.floats() + slot.offset, slot.count}});
  });
  return status;
}

Status ParameterStore::StepByMuon(const ParameterSlot& slot, std::span<const float> gradient,
                                  const ApplyOptions& options, Weights& to) {
  const auto index = static_cast<std::size_t>(&slot - layout_.slots.data());
  std::vector<float> weights(slot.count);
  RETURN_IF_ERROR(memory_.Read(newest().masters()[slot.group],
                               static_cast<std::int64_t>(slot.offset),
                               std::as_writable_bytes(std::span(weights))));
  RETURN_IF_ERROR(EditMoments(first_moments_[index], StateMemory::Edit::kChange,
                              [&](std::span<float> momentum) {
                                optim::UpdateMuon(OptionsOf(slot, options), optimizer_.momentum,
                                                  {weights, gradient, momentum, {}, weights},
                                                  static_cast<std::size_t>(slot.shape[0]),
                                                  static_cast<std::size_t>(slot.shape[1]), ForEach);
                                return Status();
                              }));
  return memory_.Write(weights, to.masters()[slot.group], static_cast<std::int64_t>(slot.offset));
}

void ParameterStore::GatherPiece(const Piece& piece, std::span<const float> statistic,
                                 Weights& to) {
  const ParameterSlot& slot = layout_.slots[piece.slot];
  const std::span gathered(first_moments_[piece.slot].floats() + piece.offset, piece.count);
  for (std::size_t i = 0; i < gathered.size(); ++i) gathered[i] += statistic[i];
  if (&to == &newest()) return;
  const std::uint64_t begin = slot.offset + piece.offset;
  std::ranges::copy(std::as_const(newest()).group(slot.group).subspan(begin, piece.count),
                    to.group(slot.group).subspan(begin, piece.count).begin());
}

Status ParameterStore::TurnBasisOf(Weights& to) {
  const Operand& operand = layout_.operands[*layout_.basis];
  const ParameterSlot& slot_of_basis = layout_.slots.back();
  const auto rows = static_cast<std::size_t>(operand.shape[0]);
  const auto rank = static_cast<std::size_t>(operand.shape[1]);
  using Edit = StateMemory::Edit;
  std::vector<double> overlap;
  const auto turn_basis = [&](std::span<float> basis, std::span<float> gathered) {
    const std::vector<float> turned = TurnBasis(basis, gathered, boundary_.refreshRate, rows, rank);
    overlap = Overlap(basis, turned, rows, rank);
    std::ranges::copy(turned, basis.begin());
    std::ranges::fill(gathered, 0.0F);
    return Status();
  };
  RETURN_IF_ERROR(EditMoments(first_moments_.back(), Edit::kChange, [&](std::span<float> gathered) {
    return EditWeights(to, slot_of_basis, Edit::kChange,
                       [&](std::span<float> basis) { return turn_basis(basis, gathered); });
  }));
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    const Turn turn = TurnOf(slot);
    if (turn == nullptr) continue;
    if (IsOthers(i)) continue;
    const auto turned = [&](Entries entries) {
      return [&, entries](std::span<float> numbers) {
        turn(numbers, overlap, rank, entries);
        return Status();
      };
    };
    RETURN_IF_ERROR(EditWeights(to, slot, Edit::kChange, turned(Entries::kAsTheyAre)));
    RETURN_IF_ERROR(EditMoments(first_moments_[i], Edit::kChange, turned(Entries::kAsTheyAre)));
    if (StepsByMuon(slot)) continue;
    RETURN_IF_ERROR(EditMoments(second_moments_[i], Edit::kChange, turned(Entries::kSquared)));
  }
  return {};
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
