#include "worker/model/decoder/gradient_store.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/rng.h"
#include "worker/checkpoint/pieces.h"
#include "worker/model/task_text.h"
#include "worker/optim/fixed_point.h"

namespace swarm::model {
namespace {

at::Tensor ViewOf(const std::vector<StateBlock>& groups, const Operand& operand) {
  return groups[operand.group]
      .numbers
      .narrow(0, static_cast<std::int64_t>(operand.offset),
              static_cast<std::int64_t>(operand.count()))
      .view(operand.shape);
}

std::span<const float> Floats(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// A number of a tensor's bits, int64, where the tensor is: their sum with odd weights, of
/// integers, so that it does not depend on the order. A change of one element always changes it.
at::Tensor ChecksumOf(const at::Tensor& values) {
  constexpr std::int64_t kAtOnce = 1 << 24;  // bounds the memory that this takes
  const at::Tensor bits = values.view(at::kInt);
  at::Tensor sum = at::zeros({}, bits.options().dtype(at::kLong));
  for (std::int64_t begin = 0; begin < bits.numel(); begin += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, bits.numel() - begin);
    const at::Tensor weights =
        at::arange(begin, begin + count, sum.options()).mul_(2).add_(1).mul_(0x2545f4914f6cdd1d);
    sum.add_(bits.narrow(0, begin, count).to(at::kLong).mul_(weights).sum());
  }
  return sum;
}

}  // namespace

GradientStore::GradientStore(const Layout& layout, at::Device device,
                             api::Accumulation accumulation, std::uint64_t microbatches,
                             bool audited, StateMemory& memory)
    : layout_(layout),
      memory_(memory),
      device_(device),
      accumulation_(accumulation),
      contribution_bits_(optim::ContributionBits(microbatches)),
      audited_(audited),
      kernels_(MakeStateKernels(device)) {
  if (memory.on_host() || exact()) return;
  const bool has_pieces = std::ranges::any_of(layout.groups, [](const ParameterGroup& group) {
    return group.count * sizeof(float) >= checkpoint::kPieceBytes;
  });
  if (has_pieces) digests_ = std::make_unique<PieceDigests>(memory, *kernels_);
  std::size_t most = 1;
  for (const ParameterSlot& slot : layout.slots) {
    most = std::max(most, kernels_->NormNumbers(slot.count));
  }
  const auto zeros = [&](std::size_t count) {
    return memory.Zeros(static_cast<std::int64_t>(count), at::kDouble, StateMemory::Term::kLong);
  };
  norms_ = zeros(layout.slots.size());
  squares_ = zeros(most);
}

void GradientStore::Put(const TaskKey& key, MicrobatchGradients gradients) {
  waiting_.insert_or_assign(key, Waiting{std::move(gradients)});
}

Status GradientStore::Fold(const TaskKey& key, const std::vector<int>& exponents) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    return NotFound("fold: no gradients of " + TaskText(key) + " wait here");
  }
  if (exact()) {
    RETURN_IF_ERROR(FoldIntegers(found->second, key, exponents));
  } else {
    const Accumulator& accumulator = OpenToWrite(key.step);
    memory_.Compute({.reads = {}, .writes = accumulator.sums},
                    [&] { FoldFloats(found->second.gradients, accumulator); });
  }
  waiting_.erase(found);
  return {};
}

void GradientStore::FoldFloats(const MicrobatchGradients& gradients,
                               const Accumulator& accumulator) const {
  for (std::size_t i = 0; i < layout_.operands.size(); ++i) {
    if (!gradients.operands[i].defined()) continue;
    ViewOf(accumulator.sums, layout_.operands[i]).add_(gradients.operands[i]);
  }
  TokenOrder order;
  for (std::size_t i = 0; i < layout_.tables.size(); ++i) {
    if (!gradients.rows[i].defined()) continue;
    const at::Tensor table = ViewOf(accumulator.sums, layout_.tables[i]);
    if (memory_.on_host()) {
      table.index_add_(0, gradients.tokens, gradients.rows[i]);
      continue;
    }
    if (!order.ids.defined()) order = OrderByToken(gradients.tokens);
    AddRows(gradients.rows[i], order, order.ids, table);
  }
}

