#include "worker/model/boundary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "worker/model/llama.h"

namespace swarm::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor RoundTrip(const at::Tensor& tensor, const codec::Codec& codec) {
  const Result<Bytes> payload = codec.Encode(tensor.contiguous());
  TORCH_CHECK(payload.ok(), payload.status().message());
  const Result<at::Tensor> decoded = codec.Decode(*payload, tensor.sizes(), tensor.device());
  TORCH_CHECK(decoded.ok(), decoded.status().message());
  // A codec may give the tensor's own memory back, which autograd must not take for a new one's.
  return decoded->is_alias_of(tensor) ? decoded->clone() : *decoded;
}

struct Crossing : torch::autograd::Function<Crossing> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z,
                            const codec::Codec* forward, const codec::Codec* backward) {
    context->saved_data["codec"] = reinterpret_cast<std::int64_t>(backward);
    return RoundTrip(z, *forward);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* codec = reinterpret_cast<const codec::Codec*>(context->saved_data["codec"].toInt());
    return {RoundTrip(gradients[0], *codec), {}, {}};
  }
};

/// (x - fixed) basis. On a processor, by rows so few that their differences stay in its cache.
struct ProjectedDifference : torch::autograd::Function<ProjectedDifference> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& fixed,
                            const at::Tensor& basis) {
    context->save_for_backward({basis});
    if (!x.is_cpu()) return at::matmul(x - fixed, basis);
    constexpr std::int64_t kElements = 1 << 18;  // 1 MiB
    const at::Tensor rows = x.flatten(0, -2), fixed_rows = fixed.flatten(0, -2);
    at::Tensor z = at::empty({rows.size(0), basis.size(1)}, x.options());
    const std::int64_t step = std::max<std::int64_t>(kElements / rows.size(1), 32);
    at::Tensor differences = at::empty({std::min(step, rows.size(0)), rows.size(1)}, x.options());
    for (std::int64_t begin = 0; begin < rows.size(0); begin += step) {
      const std::int64_t end = std::min(begin + step, rows.size(0));
      at::Tensor part = differences.narrow(0, 0, end - begin), to = z.slice(0, begin, end);
      at::sub_out(part, rows.slice(0, begin, end), fixed_rows.slice(0, begin, end));
      at::mm_out(to, part, basis);
    }
    return z.unflatten(0, x.sizes().slice(0, x.dim() - 1));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {at::linear(gradients[0], context->get_saved_variables()[0]), {}, {}};
  }
};

/// anchor + z basisᵀ. In float32 the product is added to a copy of the anchor, which spares a pass
/// over memory that takes as long as the product where z is narrow.
at::Tensor Expand(const at::Tensor& anchor, const at::Tensor& z, const at::Tensor& basis) {
  if (basis.scalar_type() != at::kFloat || anchor.scalar_type() != at::kFloat) {
    return anchor.to(at::kFloat) + Project(z, basis);
  }
  return at::addmm(anchor.flatten(0, -2), z.flatten(0, -2), basis.t()).view(anchor.sizes());
}

struct ObservedExpansion : torch::autograd::Function<ObservedExpansion> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& anchor, const at::Tensor& z,
                            const at::Tensor& basis) {
    context->save_for_backward({basis});
    return Expand(anchor, z, basis);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor basis = context->get_saved_variables()[0];
    const at::Tensor coefficients = at::matmul(gradients[0], basis);
    const at::Tensor moment =
        at::matmul(gradients[0].flatten(0, -2).t(), coefficients.flatten(0, -2));
    return {{}, coefficients, moment};
  }
};

/// Rows [B, L, n] of the tokens before, nearest first, side by side: [B, L, before n].
at::Tensor RowsBefore(const at::Tensor& rows, std::int64_t before) {
  const std::int64_t length = rows.size(1);
  // Zeros in front: what begins `back` rows earlier is each row's `back`th before.
  const at::Tensor padded = at::constant_pad_nd(rows, {0, 0, before, 0});
  std::vector<at::Tensor> parts;
  for (std::int64_t back = 1; back <= before; ++back) {
    parts.push_back(padded.narrow(1, before - back, length));
  }
  return at::cat(parts, -1);
}

/// A of the receiver.
at::Tensor AnchorOf(const BoundaryWeights& weights, const at::Tensor& rows) {
  const at::Tensor own =
      weights.table_factor.defined() ? Project(rows, weights.table_factor) : rows;
  if (!weights.context.defined()) return own;
  const std::int64_t before = weights.context.size(1) / rows.size(-1);
  return Expand(own, RowsBefore(rows, before), weights.context);
}

at::Tensor Normalize(const at::Tensor& x, double epsilon) {
  return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + epsilon);
}

}  // namespace

at::Tensor Send(const api::Boundary& boundary, const BoundaryWeights& weights,
                const Subspace& subspace, const Anchors& anchors, double epsilon,
                const at::Tensor& x) {
  switch (boundary.codec) {
    case api::BoundaryCodec::kBottleneck: {
      const at::Tensor narrow = Project(RmsNorm(x, weights.norm, epsilon), weights.encoder);
      return Normalize(narrow.to(at::kFloat), epsilon);
    }
    case api::BoundaryCodec::kMaxout: {
      const auto factor = static_cast<std::int64_t>(boundary.factor);
      const at::Tensor groups =
          RmsNorm(x, weights.norm, epsilon).unflatten(-1, {x.size(-1) / factor, factor});
      return Normalize(groups.amax(-1), epsilon);
    }
    case api::BoundaryCodec::kSubspace:
      // Where the basis never turns, F[t] U is zero but for rounding, and x is read once.
      return boundary.refreshSteps == 0
                 ? at::matmul(x, subspace.basis)
                 : ProjectedDifference::apply(x, anchors.fixed, subspace.basis);
    case api::BoundaryCodec::kAnchored:
      return Project(x, weights.encoder).to(at::kFloat);
    default:
      return x;
  }
}

at::Tensor Receive(const api::Boundary& boundary, const BoundaryWeights& weights,
                   const Subspace& subspace, const Anchors& anchors, const at::Tensor& z) {
  switch (boundary.codec) {
    case api::BoundaryCodec::kBottleneck:
    case api::BoundaryCodec::kMaxout:
      return Project(z, weights.decoder).to(at::kFloat);
    case api::BoundaryCodec::kSubspace:
      return Expand(anchors.fixed, z, subspace.basis);
    case api::BoundaryCodec::kAnchored:
      return Expand(AnchorOf(weights, anchors.rows), z, weights.decoder);
    default:
      return z;
  }
}

at::Tensor ReceiveAndObserve(const Anchors& anchors, const at::Tensor& basis, const at::Tensor& z) {
  return ObservedExpansion::apply(anchors.fixed, z, basis);
}

at::Tensor Cross(const at::Tensor& z, const codec::Codec& forward, const codec::Codec& backward) {
  return Crossing::apply(z, &forward, &backward);
}

}  // namespace swarm::model
