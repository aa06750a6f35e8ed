// Products in binary16 that lose no small gradient.
//
// Binary16 has 11 bits for magnitudes from 2^-14 to 2^16, and fewer down to 2^-24. Weights and
// normed activations are in that range. Gradients are far below it, each tensor's elsewhere. So
// every gradient that enters a product gets a scale of its own: the power of two that brings its
// largest magnitude near the upper end. It is found on the device and divides the result. Results
// are float32, and so are gradients between products: those of the matrices, too. No scale is a
// state, and no step is skipped to find one. An operand beyond the range becomes infinite, and the
// loss is not finite then.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "api/swarmjob.h"
#include "worker/model/arithmetic/recompute.h"

namespace swarm::model {

/// The type of the operands of products.
at::ScalarType MatrixType(api::Precision precision);

/// A gradient as an operand: it is values times unscale.
struct ScaledGradient {
  at::Tensor values;   ///< binary16
  at::Tensor unscale;  ///< float32 scalar, a power of two
};

/// Scales a float32 gradient so that `bound`, a float32 scalar that is not negative, comes to lie
/// in [2^14, 2^15); lower where the scale would exceed 2^126. Does not wait for the device.
ScaledGradient ScaleWithin(const at::Tensor& gradient, const at::Tensor& bound);
/// The same with the largest magnitude in the gradient as the bound.
ScaledGradient Scale(const at::Tensor& gradient);

/// a b [n, m] in float32, summed in float32, of a [n, k] and b [k, m] in binary16.
at::Tensor HalfProduct(const at::Tensor& a, const at::Tensor& b);

/// x wᵀ in float32, of x float32 and w [n, m] binary16. The gradients of both are float32: where w
/// is a leaf, its grad_dtype must say so.
at::Tensor HalfLinear(const at::Tensor& x, const at::Tensor& weight);

/// At least the largest magnitude of all numbers that a backward makes of an output's `gradient`,
/// a float32 scalar. `inputs` are those of the computation.
using GradientBound =
    std::function<at::Tensor(const at::Tensor& gradient, const std::vector<at::Tensor>& inputs)>;

/// compute(inputs in binary16) in float32, of float32 inputs. What `compute` gives is binary16. Its
/// backward runs in binary16, too, on a gradient that is scaled within the bound; those of the
/// inputs are float32.
at::Tensor InHalf(const Computation& compute, const GradientBound& bound,
                  const std::vector<at::Tensor>& inputs);

/// The matrix in float32. Its gradient stays float32, also where the matrix is binary16.
at::Tensor Widened(const at::Tensor& matrix);

}  // namespace swarm::model