GradientStore::TokenOrder GradientStore::OrderByToken(const at::Tensor& tokens) const {
  const std::span ids(tokens.const_data_ptr<std::int64_t>(),
                      static_cast<std::size_t>(tokens.numel()));
  std::vector<std::int32_t> order(ids.size()), begins;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, {}, [&](std::int32_t position) { return ids[static_cast<std::size_t>(position)]; });
  std::vector<std::int64_t> distinct;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(order[i])];
    if (!distinct.empty() && distinct.back() == id) continue;
    distinct.push_back(id);
    begins.push_back(static_cast<std::int32_t>(i));
  }
  begins.push_back(static_cast<std::int32_t>(order.size()));
  return {Place(at::tensor(distinct, at::kLong)), Place(at::tensor(order, at::kInt)),
          Place(at::tensor(begins, at::kInt))};
}

void GradientStore::AddRows(const at::Tensor& rows, const TokenOrder& order, const at::Tensor& ids,
                            const at::Tensor& table) const {
  const at::Tensor values = rows.to(at::kFloat).contiguous();
  const Status added = kernels_->AddRows(
      {{ids.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(ids.numel())},
       static_cast<std::size_t>(values.size(1)),
       values.const_data_ptr<float>(),
       order.order.const_data_ptr<std::int32_t>(),
       order.begins.const_data_ptr<std::int32_t>()},
      table.mutable_data_ptr<float>());
  TORCH_CHECK(added.ok(), added.message());
}

at::Tensor GradientStore::Place(const at::Tensor& on_host) const {
  if (memory_.on_host()) return on_host;
  const at::Tensor tensor = at::empty(on_host.sizes(), on_host.options().device(device_));
  const Bytes bytes = Bytes::Wrap(on_host.const_data_ptr(), on_host.nbytes(), nullptr);
  const Status placed = memory_.Bring(bytes, on_host.scalar_type(), {},
                                      [&](std::int64_t first, const at::Tensor& some) {
                                        tensor.narrow(0, first, some.numel()).copy_(some);
                                      });
  TORCH_CHECK(placed.ok(), placed.message());
  return tensor;
}

Status GradientStore::AwaitMagnitudes(Waiting& waiting) const {
  if (waiting.parts.empty()) {
    waiting.parts = PartsOf(waiting.gradients);
    waiting.magnitudes = MagnitudesOf(waiting.parts);
    for (std::size_t i = 0; i < waiting.parts.size(); ++i) {
      waiting.magnitudes[i].largest = LargestOf(Floats(waiting.parts[i].values));
    }
  } else if (waiting.largest.valid()) {
    const Result<Bytes> largest = std::exchange(waiting.largest, {}).get();
    if (!largest.ok()) return largest.status();
    TakeLargest(*largest, waiting.magnitudes);
  }
  return {};
}

std::optional<GradientStore::Measurement> GradientStore::Measure(
    const TaskKey& key, const std::vector<int>& exponents) {
  const auto found = waiting_.find(key);
  if (!exact() || memory_.on_host() || found == waiting_.end()) return {};
  Waiting& waiting = found->second;
  waiting.parts = PartsOf(waiting.gradients);
  if (waiting.parts.empty()) return {};
  waiting.magnitudes = MagnitudesOf(waiting.parts);
  std::vector<at::Tensor> largest, checksums;
  for (const Part& part : waiting.parts) {
    largest.push_back(part.values.abs().max());  // NaN where there is one
    if (audited_) checksums.push_back(ChecksumOf(part.values));
  }
  at::Tensor numbers = at::stack(largest);
  if (audited_) numbers = at::cat({numbers, at::stack(checksums).view(at::kFloat)});
  const auto promise = std::make_shared<std::promise<Result<Bytes>>>();
  waiting.largest = promise->get_future().share();
  return Measurement{
      numbers, [promise, magnitudes = waiting.magnitudes, key, exponents, &slots = layout_.slots,
                bits = contribution_bits_](const Result<Bytes>& bytes) {
        const std::size_t size = magnitudes.size() * sizeof(float);
        promise->set_value(bytes.ok() ? Result<Bytes>(bytes->Slice(0, size)) : bytes);
        if (!bytes.ok()) return Measured();
        std::vector<Magnitude> measured = magnitudes;
        TakeLargest(bytes->Slice(0, size), measured);
        const Bytes rest = bytes->Slice(size, bytes->size() - size);
        return Measured{CheckRange(measured, key, slots, exponents, bits).ok(),
                        rest.empty() ? 0 : ComputeDigest(rest.span()).low};
      }};
}

