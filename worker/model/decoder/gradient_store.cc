#include "worker/model/decoder/gradient_store.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "worker/optim/fixed_point.h"

namespace swarm::model {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  ///< elements that a thread takes at once

at::Tensor ViewOf(const std::vector<at::Tensor>& groups, const Operand& operand) {
  return groups[operand.group]
      .narrow(0, static_cast<std::int64_t>(operand.offset),
              static_cast<std::int64_t>(operand.count()))
      .view(operand.shape);
}

std::span<const float> Floats(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// Which rows of a table a microbatch changes, and by how much.
struct TableRows {
  at::Tensor ids;   ///< [U] int64, ascending
  at::Tensor sums;  ///< [U, D] float32
};

/// Adds the rows of each id in the order of their positions, which is the same on every machine.
TableRows SumByToken(const at::Tensor& tokens, const at::Tensor& gradients) {
  const at::Tensor host_tokens = tokens.to(at::kCPU);
  const at::Tensor rows = gradients.to(at::kCPU, at::kFloat).contiguous();
  const std::span ids(host_tokens.const_data_ptr<std::int64_t>(),
                      static_cast<std::size_t>(host_tokens.numel()));
  const auto width = static_cast<std::size_t>(rows.size(1));
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t position) { return ids[position]; });
  std::vector<std::int64_t> distinct;
  for (const std::size_t position : order) {
    if (distinct.empty() || distinct.back() != ids[position]) distinct.push_back(ids[position]);
  }
  TableRows result{at::tensor(distinct, at::kLong),
                   at::zeros({static_cast<std::int64_t>(distinct.size()), rows.size(1)})};
  const float* from = rows.const_data_ptr<float>();
  float* sum = result.sums.mutable_data_ptr<float>();
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && ids[order[i]] != ids[order[i - 1]]) sum += width;
    const float* row = from + order[i] * width;
    for (std::size_t d = 0; d < width; ++d) sum[d] += row[d];
  }
  return result;
}

}  // namespace

GradientStore::GradientStore(const Layout& layout, at::Device device,
                             api::Accumulation accumulation, std::uint64_t microbatches)
    : layout_(layout),
      device_(device),
      accumulation_(accumulation),
      contribution_bits_(optim::ContributionBits(microbatches)) {}

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
    FoldFloats(found->second.gradients, OpenToWrite(key.step));
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
  for (std::size_t i = 0; i < layout_.tables.size(); ++i) {
    if (!gradients.rows[i].defined()) continue;
    ViewOf(accumulator.sums, layout_.tables[i]).index_add_(0, gradients.tokens, gradients.rows[i]);
  }
}

const std::vector<GradientStore::Part>& GradientStore::MeasuredParts(Waiting& waiting) const {
  if (waiting.parts.empty()) {
    waiting.parts = PartsOf(waiting.gradients);
    Measure(waiting.parts);
  }
  return waiting.parts;
}

Status GradientStore::CheckRange(const std::vector<Part>& parts, const TaskKey& key,
                                 const std::vector<int>& exponents) const {
  for (const Part& part : parts) {
    if (!std::isfinite(part.largest)) return {};  // adds nothing: it makes the step a skip
  }
  for (const Part& part : parts) {
    if (optim::Fits(part.largest, exponents[part.slot], contribution_bits_)) continue;
    return {StatusCode::kOutOfRange, layout_.slots[part.slot].name + ": microbatch " +
                                         std::to_string(key.microbatch.value) + " of step " +
                                         std::to_string(key.step.value) + " has a gradient of " +
                                         std::to_string(part.largest) + ", out of the range of 2^" +
                                         std::to_string(contribution_bits_ - exponents[part.slot]) +
                                         "; repeat the step at a higher scale level"};
  }
  return {};
}

bool GradientStore::Fits(const TaskKey& key, const std::vector<int>& exponents) {
  const auto found = waiting_.find(key);
  if (!exact() || found == waiting_.end()) return true;
  return CheckRange(MeasuredParts(found->second), key, exponents).ok();
}

Status GradientStore::FoldIntegers(Waiting& waiting, const TaskKey& key,
                                   const std::vector<int>& exponents) {
  const std::vector<Part>& parts = MeasuredParts(waiting);
  RETURN_IF_ERROR(CheckRange(parts, key, exponents));
  if (!std::ranges::all_of(parts, [](const Part& part) { return std::isfinite(part.largest); })) {
    Open(key.step).finite = false;
    return {};
  }
  const Accumulator& accumulator = OpenToWrite(key.step);
  for (const Part& part : parts) {
    const ParameterSlot& slot = layout_.slots[part.slot];
    AddQuantized(part, exponents[part.slot],
                 accumulator.sums[slot.group].narrow(0, static_cast<std::int64_t>(slot.offset),
                                                     static_cast<std::int64_t>(slot.count)));
  }
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
  at::Tensor more = at::empty({static_cast<std::int64_t>(count)}, type);
  if (count > 0) std::memcpy(more.mutable_data_ptr(), elements.data(), elements.size());
  accumulator.sums[group].add_(more.to(device_));
  return {};
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
  for (std::size_t i = 0; i < layout_.tables.size(); ++i) {
    const Operand& table = layout_.tables[i];
    if (!gradients.rows[i].defined()) continue;
    const auto slot = std::ranges::find_if(layout_.slots, [&](const ParameterSlot& candidate) {
      return candidate.group == table.group && candidate.offset == table.offset;
    });
    const TableRows rows = SumByToken(gradients.tokens, gradients.rows[i]);
    parts.push_back({static_cast<std::size_t>(slot - layout_.slots.begin()),
                     rows.sums.view(-1).to(device_), rows.ids.to(device_)});
  }
  return parts;
}

void GradientStore::Measure(std::vector<Part>& parts) const {
  for (Part& part : parts) {
    if (!part.values.is_cpu()) {
      part.largest = part.values.abs().max().item<float>();  // NaN where there is one
      continue;
    }
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
    accumulator.sums.push_back(
        at::zeros({static_cast<std::int64_t>(group.count)},
                  at::TensorOptions(device_).dtype(exact() ? at::kLong : at::kFloat)));
    accumulator.lent.push_back(false);
  }
  return accumulators_.emplace(step, std::move(accumulator)).first->second;
}

GradientStore::Accumulator& GradientStore::OpenToWrite(Step step) {
  Accumulator& accumulator = Open(step);
  for (std::size_t group = 0; group < accumulator.sums.size(); ++group) {
    if (!accumulator.lent[group]) continue;
    accumulator.sums[group] = accumulator.sums[group].clone();
    accumulator.lent[group] = false;
  }
  return accumulator;
}

GradientSum GradientStore::Sum(Step step, std::uint64_t group, const std::vector<int>& exponents) {
  Accumulator& accumulator = Open(step);
  const at::Tensor& sum = accumulator.sums[group];
  const auto host = std::make_shared<at::Tensor>(sum.to(at::kCPU));  // `sum` itself if it is there
  accumulator.lent[group] = host->is_alias_of(sum);
  GradientSum result{
      .elements = Bytes::Wrap(host->const_data_ptr(), host->nbytes(), host),
      .type = exact() ? checkpoint::ElementType::kI64 : checkpoint::ElementType::kF32,
      .exponents = {},
      .finite = accumulator.finite};
  for (std::size_t s = 0; exact() && s < layout_.slots.size(); ++s) {
    if (layout_.slots[s].group == group) result.exponents.push_back(exponents[s]);
  }
  return result;
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
