#include "worker/model/swap/step_sums.h"

#include <algorithm>
#include <utility>

#include "worker/optim/fixed_point.h"

namespace swarm::model {

Status StepSums::Take(const Segment::Range& range, const Bytes& floats, Transit* leaving,
                      Contribution* contribution) const {
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const ParameterSlot& slot = layout_.slots[i];
    if (slot.group != range.group || slot.offset < range.offset ||
        slot.offset >= range.offset + range.count) {
      continue;
    }
    const Bytes part =
        floats.Slice((slot.offset - range.offset) * sizeof(float), slot.count * sizeof(float));
    if (exact()) contribution->magnitudes.push_back({i, LargestOf(FloatsOf(part))});
    ASSIGN_OR_RETURN(TierSum* const sum, SumFor(slot, contribution));
    RETURN_IF_ERROR(sum->Add(slot.offset, part, leaving));
  }
  return {};
}

Result<TierSum*> StepSums::SumFor(const ParameterSlot& slot, Contribution* contribution) const {
  for (TierSum& sum : contribution->sums) {
    if (sum.group() == slot.group && !(exact() && sum.Holds(slot.offset))) return &sum;
  }
  ASSIGN_OR_RETURN(TierSum sum,
                   TierSum::Make(space_, layout_.slots, slot.group, TierSum::Element::kFloat));
  contribution->sums.push_back(std::move(sum));
  return &contribution->sums.back();
}

Status StepSums::Add(Contribution contribution, Step step, std::span<const int> exponents) {
  Sums& of_step = steps_[step];
  if (!exact() && of_step.groups.empty()) {
    std::ranges::sort(contribution.sums, {}, &TierSum::group);
    of_step.groups = std::move(contribution.sums);
    return {};
  }
  ASSIGN_OR_RETURN(Sums* const sums, Open(step));
  std::map<std::size_t, float> largest;
  for (const Magnitude& magnitude : contribution.magnitudes) {
    float& of_slot = largest[magnitude.slot];
    of_slot = std::max(of_slot, magnitude.largest);
  }
  for (const TierSum& floats : contribution.sums) {
    TierSum& sum = sums->groups[floats.group()];
    for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
      const std::uint64_t offset = layout_.slots[i].offset;
      if (layout_.slots[i].group != floats.group() || !floats.Holds(offset)) continue;
      RETURN_IF_ERROR(exact() ? sum.AddQuantized(offset, floats, exponents[i], largest[i])
                              : sum.Add(offset, floats));
    }
  }
  return {};
}

Status StepSums::Make(Sums* sums) const {
  if (!sums->groups.empty()) return {};
  const auto element = exact() ? TierSum::Element::kInteger : TierSum::Element::kFloat;
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    ASSIGN_OR_RETURN(TierSum sum, TierSum::Make(space_, layout_.slots, g, element));
    sums->groups.push_back(std::move(sum));
  }
  return {};
}

Result<StepSums::Sums*> StepSums::Open(Step step) {
  Sums& sums = steps_[step];
  RETURN_IF_ERROR(Make(&sums));
  for (TierSum& sum : sums.groups) {
    if (!sum.IsShown()) continue;
    ASSIGN_OR_RETURN(sum, sum.Copy());
  }
  return &sums;
}

Status StepSums::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) {
  RETURN_IF_ERROR(CheckSum(elements, layout_.groups.at(group), accumulation_));
  ASSIGN_OR_RETURN(Sums* const sums, Open(step));
  sums->finite = sums->finite && finite;
  return sums->groups[group].AddAll(elements.span());
}

std::function<Result<GradientSum>()> StepSums::BeginRead(Step step, std::uint64_t group,
                                                         std::span<const int> exponents) {
  Sums& sums = steps_[step];
  const auto read = [&]() -> Result<TierSum::Read> {
    RETURN_IF_ERROR(Make(&sums));
    return sums.groups.at(group).BeginShow();
  }();
  if (!read.ok()) return [status = read.status()]() -> Result<GradientSum> { return status; };
  const GradientSum of_group =
      SumOfGroup(group, layout_.slots, accumulation_, exponents, sums.finite);
  return [of_group, read = *read]() -> Result<GradientSum> {
    ASSIGN_OR_RETURN(TierSum::Shown shown, read());
    GradientSum sum = of_group;
    sum.elements = std::move(shown.elements);
    sum.piece_digests = std::move(shown.piece_digests);
    if (!sum.finite) return sum;  // then it has no norms
    sum.squared_norms = std::move(shown.squared_norms);
    for (std::size_t i = 0; i < sum.exponents.size(); ++i) {
      sum.squared_norms[i] = optim::ScaleSquares(sum.squared_norms[i], sum.exponents[i]);
    }
    return sum;
  };
}

const std::vector<TierSum>* StepSums::ShownAs(std::span<const Bytes> sums) const {
  for (const auto& [step, of_step] : steps_) {
    if (std::ranges::equal(of_step.groups, sums, &TierSum::IsShownAs)) return &of_step.groups;
  }
  return nullptr;
}

}  // namespace swarm::model