std::vector<Magnitude> GradientStore::MagnitudesOf(const std::vector<Part>& parts) {
  std::vector<Magnitude> magnitudes;
  for (const Part& part : parts) magnitudes.push_back({.slot = part.slot});
  return magnitudes;
}

void GradientStore::TakeLargest(const Bytes& largest, std::vector<Magnitude>& magnitudes) {
  SWARM_CHECK(largest.size() == magnitudes.size() * sizeof(float), "other parts are measured");
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    std::memcpy(&magnitudes[i].largest, largest.data() + i * sizeof(float), sizeof(float));
  }
}

GradientStore::Measured GradientStore::MeasureHere(const TaskKey& key,
                                                   const std::vector<int>& exponents) {
  const auto found = waiting_.find(key);
  if (!exact() || found == waiting_.end()) return {};
  Waiting& waiting = found->second;
  if (!AwaitMagnitudes(waiting).ok()) return {};
  Measured measured;
  measured.fits =
      CheckRange(waiting.magnitudes, key, layout_.slots, exponents, contribution_bits_).ok();
  for (const Part& part : waiting.parts) {
    if (!audited_) break;
    const Digest digest = ComputeDigest(std::as_bytes(Floats(part.values)));
    measured.digest = MixAll(measured.digest, part.slot, digest.low);
  }
  return measured;
}

Status GradientStore::FoldIntegers(Waiting& waiting, const TaskKey& key,
                                   const std::vector<int>& exponents) {
  RETURN_IF_ERROR(AwaitMagnitudes(waiting));
  RETURN_IF_ERROR(
      CheckRange(waiting.magnitudes, key, layout_.slots, exponents, contribution_bits_));
  if (!AllFinite(waiting.magnitudes)) {
    Open(key.step).finite = false;
    return {};
  }
  const Accumulator& accumulator = OpenToWrite(key.step);
  memory_.Compute({.reads = {}, .writes = accumulator.sums}, [&] {
    for (std::size_t i = 0; i < waiting.parts.size(); ++i) {
      const Part& part = waiting.parts[i];
      const ParameterSlot& slot = layout_.slots[part.slot];
      AddPart(part, exponents[part.slot], waiting.magnitudes[i].largest,
              accumulator.sums[slot.group].numbers.narrow(0, static_cast<std::int64_t>(slot.offset),
                                                          static_cast<std::int64_t>(slot.count)));
    }
  });
  return {};
}

Status GradientStore::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) {
  RETURN_IF_ERROR(CheckSum(elements, layout_.groups.at(group), accumulation_));
  Accumulator& accumulator = OpenToWrite(step);
  accumulator.finite = accumulator.finite && finite;
  const StateBlock& sum = accumulator.sums[group];
  return memory_.Bring(elements, exact() ? at::kLong : at::kFloat, {.reads = {}, .writes = {sum}},
                       [&](std::int64_t first, const at::Tensor& some) {
                         sum.numbers.narrow(0, first, some.numel()).add_(some);
                       });
}

