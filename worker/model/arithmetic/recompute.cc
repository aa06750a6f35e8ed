#include "worker/model/arithmetic/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

namespace swarm::model {
namespace {

using torch::autograd::variable_list;

/// The place of a computation in the graph.
struct Again final : torch::autograd::Node {
  Computation compute;
  variable_list inputs, weights;

  variable_list apply(variable_list&& gradients) override {
    const at::AutoGradMode recording(true);
    variable_list leaves;
    for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
    const at::Tensor output = compute(leaves);
    leaves.insert(leaves.end(), weights.begin(), weights.end());
    return torch::autograd::grad({output}, leaves, {gradients[0]}, /*retain_graph=*/{},
                                 /*create_graph=*/false, /*allow_unused=*/true);
  }

  void release_variables() override {
    compute = nullptr;
    inputs.clear();
    weights.clear();
  }
};

}  // namespace

at::Tensor Recomputed(const Computation& compute, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& weights) {
  if (!at::GradMode::is_enabled()) return compute(inputs);
  const auto node = std::make_shared<Again>();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs, weights));
  node->compute = compute;
  for (const at::Tensor& input : inputs) node->inputs.push_back(input.detach());
  node->weights = weights;
  at::Tensor output;
  {
    const at::NoGradGuard no_gradients;
    output = compute(node->inputs);
  }
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace swarm::model
