// Computing again instead of keeping: a part of the forward of which autograd keeps the input
// alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace swarm::model {

/// A computation of `inputs`, which also reads weights that live as long as its graph.
using Computation = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// compute(inputs). Where gradients are enabled, the graph has the inputs alone, and the backward
/// computes the rest again: numbers and gradients have the bits that they have without this. All
/// inputs require gradients. `weights` are the leaves that `compute` reads and that get gradients;
/// it may read them all or not.
at::Tensor Recomputed(const Computation& compute, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& weights);

}  // namespace swarm::model
