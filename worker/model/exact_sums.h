// What all kinds of stages have in common about sums of gradients: their size, and where they are
// exact, how a contribution is measured, checked and added (optim/fixed_point.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "worker/model/stage.h"

namespace swarm::model {

/// The elements of a sum of floats.
inline std::span<const float> FloatsOf(const Bytes& elements) {
  return {reinterpret_cast<const float*>(elements.data()), elements.size() / sizeof(float)};
}

/// The largest magnitude of a contribution's gradients of a parameter.
struct Magnitude {
  std::size_t slot = 0;  ///< the parameter's, in Layout::slots
  float largest = 0;     ///< not finite if a gradient is not
};

/// As optim::LargestMagnitude, on all threads.
float LargestOf(std::span<const float> values);
/// As optim::AddQuantized, with its requirement, on all threads.
void AddQuantized(std::span<const float> values, int exponent, float largest,
                  std::span<std::int64_t> sum);

/// Whether the contribution is added. One that is not finite makes the step a skip instead.
bool AllFinite(std::span<const Magnitude> contribution);
/// Errors: kOutOfRange, as Stage::Fold. A contribution that is not finite adds nothing, and fits.
/// `exponents`, one for each of `slots`, are the step's.
Status CheckRange(std::span<const Magnitude> contribution, const TaskKey& key,
                  std::span<const ParameterSlot> slots, std::span<const int> exponents,
                  int contribution_bits);

/// The scale levels of steps.
class ScaleLevels {
 public:
  explicit ScaleLevels(api::Accumulation accumulation);
  /// Errors: as Stage::SetScaleLevel.
  Status Set(Step step, unsigned level);
  /// 0 until it is set.
  unsigned Of(Step step) const;
  void Forget(Step step) { levels_.erase(step); }
  void Clear() { levels_.clear(); }

 private:
  const unsigned most_;
  std::map<Step, unsigned> levels_;  ///< those that are not 0
};

/// The bytes of an element of a sum.
std::uint64_t ElementBytes(api::Accumulation accumulation);
/// Errors: kInvalidArgument, as Stage::Absorb.
Status CheckSum(const Bytes& elements, const ParameterGroup& group, api::Accumulation accumulation);
/// Errors: kInvalidArgument, as Stage::Apply.
Status CheckSums(std::span<const Bytes> sums, std::span<const ParameterGroup> groups,
                 api::Accumulation accumulation);
/// A group's sum without its elements. `exponents`, one for each of `slots`, are the step's; none
/// for floats.
GradientSum SumOfGroup(std::uint64_t group, std::span<const ParameterSlot> slots,
                       api::Accumulation accumulation, std::span<const int> exponents, bool finite);

}  // namespace swarm::model
