// The arithmetic of a decoder on tensors: functions of activations and weights, recorded by
// autograd where gradients are enabled. Numbers agree with the classes of transformers whose
// configs api/model/decoder_config.h reads.
//
// Shapes: B sequences, L tokens, D hidden_size, H and K heads of queries and of keys, E head_dim,
// I intermediate_size, V vocab_size. The residual stream x [B, L, D] is float32; weights of
// matrices are float32 or bfloat16 and their products are computed in that type (as under
// autocast); or binary16, and their products are those of half.h, which are float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "api/swarmjob.h"

namespace swarm::model {

/// A low-rank addition to a matrix [n, m], of r < n, m. Both are undefined where there is none.
struct Adapter {
  at::Tensor down;  ///< A [r, m]
  at::Tensor up;    ///< B [n, r]
};

/// The matrices of a layer that may have adapters: those of api::Lora, in its order.
enum class Adapted : std::size_t { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };
inline constexpr std::size_t kAdaptedMatrices = 7;

/// The weights of a decoder layer. What its family does not have is undefined.
struct LayerWeights {
  at::Tensor attention_norm;                       ///< [D] float32
  at::Tensor query_key_value;                      ///< [(H + 2 K) E, D]
  at::Tensor input_bias;                           ///< [(H + 2 K) E] float32
  at::Tensor head_norms;                           ///< [2 E] float32: of queries, of keys
  at::Tensor attention_output;                     ///< [D, H E]
  at::Tensor mlp_norm;                             ///< [D] float32
  at::Tensor gate_up;                              ///< [2 I, D]
  at::Tensor down;                                 ///< [D, I]
  at::Tensor attention_post_norm, mlp_post_norm;   ///< [D] float32
  std::array<Adapter, kAdaptedMatrices> adapters;  ///< by Adapted
  double adapter_scale = 0;                        ///< by which B A is multiplied
};

/// x in the type of the weights, then x wᵀ, plus the bias if it is defined. With binary16 x is
/// float32, and so are the result and the gradients.
at::Tensor Project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

/// The documents of a microbatch where they do not see each other.
struct Documents {
  std::vector<std::int64_t>
      lengths;           ///< in order, sequence by sequence; none crosses into the next
  at::Tensor positions;  ///< [B, L] int64: of each token in its document
};

/// What attention knows of positions. Tables are made on demand and kept.
class PositionTables {
 public:
  PositionTables(const api::DecoderConfig& config, at::Device device);

  /// The angles of RotateHeads for so many tokens, at the positions from `first` on: [L, 1, E].
  /// With `documents`, at those positions: [B, L, 1, E].
  std::pair<at::Tensor, at::Tensor> AnglesAt(const api::LayerOptions& layer, std::int64_t first,
                                             std::int64_t tokens,
                                             const Documents* documents = nullptr);

  /// For attention within a window: what is added to the scores [rows, rows + window - 1] of rows
  /// successive tokens and of the keys that they see together. 0 where row i sees key j, the
  /// window keys from j = i on, else -inf. At most kBandRows rows.
  at::Tensor Band(std::int64_t rows, std::int64_t window, at::ScalarType type);

  /// Rows of scores that are computed at once within a window: what a band takes is bounded by
  /// the window, whatever the length of the sequences.
  static constexpr std::int64_t kBandRows = 512;

 private:
  /// The angles of one rotary embedding.
  struct Angles {
    api::Rope rope;
    at::Tensor cosine;  ///< [tokens, 1, E]
    at::Tensor sine;    ///< [tokens, 1, E]; the first half negated
  };
  /// Those of the layer, for at least so many tokens.
  const Angles& AnglesOf(const api::LayerOptions& layer, std::int64_t first, std::int64_t tokens);

  const std::int64_t head_dim_;
  const at::Device device_;
  const bool has_local_;  ///< whether layers with a window have angles of their own
  Angles global_, local_;
  std::map<std::int64_t, at::Tensor> bands_;  ///< by window; of min(window, kBandRows) rows
};

/// Rotary position embedding of heads [B, L, N, E] of any type; the result is float32. Angles are
/// those of PositionTables, computed in float32; pairs are (i, i + E / 2), as Hugging Face's
/// rotate_half has them.
at::Tensor RotateHeads(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine);

/// The keys, after their rotation, and the values of a layer for tokens that were read before.
/// Without gradients.
class PastTokens {
 public:
  std::int64_t count() const { return count_; }
  /// Adds those [B, L, K, E] of the next tokens. The memory doubles when it is full, so that a
  /// token costs no copy of all.
  void Append(const at::Tensor& keys, const at::Tensor& values);
  /// Those of the newest `count` tokens: [B, count, K, E].
  at::Tensor Keys(std::int64_t count) const;
  at::Tensor Values(std::int64_t count) const;

 private:
  at::Tensor keys_, values_;  ///< [B, capacity, K, E]
  std::int64_t count_ = 0;
};

/// By what the tokens of a sequence attend to each other, within a window or to all before them:
/// the name of libtorch's kernel for heads of this model and type there, or "products" where no
/// kernel serves. Throws c10::Error: no such device.
std::string_view AttentionKernel(const api::DecoderConfig& config, bool within_window,
                                 at::ScalarType type, at::Device device);

/// x gain / sqrt(mean(x^2) + epsilon) over the last dimension; float32.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& gain, double epsilon);
/// The same with the model's epsilon, and the gain that the model makes of a norm's weight.
at::Tensor ModelNorm(const api::DecoderConfig& config, const at::Tensor& x,
                     const at::Tensor& weight);

/// cap tanh(x / cap); x itself with a cap of 0.
at::Tensor SoftCapped(const at::Tensor& x, double cap);

/// One decoder layer: x [B, L, D] to x [B, L, D]. With a `basis` [D, c], what the layer adds to x
/// lies in it: attention_output [c, H E] and down [c, I] give coefficients. Without `documents`
/// each sequence is one. With `past`, which allows none, the tokens of x stand behind those, and
/// are added to them: any number of tokens the first time, then one at a time.
at::Tensor DecoderLayer(const api::DecoderConfig& config, const api::LayerOptions& options,
                        const LayerWeights& weights, const at::Tensor& basis,
                        PositionTables& positions, const at::Tensor& x,
                        const Documents* documents = nullptr, PastTokens* past = nullptr);

}  // namespace swarm::model
