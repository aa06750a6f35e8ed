// The two halves of a boundary: the stage before it encodes the residual stream x, and the stage
// behind it decodes x. Where both halves lie in one stage, that stage computes both, so that the
// cut of a job changes no number.
//
// Shapes as in llama.h; c numbers cross for a token (api::CoefficientsPerToken). t are the token
// ids, W_e, W_d, T and g parameters, norm(x) = x / sqrt(mean(x^2) + epsilon):
//
// | codec      | sent, z [B, L, c]                                | received, x [B, L, D]     |
// |------------|--------------------------------------------------|---------------------------|
// | Bottleneck | norm((g norm(x)) W_eᵀ)                           | z W_dᵀ                    |
// | Maxout     | norm(max over D / c neighbours of g norm(x))     | z W_dᵀ                    |
// | Subspace   | (x - F[t]) U                                     | F[t] + z Uᵀ               |
// | Anchored   | x W_eᵀ                                           | A + z W_dᵀ                |
// | others     | x                                                | z                         |
//
// A is T[t], or with a factorized table P[t] Q; with n anchorTokens, plus the rows that T (or P)
// has for the n - 1 tokens before in the sequence, side by side, times Cᵀ (zeros before its start).
// U [D, c] has orthonormal columns and F [V, D] is fixed, orthogonal to the U that a job begins
// with; the layers before the last boundary add only vectors in U (DecoderLayer), so these
// boundaries are exact.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "api/swarmjob.h"
#include "worker/codec/codec.h"

namespace swarm::model {

/// The parameters of a boundary. Those that the half or the codec does not have are undefined.
struct BoundaryWeights {
  at::Tensor norm;          ///< g [D]
  at::Tensor encoder;       ///< W_e [c, D]
  at::Tensor decoder;       ///< W_d [D, c]
  at::Tensor table_factor;  ///< Qᵀ [D, r]
  at::Tensor context;       ///< C [D, (n - 1) D], or [D, (n - 1) r]
};

/// The fixed tensors of a Subspace model, float32; undefined in others.
struct Subspace {
  at::Tensor basis;  ///< U [D, c]
  at::Tensor fixed;  ///< F [V, D]
};

/// The inputs of a boundary that depend on the tokens of a pass.
struct Anchors {
  at::Tensor ids;             ///< Subspace, receiver: t [B, L]
  at::Tensor fixed_in_basis;  ///< Subspace that turns, sender: (F U)[t] [B, L, c]
  at::Tensor rows;            ///< Anchored, receiver: T[t] [B, L, D], or P[t] [B, L, r]
};

/// Tables F U [V, c], which a sender looks up instead of the rows of F: D / c times less to read,
/// and x is read once. A table costs as much as the projection of V tokens, once per basis. It has
/// the same bits whenever and wherever it is made from the same basis. Only the sender uses it: the
/// two sides of a boundary may round it differently.
class FixedInBasis {
 public:
  /// Keeps the tables of the last `bases` bases.
  explicit FixedInBasis(std::size_t bases) : bases_(bases) {}
  /// The table of exactly this basis, compared by its numbers: never a table of a basis that was
  /// turned, reloaded or overwritten in place since. Requires one F between two calls of Clear.
  at::Tensor Of(const Subspace& subspace);
  void Clear() { tables_.clear(); }

 private:
  struct Table {
    at::Tensor basis;  ///< a copy
    at::Tensor rows;
  };
  std::size_t bases_;
  std::vector<Table> tables_;  ///< most recently used first
};

/// z [B, L, c], float32.
at::Tensor Send(const api::Boundary& boundary, const BoundaryWeights& weights,
                const Subspace& subspace, const Anchors& anchors, double epsilon,
                const at::Tensor& x);

/// x [B, L, D], float32.
at::Tensor Receive(const api::Boundary& boundary, const BoundaryWeights& weights,
                   const Subspace& subspace, const Anchors& anchors, const at::Tensor& z);

/// F[t] + z Uᵀ [B, L, D], t being ids [B, L].
at::Tensor ExpandInSubspace(const Subspace& subspace, const at::Tensor& ids, const at::Tensor& z);

/// Receive of Subspace at the last boundary, where training turns the basis. The gradient of
/// subspace.basis is then Gᵀ (G U) [D, c], where G is the gradient of x: the second moment of the
/// gradients in the directions of the basis.
at::Tensor ReceiveAndObserve(const Subspace& subspace, const Anchors& anchors, const at::Tensor& z);

/// Encodes and decodes z by `forward` and, in the backward pass, its gradient by `backward`.
at::Tensor Cross(const at::Tensor& z, const codec::Codec& forward, const codec::Codec& backward);

}  // namespace swarm::model
