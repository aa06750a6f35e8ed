// Muon (Jordan et al., kellerjordan.github.io/posts/muon): steps of a matrix along the nearest
// semi-orthogonal matrix to its momentum.
//
// All replicas of a stage compute the same step, and their states must have the same bits whatever
// their processors and thread counts are. A library's matrix product does not promise that. So the
// products are ours: each element is a sum over k in ascending order, of products that are rounded
// before they are added. How rows and columns are cut into blocks, lanes and threads then changes
// no bit.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "worker/optim/update.h"

namespace swarm::optim {

/// Calls body(i) for all i < count, in any order and on any threads.
using ForEach =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& body)>;

/// Replaces a matrix, row-major, by a nearly semi-orthogonal one: five steps of Newton and Schulz
/// on it divided by its Frobenius norm, X = a X + (b A + c A A) X with A = X Xᵀ, and a, b, c =
/// 3.4445, -4.7750, 2.0315, in float32. A matrix of zeros stays one. Takes about 5 (4 m² n + 2 m³)
/// operations, m being the smaller and n the larger dimension.
void Orthogonalize(std::span<float> matrix, std::size_t rows, std::size_t columns,
                   const ForEach& for_each);

/// One step of a whole matrix, as torch.optim.Muon computes it with adjust_lr_fn
/// "match_rms_adamw", but in float32: m = m + (1 - momentum) (g - m), u = Orthogonalize(g +
/// momentum (m - g)), w = (1 - lr wd) w - lr 0.2 sqrt(max(rows, columns)) u. The factor gives u the
/// root mean square of AdamW's steps, so that one learning rate serves both. `spans` has no second
/// moment.
void UpdateMuon(const UpdateOptions& options, double momentum, const UpdateSpans& spans,
                std::size_t rows, std::size_t columns, const ForEach& for_each);

}  // namespace swarm::optim
