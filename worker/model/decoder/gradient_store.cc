#include "worker/model/decoder/gradient_store.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "worker/optim/fixed_point.h"

namespace swarm::model {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  ///< elements that a thread takes at once

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

}  // namespace

GradientStore::GradientStore(const Layout& layout, at::Device device,
                             api::Accumulation accumulation, std::uint64_t microbatches,
                             StateMemory& memory)
    : layout_(layout),
      memory_(memory),
      device_(device),
      accumulation_(accumulation),
      contribution_bits_(optim::ContributionBits(microbatches)),
      kernels_(MakeStateKernels(device)) {}

void GradientStore::Put(const TaskKey& key, MicrobatchGradients gradients) {
  waiting_.insert_or_assign(key, Waiting{std::move(gradients), {}});
}

Status GradientStore::Fold(const TaskKey& key, const std::vector<int>& exponents) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    return NotFound("fold: no gradients of microbatch " + std::to_string(key.microbatch.value) +
                    " of step " + std::to_string(key.step.value) + " wait here");
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

Result<const std::vector<GradientStore::Part>*> GradientStore::MeasuredParts(
    Waiting& waiting) const {
  if (waiting.parts.empty()) {
    waiting.parts = PartsOf(waiting.gradients);
    Measure(waiting.parts);
  } else if (waiting.largest.valid()) {
    const Result<Bytes> largest = std::exchange(waiting.largest, {}).get();
    if (!largest.ok()) return largest.status();
    TakeLargest(*largest, waiting.parts);
  }
  return &waiting.parts;
}

std::optional<GradientStore::Measurement> GradientStore::Measure(
    const TaskKey& key, const std::vector<int>& exponents) {
  const auto found = waiting_.find(key);
  if (!exact() || memory_.on_host() || found == waiting_.end()) return {};
  Waiting& waiting = found->second;
  waiting.parts = PartsOf(waiting.gradients);
  if (waiting.parts.empty()) return {};
  std::vector<at::Tensor> largest;
  std::vector<Part> parts;  // without their values, which wait here
  for (const Part& part : waiting.parts) {
    largest.push_back(part.values.abs().max());  // NaN where there is one
    parts.push_back({part.slot, {}, {}});
  }
  const auto promise = std::make_shared<std::promise<Result<Bytes>>>();
  waiting.largest = promise->get_future().share();
  return Measurement{at::stack(largest), [promise, parts, key, exponents, &layout = layout_,
                                          bits = contribution_bits_](const Result<Bytes>& bytes) {
                       promise->set_value(bytes);
                       if (!bytes.ok()) return true;
                       std::vector<Part> measured = parts;
                       TakeLargest(*bytes, measured);
                       return CheckRange(layout, bits, measured, key, exponents).ok();
                     }};
}

void GradientStore::TakeLargest(const Bytes& largest, std::vector<Part>& parts) {
  SWARM_CHECK(largest.size() == parts.size() * sizeof(float), "other parts are measured");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::memcpy(&parts[i].largest, largest.data() + i * sizeof(float), sizeof(float));
  }
}

Status GradientStore::CheckRange(const Layout& layout, int contribution_bits,
                                 const std::vector<Part>& parts, const TaskKey& key,
                                 const std::vector<int>& exponents) {
  for (const Part& part : parts) {
    if (!std::isfinite(part.largest)) return {};  // adds nothing: it makes the step a skip
  }
  for (const Part& part : parts) {
    if (optim::Fits(part.largest, exponents[part.slot], contribution_bits)) continue;
    return {StatusCode::kOutOfRange, layout.slots[part.slot].name + ": microbatch " +
                                         std::to_string(key.microbatch.value) + " of step " +
                                         std::to_string(key.step.value) + " has a gradient of " +
                                         std::to_string(part.largest) + ", out of the range of 2^" +
                                         std::to_string(contribution_bits - exponents[part.slot]) +
                                         "; repeat the step at a higher scale level"};
  }
  return {};
}

bool GradientStore::Fits(const TaskKey& key, const std::vector<int>& exponents) {
  const auto found = waiting_.find(key);
  if (!exact() || found == waiting_.end()) return true;
  const auto parts = MeasuredParts(found->second);
  return !parts.ok() || CheckRange(**parts, key, exponents).ok();
}

