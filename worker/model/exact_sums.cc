#include "worker/model/exact_sums.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "worker/model/task_text.h"
#include "worker/optim/fixed_point.h"

namespace swarm::model {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  ///< elements that a thread takes at once

template <typename T>
std::span<T> Between(std::span<T> values, std::int64_t begin, std::int64_t end) {
  return values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace

float LargestOf(std::span<const float> values) {
  return at::parallel_reduce(
      0, std::ssize(values), kGrain, 0.0F,
      [&](std::int64_t begin, std::int64_t end, float) {
        return optim::LargestMagnitude(Between(values, begin, end));
      },
      [](float a, float b) {
        const float pair[] = {a, b};
        return optim::LargestMagnitude(pair);
      });
}

void AddQuantized(std::span<const float> values, int exponent, float largest,
                  std::span<std::int64_t> sum) {
  at::parallel_for(0, std::ssize(values), kGrain, [&](std::int64_t begin, std::int64_t end) {
    optim::AddQuantized(Between(values, begin, end), exponent, largest, Between(sum, begin, end));
  });
}

bool AllFinite(std::span<const Magnitude> contribution) {
  return std::ranges::all_of(contribution,
                             [](const Magnitude& part) { return std::isfinite(part.largest); });
}

Status CheckRange(std::span<const Magnitude> contribution, const TaskKey& key,
                  std::span<const ParameterSlot> slots, std::span<const int> exponents,
                  int contribution_bits) {
  if (!AllFinite(contribution)) return {};
  for (const Magnitude& part : contribution) {
    const int exponent = exponents[part.slot];
    if (optim::Fits(part.largest, exponent, contribution_bits)) continue;
    return {StatusCode::kOutOfRange, slots[part.slot].name + ": " + TaskText(key) +
                                         " has a gradient of " + std::to_string(part.largest) +
                                         ", out of the range of 2^" +
                                         std::to_string(contribution_bits - exponent) +
                                         "; repeat the step at a higher scale level"};
  }
  return {};
}

ScaleLevels::ScaleLevels(api::Accumulation accumulation)
    : most_(accumulation == api::Accumulation::kExact ? optim::kScaleLevelMax : 0) {}

Status ScaleLevels::Set(Step step, unsigned level) {
  if (level > most_) {
    return InvalidArgument("scale level " + std::to_string(level) + ": the highest is " +
                           std::to_string(most_));
  }
  if (level == 0) {
    levels_.erase(step);
  } else {
    levels_[step] = level;
  }
  return {};
}

unsigned ScaleLevels::Of(Step step) const {
  const auto found = levels_.find(step);
  return found == levels_.end() ? 0 : found->second;
}

std::uint64_t ElementBytes(api::Accumulation accumulation) {
  return accumulation == api::Accumulation::kExact ? sizeof(std::int64_t) : sizeof(float);
}

Status CheckSum(const Bytes& elements, const ParameterGroup& group,
                api::Accumulation accumulation) {
  if (elements.size() == group.count * ElementBytes(accumulation)) return {};
  return InvalidArgument("a sum of " + std::to_string(elements.size()) + " bytes for a group of " +
                         std::to_string(group.count) + " elements");
}

Status CheckSums(std::span<const Bytes> sums, std::span<const ParameterGroup> groups,
                 api::Accumulation accumulation) {
  const std::uint64_t element = ElementBytes(accumulation);
  const bool fits =
      std::ranges::equal(sums, groups, {}, &Bytes::size,
                         [&](const ParameterGroup& group) { return group.count * element; });
  if (fits) return {};
  return InvalidArgument("apply: the sums are not those of this stage's groups");
}

GradientSum SumOfGroup(std::uint64_t group, std::span<const ParameterSlot> slots,
                       api::Accumulation accumulation, std::span<const int> exponents,
                       bool finite) {
  const bool exact = accumulation == api::Accumulation::kExact;
  GradientSum sum{.elements = {},
                  .type = exact ? checkpoint::ElementType::kI64 : checkpoint::ElementType::kF32,
                  .exponents = {},
                  .finite = finite};
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    if (slots[i].group == group) sum.exponents.push_back(exponents[i]);
  }
  return sum;
}

}  // namespace swarm::model
