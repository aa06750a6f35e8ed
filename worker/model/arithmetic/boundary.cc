#include "worker/model/arithmetic/boundary.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "worker/model/arithmetic/decoder.h"

namespace swarm::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The same on a GPU, without waiting for it.
at::Tensor RoundTripThere(const at::Tensor& values, const codec::Codec& codec) {
  const auto bytes = static_cast<std::int64_t>(codec.EncodedBytes(values.numel()));
  const at::Tensor payload = at::empty({bytes}, values.options().dtype(at::kByte));
  at::Tensor decoded = at::empty_like(values);
  auto* const memory = static_cast<std::byte*>(payload.mutable_data_ptr());
  const Status encoded = codec.EncodeOnDevice(values, memory);
  TORCH_CHECK(encoded.ok(), encoded.message());
  const Status read = codec.DecodeOnDevice(memory, decoded);
  TORCH_CHECK(read.ok(), read.message());
  return decoded;
}

at::Tensor RoundTrip(const at::Tensor& tensor, const codec::Codec& codec) {
  if (tensor.is_cuda()) return RoundTripThere(tensor.to(at::kFloat).contiguous(), codec);
  const Result<Bytes> payload = codec.Encode(tensor.contiguous());
  TORCH_CHECK(payload.ok(), payload.status().message());
  const Result<at::Tensor> decoded = codec.Decode(*payload, tensor.sizes(), tensor.device());
  TORCH_CHECK(decoded.ok(), decoded.status().message());
  // A codec may return the tensor's own memory, which autograd must not take for a new tensor's.
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

/// anchor + z matrixᵀ: anchor [B, L, D] itself or, with ids [B, L], the rows of a table [V, D],
/// which gets no gradient. On a CPU it works on few rows at a time, which are still in cache when
/// their product is added: a pass over memory may take as long as a narrow product.
struct Expansion : torch::autograd::Function<Expansion> {
  enum class MatrixGradient { kOfTheSum, kMoment };  ///< Gᵀ z; Gᵀ (G matrix)

  static at::Tensor forward(AutogradContext* context, const at::Tensor& z, const at::Tensor& matrix,
                            const at::Tensor& anchor, const std::optional<at::Tensor>& ids,
                            MatrixGradient kind) {
    context->save_for_backward({matrix, kind == MatrixGradient::kMoment ? at::Tensor() : z});
    const at::Tensor in = z.flatten(0, -2);
    const auto shape = [&](const at::Tensor& out) {
      return out.view({z.size(0), z.size(1), matrix.size(0)});
    };
    if (!z.is_cpu()) {
      const at::Tensor rows = ids ? at::embedding(anchor, *ids) : anchor;
      return shape(at::addmm(rows.flatten(0, -2), in, matrix.t()));
    }
    constexpr std::int64_t kElements = 1 << 18;  // 1 MiB a thread
    const at::Tensor rows = ids ? anchor : anchor.flatten(0, -2);
    const at::Tensor flat_ids = ids ? ids->flatten() : at::Tensor();
    at::Tensor out = at::empty({in.size(0), matrix.size(0)}, z.options());
    const std::int64_t step =
        std::max<std::int64_t>(kElements * at::get_num_threads() / out.size(1), 32);
    for (std::int64_t begin = 0; begin < out.size(0); begin += step) {
      const std::int64_t end = std::min(begin + step, out.size(0));
      at::Tensor part = out.slice(0, begin, end);
      if (ids) {
        at::index_select_out(part, rows, 0, flat_ids.slice(0, begin, end));
      } else {
        part.copy_(rows.slice(0, begin, end));
      }
      part.addmm_(in.slice(0, begin, end), matrix.t());
    }
    return shape(out);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& matrix = saved[0];
    const at::Tensor of_z = at::matmul(gradients[0], matrix);
    at::Tensor of_matrix;
    if (context->needs_input_grad(1)) {
      const at::Tensor& right = saved[1].defined() ? saved[1] : of_z;
      of_matrix = at::matmul(gradients[0].flatten(0, -2).t(), right.flatten(0, -2));
    }
    return {of_z, of_matrix, context->needs_input_grad(2) ? gradients[0] : at::Tensor(), {}, {}};
  }
};

/// anchor + z matrixᵀ.
at::Tensor Expand(const at::Tensor& anchor, const at::Tensor& z, const at::Tensor& matrix) {
  if (matrix.scalar_type() != at::kFloat || anchor.scalar_type() != at::kFloat) {
    return anchor.to(at::kFloat) + Project(z, matrix);
  }
  return Expansion::apply(z, matrix, anchor, std::nullopt, Expansion::MatrixGradient::kOfTheSum);
}

/// The rows [B, L, n] of the preceding tokens, nearest first, side by side: [B, L, before n].
at::Tensor RowsBefore(const at::Tensor& rows, std::int64_t before) {
  const std::int64_t length = rows.size(1);
  // With zeros in front, a slice that begins `back` rows earlier gives each row its `back`th
  // predecessor.
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

at::Tensor FixedInBasis::Of(const Subspace& subspace) {
  const at::NoGradGuard no_gradients;
  const auto found = std::ranges::find_if(
      tables_, [&](const Table& table) { return at::equal(table.basis, subspace.basis); });
  if (found != tables_.end()) {
    std::rotate(tables_.begin(), found, found + 1);
  } else {
    if (tables_.size() == bases_) tables_.pop_back();
    tables_.insert(tables_.begin(),
                   {subspace.basis.clone(), at::matmul(subspace.fixed, subspace.basis)});
  }
  return tables_.front().rows;
}

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
      // Where the basis never turns, F[t] U is zero except for rounding.
      return boundary.refreshSteps == 0
                 ? at::matmul(x, subspace.basis)
                 : at::matmul(x, subspace.basis).sub_(anchors.fixed_in_basis);
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
      return ExpandInSubspace(subspace, anchors.ids, z);
    case api::BoundaryCodec::kAnchored:
      return Expand(AnchorOf(weights, anchors.rows), z, weights.decoder);
    default:
      return z;
  }
}

at::Tensor ExpandInSubspace(const Subspace& subspace, const at::Tensor& ids, const at::Tensor& z) {
  return Expansion::apply(z, subspace.basis, subspace.fixed, std::optional(ids),
                          Expansion::MatrixGradient::kOfTheSum);
}

at::Tensor ReceiveAndObserve(const Subspace& subspace, const Anchors& anchors,
                             const at::Tensor& z) {
  return Expansion::apply(z, subspace.basis, subspace.fixed, std::optional(anchors.ids),
                          Expansion::MatrixGradient::kMoment);
}

at::Tensor Cross(const at::Tensor& z, const codec::Codec& forward, const codec::Codec& backward) {
  return Crossing::apply(z, &forward, &backward);
}

}  // namespace swarm::model
