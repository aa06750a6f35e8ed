#include "worker/model/arithmetic/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace swarm::model {
namespace {

/// Repeats every head of keys or values for the queries that share it: [B, L, K, E] to [B, L, H,
/// E].
at::Tensor RepeatHeads(const at::Tensor& heads, std::int64_t times) {
  if (times == 1) return heads;
  const auto b = heads.size(0), l = heads.size(1), k = heads.size(2), e = heads.size(3);
  return heads.unsqueeze(3).expand({b, l, k, times, e}).reshape({b, l, k * times, e});
}

at::Tensor Attention(const api::DecoderConfig& config, const LayerWeights& weights,
                     RotaryEmbedding& rotary, const at::Tensor& x) {
  const std::int64_t queries = config.num_attention_heads;
  const std::int64_t keys = config.num_key_value_heads;
  const auto type = weights.query_key_value.scalar_type();
  const at::Tensor heads = Project(x, weights.query_key_value)
                               .view({x.size(0), x.size(1), queries + 2 * keys, config.head_dim});
  // Splits instead of narrows: one copy then joins the gradients of the parts.
  const auto parts = heads.split_with_sizes({queries + keys, keys}, 2);
  const auto rotated = rotary.Apply(parts[0]).to(type).split_with_sizes({queries, keys}, 2);
  const at::Tensor& q = rotated[0];
  const at::Tensor k = RepeatHeads(rotated[1], queries / keys);
  const at::Tensor v = RepeatHeads(parts[1], queries / keys);
  const at::Tensor mixed =
      at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                       /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
  const at::Tensor joined =
      mixed.transpose(1, 2).reshape({x.size(0), x.size(1), queries * config.head_dim});
  return Project(joined, weights.attention_output);
}

at::Tensor Mlp(const LayerWeights& weights, const at::Tensor& x) {
  const auto parts = Project(x, weights.gate_up).chunk(2, -1);
  return Project(at::silu(parts[0]) * parts[1], weights.down);
}

/// What the output of a branch adds to the residual.
at::Tensor Added(const at::Tensor& output, const at::Tensor& basis) {
  return basis.defined() ? Project(output, basis) : output;
}

}  // namespace

at::Tensor Project(const at::Tensor& x, const at::Tensor& weight) {
  return at::linear(x.to(weight.scalar_type()), weight);
}

RotaryEmbedding::RotaryEmbedding(std::int64_t head_dim, double theta, at::Device device)
    : head_dim_(head_dim), theta_(theta), device_(device) {}

void RotaryEmbedding::Grow(std::int64_t tokens) {
  const at::NoGradGuard constants;
  const auto options = at::TensorOptions().dtype(at::kFloat);
  const at::Tensor exponents = at::arange(0, head_dim_, 2, options) / head_dim_;
  const at::Tensor frequencies = 1.0 / at::pow(at::Scalar(theta_), exponents);
  const at::Tensor angles = at::arange(tokens, options).unsqueeze(1) * frequencies;
  cosine_ = at::cat({angles.cos(), angles.cos()}, 1).unsqueeze(1).to(device_);
  sine_ = at::cat({-angles.sin(), angles.sin()}, 1).unsqueeze(1).to(device_);
}

at::Tensor RotaryEmbedding::Apply(const at::Tensor& heads) {
  const std::int64_t tokens = heads.size(1);
  if (!cosine_.defined() || cosine_.size(0) < tokens) Grow(tokens);
  const at::Tensor x = heads.to(at::kFloat);
  const at::Tensor swapped = x.roll(head_dim_ / 2, -1);
  return x * cosine_.narrow(0, 0, tokens) + swapped * sine_.narrow(0, 0, tokens);
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& gain, double epsilon) {
  return gain * (x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + epsilon));
}

at::Tensor DecoderLayer(const api::DecoderConfig& config, const LayerWeights& weights,
                        const at::Tensor& basis, RotaryEmbedding& rotary, const at::Tensor& x) {
  const at::Tensor normed = RmsNorm(x, weights.attention_norm, config.rms_norm_eps);
  const at::Tensor h = x + Added(Attention(config, weights, rotary, normed), basis);
  return h + Added(Mlp(weights, RmsNorm(h, weights.mlp_norm, config.rms_norm_eps)), basis);
}

at::Tensor HeadLogits(const api::DecoderConfig& config, const at::Tensor& gain,
                      const at::Tensor& head, const at::Tensor& x) {
  return Project(RmsNorm(x, gain, config.rms_norm_eps), head).to(at::kFloat);
}

at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits.flatten(0, 1), labels.flatten());
}

}  // namespace swarm::model
