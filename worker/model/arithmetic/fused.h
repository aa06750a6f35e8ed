// The parts of a decoder layer between its products as one kernel each, for GPUs. Equal to what
// decoder.h says of them, up to rounding, and with gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace swarm::model {

/// Whether there are kernels for tensors like this one: float32 or bfloat16, on a GPU, in a build
/// that has kernels. What follows requires it of all its tensors.
bool HasFused(const at::Tensor& like);

/// RmsNorm of x [..., D] float32 with a gain [D] float32, in `type`.
at::Tensor FusedNorm(const at::Tensor& x, const at::Tensor& gain, double epsilon,
                     at::ScalarType type);

/// Queries [B, L, H, E], keys [B, L, K, E] and values of the same shape, of heads [B, L, H + 2 K,
/// E] of one type; queries and keys rotated by the angles of PositionTables: [L, E] or [B L, E].
std::array<at::Tensor, 3> FusedHeads(const at::Tensor& heads, std::int64_t keys,
                                     const at::Tensor& cosine, const at::Tensor& sine);

/// x + branch, of one shape; x float32.
at::Tensor FusedAdd(const at::Tensor& x, const at::Tensor& branch);

/// silu(gate) up [..., I] of the gate_up [..., 2 I].
at::Tensor FusedGate(const at::Tensor& gate_up);

}  // namespace swarm::model