Status GradientStore::FoldIntegers(Waiting& waiting, const TaskKey& key,
                                   const std::vector<int>& exponents) {
  ASSIGN_OR_RETURN(const std::vector<Part>* measured, MeasuredParts(waiting));
  const std::vector<Part>& parts = *measured;
  RETURN_IF_ERROR(CheckRange(parts, key, exponents));
  if (!std::ranges::all_of(parts, [](const Part& part) { return std::isfinite(part.largest); })) {
    Open(key.step).finite = false;
    return {};
  }
  const Accumulator& accumulator = OpenToWrite(key.step);
  memory_.Compute({.reads = {}, .writes = accumulator.sums}, [&] {
    for (const Part& part : parts) {
      const ParameterSlot& slot = layout_.slots[part.slot];
      AddQuantized(
          part, exponents[part.slot],
          accumulator.sums[slot.group].numbers.narrow(0, static_cast<std::int64_t>(slot.offset),
                                                      static_cast<std::int64_t>(slot.count)));
    }
  });
  return {};
}

Status GradientStore::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) {
  const auto type = exact() ? at::kLong : at::kFloat;
  const std::uint64_t count = layout_.groups.at(group).count;
  if (elements.size() != count * at::elementSize(type)) {
    return InvalidArgument("a sum of " + std::to_string(elements.size()) +
                           " bytes for a group of " + std::to_string(count) + " elements");
  }
  Accumulator& accumulator = OpenToWrite(step);
  accumulator.finite = accumulator.finite && finite;
  const StateBlock& sum = accumulator.sums[group];
  return memory_.Bring(elements, type, {.reads = {}, .writes = {sum}},
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

void GradientStore::Measure(std::vector<Part>& parts) const {
  for (Part& part : parts) {
    const std::span<const float> values = Floats(part.values);
    part.largest = at::parallel_reduce(
        0, part.values.numel(), kGrain, 0.0F,
        [&](std::int64_t begin, std::int64_t end, float) {
          return optim::LargestMagnitude(values.subspan(static_cast<std::size_t>(begin),
                                                        static_cast<std::size_t>(end - begin)));
        },
        [](float a, float b) {
          const float pair[] = {a, b};
          return optim::LargestMagnitude(pair);
        });
  }
}

void GradientStore::AddQuantized(const Part& part, int exponent, const at::Tensor& sum) const {
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
  if (rows == 0) {
    at::parallel_for(0, part.values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto first = static_cast<std::size_t>(begin);
      const auto count = static_cast<std::size_t>(end - begin);
      optim::AddQuantized(values.subspan(first, count), exponent, part.largest,
                          to.subspan(first, count));
    });
    return;
  }
  const std::size_t width = values.size() / static_cast<std::size_t>(rows);
  const auto* ids = part.rows.const_data_ptr<std::int64_t>();
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      optim::AddQuantized(values.subspan(static_cast<std::size_t>(i) * width, width), exponent,
                          part.largest,
                          to.subspan(static_cast<std::size_t>(ids[i]) * width, width));
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
  }
  return accumulator;
}

std::function<Result<GradientSum>()> GradientStore::BeginSum(Step step, std::uint64_t group,
                                                             const std::vector<int>& exponents) {
  Accumulator& accumulator = Open(step);
  accumulator.lent[group] = true;
  const StateBlock& sum = accumulator.sums[group];
  GradientSum result{
      .elements = {},
      .type = exact() ? checkpoint::ElementType::kI64 : checkpoint::ElementType::kF32,
      .exponents = {},
      .finite = accumulator.finite};
  for (std::size_t s = 0; exact() && s < layout_.slots.size(); ++s) {
    if (layout_.slots[s].group == group) result.exponents.push_back(exponents[s]);
  }
  if (memory_.on_host()) {
    result.elements = Bytes::Wrap(sum.numbers.const_data_ptr(), sum.numbers.nbytes(),
                                  std::make_shared<const at::Tensor>(sum.numbers));
    return [result] { return result; };
  }
  return [this, sum = StateBlock(sum), behind = memory_.Record(),
          result]() mutable -> Result<GradientSum> {
    const std::size_t bytes = sum.numbers.nbytes();
    const std::shared_ptr<std::byte[]> copy = copies_.Take(bytes);
    RETURN_IF_ERROR(memory_.ReadBehind(behind, sum, 0, {copy.get(), bytes}));
    sum = {};
    result.elements = Bytes::Wrap(copy.get(), bytes, copy);
    return result;
  };
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