std::vector<GradientStore::Part> GradientStore::PartsOf(
    const MicrobatchGradients& gradients) const {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < layout_.operands.size(); ++i) {
    const Operand& operand = layout_.operands[i];
    if (!gradients.operands[i].defined()) continue;
    const at::Tensor flat = gradients.operands[i].to(at::kFloat).contiguous().view(-1);
    for (std::size_t s = 0; s < layout_.slots.size(); ++s) {
      const ParameterSlot& slot = layout_.slots[s];
      if (slot.group != operand.group || slot.offset < operand.offset ||
          slot.offset >= operand.offset + operand.count()) {
        continue;
      }
      parts.push_back({s,
                       flat.narrow(0, static_cast<std::int64_t>(slot.offset - operand.offset),
                                   static_cast<std::int64_t>(slot.count)),
                       {}});
    }
  }
  TokenOrder order;
  for (std::size_t i = 0; i < layout_.tables.size(); ++i) {
    const Operand& table = layout_.tables[i];
    if (!gradients.rows[i].defined()) continue;
    const auto slot = std::ranges::find_if(layout_.slots, [&](const ParameterSlot& candidate) {
      return candidate.group == table.group && candidate.offset == table.offset;
    });
    if (!order.ids.defined()) order = OrderByToken(gradients.tokens);
    const std::int64_t distinct = order.ids.numel();
    const at::Tensor sums = at::zeros({distinct, gradients.rows[i].size(1)},
                                      at::TensorOptions(device_).dtype(at::kFloat));
    const at::Tensor rows_of_sums = at::arange(distinct, order.ids.options());
    AddRows(gradients.rows[i], order, rows_of_sums, sums);
    parts.push_back(
        {static_cast<std::size_t>(slot - layout_.slots.begin()), sums.view(-1), order.ids});
  }
  return parts;
}

void GradientStore::AddPart(const Part& part, int exponent, float largest,
                            const at::Tensor& sum) const {
  if (!part.values.is_cpu()) {
    at::Tensor q = (part.values.to(at::kDouble) * std::ldexp(1.0, exponent)).round_().to(at::kLong);
    if (!part.rows.defined()) {
      sum.add_(q);
      return;
    }
    q = q.view({part.rows.numel(), -1});
    sum.view({-1, q.size(1)}).index_add_(0, part.rows, q);
    return;
  }
  const std::span<const float> values = Floats(part.values);
  const std::span to(sum.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(sum.numel()));
  const std::int64_t rows = part.rows.defined() ? part.rows.numel() : 0;
  if (rows == 0) return AddQuantized(values, exponent, largest, to);
  const std::size_t width = values.size() / static_cast<std::size_t>(rows);
  const auto* ids = part.rows.const_data_ptr<std::int64_t>();
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      optim::AddQuantized(values.subspan(static_cast<std::size_t>(i) * width, width), exponent,
                          largest, to.subspan(static_cast<std::size_t>(ids[i]) * width, width));
    }
  });
}

GradientStore::Accumulator& GradientStore::Open(Step step) {
  const auto found = accumulators_.find(step);
  if (found != accumulators_.end()) return found->second;
  Accumulator accumulator;
  for (const ParameterGroup& group : layout_.groups) {
    accumulator.sums.push_back(memory_.Zeros(static_cast<std::int64_t>(group.count),
                                             exact() ? at::kLong : at::kFloat,
                                             StateMemory::Term::kStep));
    accumulator.lent.push_back(false);
    accumulator.copies.emplace_back();
  }
  return accumulators_.emplace(step, std::move(accumulator)).first->second;
}

GradientStore::Accumulator& GradientStore::OpenToWrite(Step step) {
  Accumulator& accumulator = Open(step);
  for (std::size_t group = 0; group < accumulator.sums.size(); ++group) {
    if (!accumulator.lent[group]) continue;
    const StateBlock lent = accumulator.sums[group];
    const StateBlock own =
        memory_.Zeros(lent.numbers.numel(), lent.numbers.scalar_type(), StateMemory::Term::kStep);
    memory_.Compute({.reads = {lent}, .writes = {own}}, [&] { own.numbers.copy_(lent.numbers); });
    accumulator.sums[group] = own;
    accumulator.lent[group] = false;
    accumulator.copies[group].reset();
  }
  return accumulator;
}

