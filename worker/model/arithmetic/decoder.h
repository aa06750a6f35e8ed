// The arithmetic of a Llama decoder on tensors: functions of activations and weights, recorded by
// autograd where gradients are enabled. Numbers agree with Hugging Face's LlamaForCausalLM.
//
// Shapes: B sequences, L tokens, D hidden_size, H and K heads of queries and of keys, E head_dim,
// I intermediate_size, V vocab_size. The residual stream x [B, L, D] is float32; weights of
// matrices are float32 or bfloat16 and their products are computed in that type (as under
// autocast).
#pragma once

#include <ATen/core/Tensor.h>

#include "api/swarmjob.h"

namespace swarm::model {

/// The weights of a decoder layer.
struct LayerWeights {
  at::Tensor attention_norm;    ///< [D] float32
  at::Tensor query_key_value;   ///< [(H + 2 K) E, D]
  at::Tensor attention_output;  ///< [D, H E]
  at::Tensor mlp_norm;          ///< [D] float32
  at::Tensor gate_up;           ///< [2 I, D]
  at::Tensor down;              ///< [D, I]
};

/// x in the type of the weights, then x wᵀ.
at::Tensor Project(const at::Tensor& x, const at::Tensor& weight);

/// Rotary position embedding: angles position / theta^(2 i / E), computed in float32; pairs are
/// (i, i + E / 2), as Hugging Face's rotate_half has them. Tables grow on demand and are kept.
class RotaryEmbedding {
 public:
  RotaryEmbedding(std::int64_t head_dim, double theta, at::Device device);
  /// heads [B, L, N, E] of any type; the result is float32.
  at::Tensor Apply(const at::Tensor& heads);

 private:
  void Grow(std::int64_t tokens);

  std::int64_t head_dim_;
  double theta_;
  at::Device device_;
  at::Tensor cosine_;  ///< [tokens, 1, E]
  at::Tensor sine_;    ///< [tokens, 1, E]; the first half negated
};

/// x gain / sqrt(mean(x^2) + epsilon) over the last dimension; float32.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& gain, double epsilon);

/// One decoder layer: x [B, L, D] to x [B, L, D]. With a `basis` [D, c], what the layer adds to x
/// lies in it: attention_output [c, H E] and down [c, I] give coefficients.
at::Tensor DecoderLayer(const api::DecoderConfig& config, const LayerWeights& weights,
                        const at::Tensor& basis, RotaryEmbedding& rotary, const at::Tensor& x);

/// Logits of the head: x [B, L, D], gain [D], head [V, D] to [B, L, V] float32.
at::Tensor HeadLogits(const api::DecoderConfig& config, const at::Tensor& gain,
                      const at::Tensor& head, const at::Tensor& x);

/// Mean cross entropy in nats: logits [B, L, V] float32, labels [B, L] int64; a scalar.
at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace swarm::model
