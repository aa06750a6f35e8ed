#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

#include "worker/codec/cuda/layer_kernels.h"
#include "worker/model/arithmetic/fused.h"

namespace swarm::model {
namespace {

namespace cuda = codec::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// libtorch's default: the legacy stream of the device.
constexpr cuda::Stream kComputeStream = nullptr;

void Require(const Status& status) { TORCH_CHECK(status.ok(), status.message()); }

/// Calls body with pointers of the type that kernels have for the tensors.
template <typename Body>
void WithType(at::ScalarType type, const Body& body) {
  if (type == at::kFloat) {
    body(float());
  } else {
    TORCH_CHECK(type == at::kBFloat16, "no kernel for this type");
    body(std::uint16_t());
  }
}

template <typename T>
const T* Read(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}
template <typename T>
T* Write(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

std::size_t Count(std::int64_t number) { return static_cast<std::size_t>(number); }

struct Norm : torch::autograd::Function<Norm> {
  static cuda::NormTask TaskOf(const at::Tensor& x, const at::Tensor& gain, double epsilon,
                               const at::Tensor& scales) {
    return {Read<float>(x),      Read<float>(gain),           Count(scales.numel()),
            Count(gain.numel()), static_cast<float>(epsilon), Write<float>(scales)};
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_of_any_layout,
                            const at::Tensor& gain_of_any_layout, double epsilon,
                            at::ScalarType type) {
    const at::Tensor x = x_of_any_layout.contiguous(), gain = gain_of_any_layout.contiguous();
    const at::Tensor scales = at::empty({x.numel() / gain.numel()}, x.options());
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(type));
    WithType(type, [&]<typename T>(T) {
      Require(cuda::NormRows(TaskOf(x, gain, epsilon, scales), Write<T>(y), kComputeStream));
    });
    context->save_for_backward({x, gain, scales});
    context->saved_data["epsilon"] = epsilon;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const cuda::NormTask task =
        TaskOf(saved[0], saved[1], context->saved_data["epsilon"].toDouble(), saved[2]);
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dx = at::empty_like(saved[0]), dgain = at::empty_like(saved[1]);
    const at::Tensor parts =
        at::empty({static_cast<std::int64_t>(cuda::GainPartNumbers(task))}, dgain.options());
    WithType(dy.scalar_type(), [&]<typename T>(T) {
      Require(cuda::NormRowsBack(task, Read<T>(dy), Write<float>(dx), Write<float>(parts),
                                 Write<float>(dgain), kComputeStream));
    });
    return {dx, dgain, {}, {}};
  }
};

struct Heads : torch::autograd::Function<Heads> {
  static cuda::HeadsTask TaskOf(const at::Tensor& cosine, const at::Tensor& sine, std::int64_t rows,
                                std::int64_t queries, std::int64_t keys) {
    return {Count(rows),
            Count(queries),
            Count(keys),
            Count(cosine.size(-1)),
            Read<float>(cosine),
            Read<float>(sine),
            Count(cosine.numel() / cosine.size(-1))};
  }

  static variable_list forward(AutogradContext* context, const at::Tensor& heads_of_any_layout,
                               std::int64_t keys, const at::Tensor& cosine,
                               const at::Tensor& sine) {
    const at::Tensor heads = heads_of_any_layout.contiguous();
    const std::int64_t b = heads.size(0), l = heads.size(1), e = heads.size(3);
    const std::int64_t queries = heads.size(2) - 2 * keys;
    const at::Tensor q = at::empty({b, l, queries, e}, heads.options());
    const at::Tensor k = at::empty({b, l, keys, e}, heads.options()), v = at::empty_like(k);
    WithType(heads.scalar_type(), [&]<typename T>(T) {
      Require(cuda::TakeHeadsApart(TaskOf(cosine, sine, b * l, queries, keys), Read<T>(heads),
                                   Write<T>(q), Write<T>(k), Write<T>(v), kComputeStream));
    });
    context->save_for_backward({cosine, sine});
    context->saved_data["shape"] = std::vector<std::int64_t>{b, l, queries, keys, e};
    return {q, k, v};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto shape = context->saved_data["shape"].toIntVector();
    const std::int64_t b = shape[0], l = shape[1], queries = shape[2], keys = shape[3];
    const at::Tensor dq = gradients[0].contiguous(), dk = gradients[1].contiguous(),
                     dv = gradients[2].contiguous();
    const at::Tensor dheads = at::empty({b, l, queries + 2 * keys, shape[4]}, dq.options());
    WithType(dq.scalar_type(), [&]<typename T>(T) {
      Require(cuda::TakeHeadsApartBack(TaskOf(saved[0], saved[1], b * l, queries, keys),
                                       Read<T>(dq), Read<T>(dk), Read<T>(dv), Write<T>(dheads),
                                       kComputeStream));
    });
    return {dheads, {}, {}, {}};
  }
};

struct Sum : torch::autograd::Function<Sum> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_of_any_layout,
                            const at::Tensor& branch_of_any_layout) {
    const at::Tensor x = x_of_any_layout.contiguous(), branch = branch_of_any_layout.contiguous();
    const at::Tensor sum = at::empty_like(x);
    WithType(branch.scalar_type(), [&]<typename T>(T) {
      Require(cuda::AddBranch(Read<float>(x), Read<T>(branch), Count(x.numel()), Write<float>(sum),
                              kComputeStream));
    });
    context->saved_data["type"] = branch.scalar_type();
    return sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0], gradients[0].to(context->saved_data["type"].toScalarType())};
  }
};

struct GatedUp : torch::autograd::Function<GatedUp> {
  static cuda::GateTask TaskOf(const at::Tensor& gate_up) {
    return {Count(gate_up.numel() / gate_up.size(-1)), Count(gate_up.size(-1) / 2)};
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& of_any_layout) {
    const at::Tensor gate_up = of_any_layout.contiguous();
    std::vector<std::int64_t> shape = gate_up.sizes().vec();
    shape.back() /= 2;
    const at::Tensor gated = at::empty(shape, gate_up.options());
    WithType(gate_up.scalar_type(), [&]<typename T>(T) {
      Require(cuda::Gate(TaskOf(gate_up), Read<T>(gate_up), Write<T>(gated), kComputeStream));
    });
    context->save_for_backward({gate_up});
    return gated;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const at::Tensor dgated = gradients[0].contiguous(), dgate_up = at::empty_like(gate_up);
    WithType(gate_up.scalar_type(), [&]<typename T>(T) {
      Require(cuda::GateBack(TaskOf(gate_up), Read<T>(gate_up), Read<T>(dgated), Write<T>(dgate_up),
                             kComputeStream));
    });
    return {dgate_up};
  }
};

}  // namespace

bool HasFused(const at::Tensor& like) {
  const auto type = like.scalar_type();
  return like.is_cuda() && (type == at::kFloat || type == at::kBFloat16);
}

at::Tensor FusedNorm(const at::Tensor& x, const at::Tensor& gain, double epsilon,
                     at::ScalarType type) {
  return Norm::apply(x, gain, epsilon, type);
}

std::array<at::Tensor, 3> FusedHeads(const at::Tensor& heads, std::int64_t keys,
                                     const at::Tensor& cosine, const at::Tensor& sine) {
  const variable_list apart = Heads::apply(heads, keys, cosine, sine);
  return {apart[0], apart[1], apart[2]};
}

at::Tensor FusedAdd(const at::Tensor& x, const at::Tensor& branch) { return Sum::apply(x, branch); }

at::Tensor FusedGate(const at::Tensor& gate_up) { return GatedUp::apply(gate_up); }

}  // namespace swarm::model