std::function<Result<GradientSum>()> GradientStore::BeginSum(Step step, std::uint64_t group,
                                                             const std::vector<int>& exponents) {
  Accumulator& accumulator = Open(step);
  accumulator.lent[group] = true;
  const StateBlock& sum = accumulator.sums[group];
  GradientSum result =
      SumOfGroup(group, layout_.slots, accumulation_, exponents, accumulator.finite);
  if (memory_.on_host()) {
    result.elements = Bytes::Wrap(sum.numbers.const_data_ptr(), sum.numbers.nbytes(),
                                  std::make_shared<const at::Tensor>(sum.numbers));
    return [result] { return result; };
  }
  const auto owner = std::make_shared<std::shared_ptr<std::byte[]>>();
  accumulator.copies[group] = owner;
  return [this, group, sum = StateBlock(sum), behind = memory_.Record(), owner,
          result]() mutable -> Result<GradientSum> {
    const std::size_t bytes = sum.numbers.nbytes();
    *owner = copies_.Take(bytes);
    RETURN_IF_ERROR(memory_.ReadBehind(behind, sum, 0, {owner->get(), bytes}));
    if (!exact()) {
      ASSIGN_OR_RETURN(result.squared_norms, NormsBehind(behind, sum, group));
    }
    if (digests_ != nullptr) {
      const PieceRun pieces{sum, 0, bytes / checkpoint::kPieceBytes};
      ASSIGN_OR_RETURN(result.piece_digests, digests_->Behind(behind, {&pieces, 1}));
    }
    sum = {};
    result.elements = Bytes::Wrap(owner->get(), bytes, owner);
    return result;
  };
}

std::vector<StateBlock> GradientStore::SumsBehind(Step step, std::span<const Bytes> copies) const {
  const auto found = accumulators_.find(step);
  if (found == accumulators_.end() || copies.size() != found->second.sums.size()) return {};
  for (std::size_t group = 0; group < copies.size(); ++group) {
    const std::shared_ptr<const void> owner = found->second.copies[group].lock();
    if (owner == nullptr || owner != copies[group].owner()) return {};
  }
  return found->second.sums;
}

Result<std::vector<double>> GradientStore::NormsBehind(const device::Event& event,
                                                       const StateBlock& sum, std::uint64_t group) {
  const std::lock_guard lock(measuring_);
  std::vector<std::span<const float>> parts;
  const auto* const floats = sum.numbers.const_data_ptr<float>();
  for (const ParameterSlot& slot : layout_.slots) {
    if (slot.group == group) parts.emplace_back(floats + slot.offset, slot.count);
  }
  // A group without a trained parameter: no read of its norms would await the kernels.
  if (parts.empty()) return std::vector<double>();
  const auto started = std::make_shared<Status>();
  memory_.ComputeBehind(event, {.reads = {sum}, .writes = {norms_, squares_}},
                        [this, parts, started](device::NativeStream stream) {
                          auto* const norms = norms_.numbers.mutable_data_ptr<double>();
                          auto* const squares = squares_.numbers.mutable_data_ptr<double>();
                          for (std::size_t i = 0; i < parts.size() && started->ok(); ++i) {
                            *started = kernels_->SquaredNorm(parts[i], squares, norms + i, stream);
                          }
                        });
  std::vector<double> norms(parts.size());
  RETURN_IF_ERROR(memory_.ReadBehind(event, norms_, 0, std::as_writable_bytes(std::span(norms))));
  RETURN_IF_ERROR(*started);
  return norms;
}

void GradientStore::Release(Step step) {
  std::erase_if(waiting_, [&](const auto& entry) { return entry.first.step == step; });
  accumulators_.erase(step);
}

void GradientStore::Clear() {
  waiting_.clear();
  accumulators_.clear();
}

}  // namespace swarm::model
