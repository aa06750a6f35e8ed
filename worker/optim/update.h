// One optimizer step of one tensor, on plain memory.
//
// Only IEEE additions, multiplications, divisions and square roots, in a fixed order and without
// contraction: replicas that start from the same bits and get the same reduced gradients hold the
// same bits afterwards, whatever their instruction sets and thread counts. State digests rely on
// it.
#pragma once

#include <cstdint>
#include <span>

#include "api/swarmjob.h"

namespace swarm::optim {

/// The parameters that all elements of a tensor share.
struct UpdateOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip = 1;          ///< factor on the gradient
  std::uint64_t count = 1;  ///< this update is the count-th, from 1 (bias correction)
  bool by_norm = true;      ///< LAMB: steps in proportion to the norm of the weights
};

/// The memory of one tensor, or of a part of it. All spans have the same size. `weights` may be
/// `old_weights`; otherwise nothing overlaps.
struct UpdateSpans {
  std::span<const float> old_weights;
  std::span<const float> gradient;
  std::span<float> first_moment;   ///< exponential average of g
  std::span<float> second_moment;  ///< exponential average of g * g
  std::span<float> weights;
};

/// The numbers of one UpdateAdamW, rounded once, for code that does the same on another device.
struct AdamWFactors {
  float clip, rest1, beta2, rest2, epsilon;
  float decay;  ///< 1 - lr wd
  float step;   ///< lr / (1 - beta1^n)
  float root;   ///< sqrt(1 - beta2^n)
};
AdamWFactors AdamWFactorsOf(const UpdateOptions& options);

/// The same of UpdateLamb.
struct LambFactors {
  float clip, rest1, beta2, rest2, epsilon;
  float decay;     ///< wd
  float correct1;  ///< 1 / (1 - beta1^n)
  float correct2;  ///< 1 / (1 - beta2^n)
};
LambFactors LambFactorsOf(const UpdateOptions& options);

/// AdamW (Loshchilov and Hutter, arXiv:1711.05101), as torch.optim.AdamW computes it:
/// m = m + (1 - beta1) (g - m), v = beta2 v + (1 - beta2) g g,
/// w = (1 - lr wd) w - lr / (1 - beta1^n) * m / (sqrt(v) / sqrt(1 - beta2^n) + epsilon).
/// Elementwise: a tensor may be updated in parts, in any order.
void UpdateAdamW(const UpdateOptions& options, const UpdateSpans& spans);

/// LAMB (You et al., arXiv:1904.00962) with bias correction, decay inside the update, and the
/// identity as scaling function (no clamp on the weight norm): u = (m / (1 - beta1^n)) / (sqrt(v /
/// (1 - beta2^n)) + epsilon) + wd w, w = w - lr (|w| / |u|) u, where the ratio is 1 if either norm
/// is 0. Norms are those of the whole tensor: it must be updated in one call. Without by_norm the
/// ratio is 1 always: for a tensor that begins with zeros, which after a small first step (a
/// warm-up) would be held near zero by its own norm.
void UpdateLamb(const UpdateOptions& options, const UpdateSpans& spans);

}  // namespace swarm::optim
