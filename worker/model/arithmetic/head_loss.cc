#include "worker/model/arithmetic/head_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "worker/model/arithmetic/half.h"

namespace swarm::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLogitsAtOnce = 1 << 24;       ///< 64 MiB
constexpr std::int64_t kLogitsAtOnceOnGpu = 1 << 27;  ///< 512 MiB: the matrix of the head is read
                                                      ///< and its gradient added to, each time
constexpr std::int64_t kTokensMin = 256;              ///< fewer starve the products

/// The losses of some tokens. `logits` [n, V] float32 are overwritten: by the gradient of the sum
/// of the losses by them, times `weight`.
at::Tensor TokenLosses(at::Tensor& logits, const at::Tensor& labels, double weight,
                       const HeadLossOptions& options) {
  const at::Tensor columns = labels.unsqueeze(1);
  at::Tensor slope;  // of the cap
  if (options.cap > 0) {
    logits.div_(options.cap).tanh_();
    slope = 1 - logits.square();
    logits.mul_(options.cap);
  }
  const at::Tensor largest = logits.amax(1, /*keepdim=*/true);
  logits.sub_(largest);
  const at::Tensor wanted = logits.gather(1, columns);
  logits.exp_();
  const at::Tensor sum = logits.sum(1, /*keepdim=*/true);
  at::Tensor scale = weight / sum;
  if (options.z_loss > 0) scale = scale * (1 + 2 * options.z_loss * (sum.log() + largest));
  logits.mul_(scale);
  logits.scatter_add_(1, columns, at::full_like(wanted, -weight));
  if (slope.defined()) logits.mul_(slope);
  return (sum.log() - wanted).squeeze(1);
}

struct Loss : torch::autograd::Function<Loss> {
  /// rows [n, D], labels [n]; the losses are divided by `total`.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const at::Tensor& head, const at::Tensor& labels, std::int64_t total,
                            const HeadLossOptions& options, bool with_gradients, bool trains_head) {
    const std::int64_t count = rows.size(0);
    const double weight = 1.0 / static_cast<double>(total);
    const auto type = options.type.value_or(head.scalar_type());
    const at::Tensor matrix = head.to(type);
    at::Tensor losses = at::empty({count}, rows.options());
    at::Tensor of_rows, of_head;
    if (with_gradients) {
      of_rows = at::empty_like(rows);
      if (trains_head) of_head = at::zeros(head.sizes(), head.options().dtype(at::kFloat));
    }
    for (std::int64_t begin = 0; begin < count; begin += options.tokens_at_once) {
      const std::int64_t end = std::min(begin + options.tokens_at_once, count);
      const at::Tensor in = rows.slice(0, begin, end).to(type);
      at::Tensor logits =
          type == at::kHalf ? HalfProduct(in, matrix.t()) : at::linear(in, matrix).to(at::kFloat);
      losses.slice(0, begin, end)
          .copy_(TokenLosses(logits, labels.slice(0, begin, end), weight, options));
      if (!with_gradients) continue;
      if (type == at::kHalf) {
        const ScaledGradient gradient = Scale(logits);
        of_rows.slice(0, begin, end)
            .copy_(HalfProduct(gradient.values, matrix).mul_(gradient.unscale));
        if (!trains_head) continue;
        of_head.addcmul_(HalfProduct(gradient.values.t(), in), gradient.unscale);
        continue;
      }
      const at::Tensor gradient = logits.to(type);
      of_rows.slice(0, begin, end).copy_(at::matmul(gradient, matrix));
      if (!trains_head) continue;
      if (type == at::kFloat) {
        of_head.addmm_(gradient.t(), in);
      } else if (of_head.is_cuda()) {  // sums in float32, without a product of its own
        at::addmm_outf(of_head, gradient.t(), in, at::kFloat, 1, 1, of_head);
      } else {
        of_head.add_(at::matmul(gradient.t(), in));
      }
    }
    context->save_for_backward({of_rows, of_head});
    return losses.sum(at::kDouble).mul_(weight).to(at::kFloat);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    // They are of no further use: autograd frees them after one backward.
    at::Tensor of_rows = saved[0], of_head = saved[1];
    if (of_head.defined()) of_head.mul_(gradients[0]);
    return {of_rows.mul_(gradients[0]), of_head, {}, {}, {}, {}, {}};
  }
};

}  // namespace

std::int64_t LossTokensAtOnce(std::int64_t vocab_size, bool on_gpu) {
  return std::max((on_gpu ? kLogitsAtOnceOnGpu : kLogitsAtOnce) / vocab_size, kTokensMin);
}

at::Tensor HeadLoss(const at::Tensor& x, const at::Tensor& head, const at::Tensor& labels,
                    const HeadLossOptions& options) {
  at::Tensor rows = x.flatten(0, -2), wanted = labels.flatten();
  const std::int64_t total = wanted.numel();
  const at::Tensor counted = options.counted ? *options.counted : wanted.ge(0).nonzero().squeeze(1);
  if (counted.defined() && counted.numel() < total) {
    rows = rows.index_select(0, counted);
    wanted = wanted.index_select(0, counted);
  }
  return Loss::apply(rows, head, wanted, total, options, at::GradMode::is_enabled(),
                     head.requires_grad());
}

}  // namespace swarm::model
