#include "worker/model/arithmetic/decoder.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "worker/model/arithmetic/fused.h"
#include "worker/model/arithmetic/half.h"
#include "worker/model/arithmetic/recompute.h"
#include "worker/model/arithmetic/rotary.h"

namespace swarm::model {
namespace {

/// What x is multiplied by in a norm with this weight.
at::Tensor GainOf(const api::DecoderConfig& config, const at::Tensor& weight) {
  return config.unit_offset_gains ? weight + 1 : weight;
}

/// Repeats every head of keys or values for the queries that share it: [B, L, K, E] to [B, L, H,
/// E].
at::Tensor RepeatHeads(const at::Tensor& heads, std::int64_t times) {
  if (times == 1) return heads;
  const auto b = heads.size(0), l = heads.size(1), k = heads.size(2), e = heads.size(3);
  return heads.unsqueeze(3).expand({b, l, k, times, e}).reshape({b, l, k * times, e});
}

/// How scores are made of the products of queries and keys.
struct Scores {
  double scale = 1;  ///< of the products
  double cap = 0;    ///< as SoftCapped
};

Scores ScoresOf(const api::DecoderConfig& config) {
  const double scalar = config.query_pre_attn_scalar > 0 ? config.query_pre_attn_scalar
                                                         : static_cast<double>(config.head_dim);
  return {1 / std::sqrt(scalar), config.attn_logit_softcapping};
}

/// Attend with a cap, which no kernel has. The backward makes the scores again from the heads.
at::Tensor AttendCapped(const Scores& scores, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const std::optional<at::Tensor>& mask) {
  const std::int64_t times = q.size(2) / k.size(2);
  const auto attend = [scores, mask, times](const std::vector<at::Tensor>& heads) {
    const at::Tensor queries = heads[0].transpose(1, 2);
    const at::Tensor keys = RepeatHeads(heads[1], times).transpose(1, 2);
    const at::Tensor values = RepeatHeads(heads[2], times).transpose(1, 2);
    at::Tensor products = at::matmul(queries, keys.transpose(-1, -2)).to(at::kFloat);
    products = SoftCapped(products * scores.scale, scores.cap);
    if (mask) products = products + *mask;
    return at::matmul(products.softmax(-1).to(values.scalar_type()), values).transpose(1, 2);
  };
  return Recomputed(attend, {q, k, v}, {});
}

/// A call of libtorch's attention; heads are [B, H, L, E].
struct AttentionCall {
  at::Tensor q, k, v;
  std::optional<at::Tensor> mask;
  bool causal = false;
  double scale = 1;
  bool shares = false;  ///< heads share keys and values
  at::SDPBackend Kernel() const {
    return static_cast<at::SDPBackend>(
        at::_fused_sdp_choice(q, k, v, mask, /*dropout_p=*/0.0, causal, scale, shares));
  }
};

/// The call for heads as Attend has them, without a cap.
AttentionCall CallOf(const Scores& scores, const at::Tensor& q, const at::Tensor& k,
                     const at::Tensor& v, const std::optional<at::Tensor>& mask) {
  const std::int64_t times = q.size(2) / k.size(2);
  AttentionCall call{.q = q.transpose(1, 2),
                     .k = k.transpose(1, 2),
                     .v = v.transpose(1, 2),
                     .mask = mask,
                     .causal = !mask && q.size(1) > 1,
                     .scale = scores.scale,
                     .shares = times > 1};
  // Some kernels read the keys and values that heads share in place. They add the gradients of
  // such heads in another order than RepeatHeads does. On a GPU that has none for these heads, one
  // for copies is better than one that stores all scores.
  if (call.shares && !q.is_cpu() && call.Kernel() == at::SDPBackend::math) {
    call.k = RepeatHeads(k, times).transpose(1, 2);
    call.v = RepeatHeads(v, times).transpose(1, 2);
    call.shares = false;
  }
  return call;
}

/// Attention of heads [B, L, H, E] over keys and values [B, M, K, E]. Without a mask it is causal,
/// and L = M; or L = 1, and the token sees all of the keys. With a cap only the latter.
at::Tensor Attend(const Scores& scores, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v, const std::optional<at::Tensor>& mask) {
  if (scores.cap > 0) return AttendCapped(scores, q, k, v, mask);
  const AttentionCall call = CallOf(scores, q, k, v, mask);
  return at::scaled_dot_product_attention(call.q, call.k, call.v, call.mask, /*dropout_p=*/0.0,
                                          call.causal, call.scale, call.shares)
      .transpose(1, 2);
}

/// Attention in which a token sees `window` tokens, itself included.
at::Tensor AttendWithin(const Scores& scores, std::int64_t window, PositionTables& positions,
                        const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t tokens = q.size(1);
  const std::int64_t block = std::min(window, PositionTables::kBandRows);
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < tokens; begin += block) {
    const std::int64_t rows = std::min(block, tokens - begin);
    const std::int64_t first = std::max<std::int64_t>(begin - window + 1, 0);
    const std::int64_t count = begin + rows - first;
    const at::Tensor band = positions.Band(rows, window, q.scalar_type());
    parts.push_back(Attend(scores, q.narrow(1, begin, rows), k.narrow(1, first, count),
                           v.narrow(1, first, count), band.narrow(1, band.size(1) - count, count)));
  }
  return at::cat(parts, 1);
}

/// RMSNorm of each head of queries and keys [B, L, H + K, E]; gains [2 E].
at::Tensor NormHeads(const api::DecoderConfig& config, const at::Tensor& gains,
                     const at::Tensor& heads) {
  const auto parts = gains.view({2, config.head_dim}).split(1);
  const at::Tensor of_heads =
      at::cat({parts[0].expand({config.num_attention_heads, config.head_dim}),
               parts[1].expand({config.num_key_value_heads, config.head_dim})});
  return ModelNorm(config, heads.to(at::kFloat), of_heads);
}

/// Attention of one token [B, 1, H, E] that `past` has, too, over the tokens that it sees there.
at::Tensor AttendToPast(const Scores& scores, std::int64_t window, const PastTokens& past,
                        const at::Tensor& q) {
  const std::int64_t seen = window == 0 ? past.count() : std::min(window, past.count());
  return Attend(scores, q, past.Keys(seen), past.Values(seen), {});
}

/// Attention of all tokens of x [B, L, H, E] over their own keys and values.
at::Tensor AttendToAll(const Scores& scores, std::int64_t window, PositionTables& positions,
                       const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t tokens = q.size(1);
  const bool all = window == 0 || window >= tokens;
  if (all && scores.cap == 0) return Attend(scores, q, k, v, {});
  // With a cap, blocks of rows bound the scores. The bands of few windows serve all lengths.
  const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens)));
  return AttendWithin(scores, all ? whole : window, positions, q, k, v);
}

/// The same for each document alone, so that it costs no more than the documents are long.
at::Tensor AttendInDocuments(const Scores& scores, const std::vector<std::int64_t>& lengths,
                             std::int64_t window, PositionTables& positions, const at::Tensor& q,
                             const at::Tensor& k, const at::Tensor& v) {
  const auto cut = [&](const at::Tensor& heads) {
    return heads.flatten(0, 1).unsqueeze(0).split_with_sizes(lengths, 1);
  };
  const auto queries = cut(q), keys = cut(k), values = cut(v);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    parts.push_back(AttendToAll(scores, window, positions, queries[i], keys[i], values[i]));
  }
  return at::cat(parts, 1).view(q.sizes());
}

/// The product, and what adapters of its parts add: `first` and those behind it, of these rows.
at::Tensor Adapt(const LayerWeights& weights, Adapted first, const std::vector<std::int64_t>& rows,
                 const at::Tensor& x, const at::Tensor& product) {
  const auto adapters =
      std::span(weights.adapters).subspan(static_cast<std::size_t>(first), rows.size());
  if (std::ranges::none_of(adapters, [](const Adapter& a) { return a.down.defined(); })) {
    return product;
  }
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Adapter& adapter = adapters[i];
    std::vector<std::int64_t> shape = product.sizes().vec();
    shape.back() = rows[i];
    parts.push_back(adapter.down.defined() ? Project(Project(x, adapter.down), adapter.up)
                                           : at::zeros({1}, product.options()).expand(shape));
  }
  return product + weights.adapter_scale * (parts.size() == 1 ? parts[0] : at::cat(parts, -1));
}

/// The largest length of a row of the last dimension; float32.
at::Tensor LargestRow(const at::Tensor& rows) {
  return at::linalg_vector_norm(rows, 2, {-1}, /*keepdim=*/false, at::kFloat).amax();
}

/// The GradientBound of attention of {q, k, v}. R are the lengths of the longest rows, s the scale
/// of the products. A row of q has weights p_j >= 0 with a sum of 1. Their gradients are products
/// of rows, at most R_g R_v. Those of the scores, p_j times the distance to the mean, are at most
/// half of that each (p_j (1 - p_j) times a difference), and R_g R_v in sum: it gives q at most s
/// R_g R_v R_k. A key gets from each of the n rows that may see it, in all heads that share it, at
/// most s R_g R_v R_q / 2, and its value R_g. A cap only makes gradients of scores smaller.
at::Tensor AttentionBound(const Scores& scores, const at::Tensor& gradient,
                          const std::vector<at::Tensor>& heads) {
  const auto rows = static_cast<double>(heads[0].size(1) * (heads[0].size(2) / heads[1].size(2)));
  const at::Tensor q = LargestRow(heads[0]), k = LargestRow(heads[1]), v = LargestRow(heads[2]);
  // A sum is a bound of each of its terms.
  return LargestRow(gradient) * (rows + v * (1 + scores.scale * (1 + k + 0.5 * rows * q)));
}

at::Tensor Attention(const api::DecoderConfig& config, const api::LayerOptions& options,
                     const LayerWeights& weights, PositionTables& positions, const at::Tensor& x,
                     const Documents* documents, PastTokens* past) {
  const std::int64_t queries = config.num_attention_heads;
  const std::int64_t keys = config.num_key_value_heads;
  const auto type = weights.query_key_value.scalar_type();
  const std::int64_t width = config.head_dim;
  const at::Tensor heads =
      Adapt(weights, Adapted::kQuery, {queries * width, keys * width, keys * width}, x,
            Project(x, weights.query_key_value, weights.input_bias))
          .view({x.size(0), x.size(1), queries + 2 * keys, width});
  const std::int64_t first = past == nullptr ? 0 : past->count();
  const Scores scores = ScoresOf(config);
  const auto attend = [&](const std::vector<at::Tensor>& of) {
    if (past != nullptr) past->Append(of[1], of[2]);
    if (first > 0) return AttendToPast(scores, options.window, *past, of[0]);
    if (documents == nullptr) {
      return AttendToAll(scores, options.window, positions, of[0], of[1], of[2]);
    }
    return AttendInDocuments(scores, documents->lengths, options.window, positions, of[0], of[1],
                             of[2]);
  };
  const auto give = [&](const at::Tensor& mixed) {
    const at::Tensor joined = mixed.reshape({x.size(0), x.size(1), queries * width});
    return Adapt(weights, Adapted::kOutput, {config.hidden_size}, joined,
                 Project(joined, weights.attention_output));
  };
  const bool half = type == at::kHalf;
  if (!half && HasFused(heads) && options.rotary && !weights.head_norms.defined()) {
    const auto [cosine, sine] = positions.AnglesAt(options, first, x.size(1), documents);
    const auto apart = FusedHeads(heads, keys, cosine, sine);
    return give(attend({apart[0], apart[1], apart[2]}));
  }
  // Splits instead of narrows: one copy then joins the gradients of the parts.
  const auto parts = heads.split_with_sizes({queries + keys, keys}, 2);
  at::Tensor placed = parts[0];
  if (weights.head_norms.defined()) placed = NormHeads(config, weights.head_norms, placed);
  if (options.rotary) {
    const auto [cosine, sine] = positions.AnglesAt(options, first, x.size(1), documents);
    placed = RotateHeads(placed, cosine, sine);
  }
  const auto split = (half ? placed : placed.to(type)).split_with_sizes({queries, keys}, 2);
  // The values are a part of the product. Where nothing else needs it, a copy of them lets it go.
  const bool needed = weights.head_norms.defined() || !options.rotary;
  const at::Tensor values = needed || half ? parts[1] : parts[1].contiguous();
  const auto bound = [scores](const at::Tensor& gradient, const std::vector<at::Tensor>& of) {
    return AttentionBound(scores, gradient, of);
  };
  return give(half ? InHalf(attend, bound, {split[0], split[1], values})
                   : attend({split[0], split[1], values}));
}

at::Tensor Mlp(const api::DecoderConfig& config, const LayerWeights& weights, const at::Tensor& x) {
  const std::int64_t inner = config.intermediate_size;
  const at::Tensor gate_up =
      Adapt(weights, Adapted::kGate, {inner, inner}, x, Project(x, weights.gate_up));
  const auto down = [&](const at::Tensor& gated) {
    return Adapt(weights, Adapted::kDown, {config.hidden_size}, gated,
                 Project(gated, weights.down));
  };
  if (config.activation == api::Activation::kSilu && HasFused(gate_up)) {
    return down(FusedGate(gate_up));
  }
  const auto parts = gate_up.chunk(2, -1);
  const at::Tensor gate = config.activation == api::Activation::kSilu
                              ? at::silu(parts[0])
                              : at::gelu(parts[0], /*approximate=*/"tanh");
  return down(gate * parts[1]);
}

/// ModelNorm for a product with weights of `type`, in that type where it costs nothing.
at::Tensor NormFor(const api::DecoderConfig& config, at::ScalarType type, const at::Tensor& x,
                   const at::Tensor& weight) {
  if (type != at::kBFloat16 || !HasFused(x)) return ModelNorm(config, x, weight);
  return FusedNorm(x, GainOf(config, weight), config.rms_norm_eps, type);
}

/// The residual and what the output of a branch adds to it.
at::Tensor Added(const api::DecoderConfig& config, const at::Tensor& x, const at::Tensor& output,
                 const at::Tensor& post_norm, const at::Tensor& basis) {
  if (post_norm.defined()) return x + ModelNorm(config, output.to(at::kFloat), post_norm);
  const at::Tensor branch = basis.defined() ? Project(output, basis) : output;
  return branch.scalar_type() != at::kFloat && HasFused(branch) ? FusedAdd(x, branch) : x + branch;
}

}  // namespace

at::Tensor Project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto type = weight.scalar_type();
  if (type == at::kHalf) {
    const at::Tensor product = HalfLinear(x, weight);
    return bias.defined() ? product + bias : product;
  }
  if (!bias.defined()) return at::linear(x.to(type), weight);
  return at::linear(x.to(type), weight, bias.to(type));
}

PositionTables::PositionTables(const api::DecoderConfig& config, at::Device device)
    : head_dim_(config.head_dim),
      device_(device),
      has_local_(config.rope_local_base_freq > 0),
      global_{.rope = config.rope, .cosine = {}, .sine = {}},
      local_{.rope = {.theta = config.rope_local_base_freq}, .cosine = {}, .sine = {}} {}

const PositionTables::Angles& PositionTables::AnglesOf(const api::LayerOptions& layer,
                                                       std::int64_t first, std::int64_t tokens) {
  Angles& of = has_local_ && layer.window > 0 ? local_ : global_;
  if (of.cosine.defined() && of.cosine.size(0) >= first + tokens) return of;
  // Where a text grows by a token, the tables do not.
  const std::int64_t rows = first == 0 ? tokens : 2 * (first + tokens);
  const at::NoGradGuard constants;
  const auto options = at::TensorOptions().dtype(at::kFloat);
  const at::Tensor frequencies = at::tensor(RotaryFrequencies(of.rope, head_dim_), options);
  const at::Tensor angles = at::arange(rows, options).unsqueeze(1) * frequencies;
  const at::Tensor cosine = angles.cos() * of.rope.attention_factor;
  const at::Tensor sine = angles.sin() * of.rope.attention_factor;
  of.cosine = at::cat({cosine, cosine}, 1).unsqueeze(1).to(device_);
  of.sine = at::cat({-sine, sine}, 1).unsqueeze(1).to(device_);
  return of;
}

std::pair<at::Tensor, at::Tensor> PositionTables::AnglesAt(const api::LayerOptions& layer,
                                                           std::int64_t first, std::int64_t tokens,
                                                           const Documents* documents) {
  const Angles& angles = AnglesOf(layer, first, tokens);
  const auto of_tokens = [&](const at::Tensor& table) {
    if (documents == nullptr) return table.narrow(0, first, tokens);
    const at::Tensor& positions = documents->positions;
    return table.index_select(0, positions.flatten()).view({positions.size(0), tokens, 1, -1});
  };
  return {of_tokens(angles.cosine), of_tokens(angles.sine)};
}

at::Tensor RotateHeads(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine) {
  const at::Tensor x = heads.to(at::kFloat);
  return x * cosine + x.roll(x.size(-1) / 2, -1) * sine;
}

at::Tensor PositionTables::Band(std::int64_t rows, std::int64_t window, at::ScalarType type) {
  at::Tensor& band = bands_[window];
  if (!band.defined()) {
    const at::NoGradGuard constants;
    const std::int64_t most = std::min(window, kBandRows);
    const at::Tensor distance =
        at::arange(most + window - 1).unsqueeze(0) - at::arange(most).unsqueeze(1);
    const at::Tensor hidden = distance.lt(0).logical_or(distance.ge(window));
    band = at::zeros(hidden.sizes(), at::TensorOptions().dtype(type))
               .masked_fill(hidden, -std::numeric_limits<double>::infinity())
               .to(device_);
  }
  return band.narrow(0, 0, rows).narrow(1, 0, rows + window - 1);
}

void PastTokens::Append(const at::Tensor& keys, const at::Tensor& values) {
  const std::int64_t tokens = keys.size(1), total = count_ + tokens;
  if (!keys_.defined() || keys_.size(1) < total) {
    const auto grown = [&](const at::Tensor& old, const at::Tensor& added) {
      const at::Tensor larger =
          at::empty({added.size(0), 2 * total, added.size(2), added.size(3)}, added.options());
      if (count_ > 0) larger.narrow(1, 0, count_).copy_(old.narrow(1, 0, count_));
      return larger;
    };
    keys_ = grown(keys_, keys);
    values_ = grown(values_, values);
  }
  keys_.narrow(1, count_, tokens).copy_(keys);
  values_.narrow(1, count_, tokens).copy_(values);
  count_ = total;
}

at::Tensor PastTokens::Keys(std::int64_t count) const {
  return keys_.narrow(1, count_ - count, count);
}

at::Tensor PastTokens::Values(std::int64_t count) const {
  return values_.narrow(1, count_ - count, count);
}

std::string_view AttentionKernel(const api::DecoderConfig& config, bool within_window,
                                 at::ScalarType type, at::Device device) {
  const Scores scores = ScoresOf(config);
  if (scores.cap > 0) return "products";
  constexpr std::int64_t kTokens = 16;  // no choice depends on it
  const auto heads = [&](std::int64_t count) {
    return at::zeros({1, kTokens, count, config.head_dim}, at::TensorOptions(device).dtype(type))
        .requires_grad_(true);
  };
  std::optional<at::Tensor> mask;
  if (within_window) mask = at::zeros({kTokens, kTokens}, at::TensorOptions(device).dtype(type));
  const at::Tensor keys = heads(config.num_key_value_heads);
  switch (CallOf(scores, heads(config.num_attention_heads), keys, keys, mask).Kernel()) {
    case at::SDPBackend::flash_attention:
      return "flash";
    case at::SDPBackend::efficient_attention:
      return "efficient";
    case at::SDPBackend::cudnn_attention:
      return "cudnn";
    case at::SDPBackend::math:
      return "math";
    default:
      return "unknown";
  }
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& gain, double epsilon) {
  if (gain.dim() == 1 && HasFused(x)) return FusedNorm(x, gain, epsilon, at::kFloat);
  return gain * (x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + epsilon));
}

at::Tensor ModelNorm(const api::DecoderConfig& config, const at::Tensor& x,
                     const at::Tensor& weight) {
  return RmsNorm(x, GainOf(config, weight), config.rms_norm_eps);
}

at::Tensor SoftCapped(const at::Tensor& x, double cap) {
  return cap > 0 ? cap * at::tanh(x / cap) : x;
}

at::Tensor DecoderLayer(const api::DecoderConfig& config, const api::LayerOptions& options,
                        const LayerWeights& weights, const at::Tensor& basis,
                        PositionTables& positions, const at::Tensor& x, const Documents* documents,
                        PastTokens* past) {
  const at::ScalarType type = weights.query_key_value.scalar_type();
  const at::Tensor attended =
      Attention(config, options, weights, positions,
                NormFor(config, type, x, weights.attention_norm), documents, past);
  const at::Tensor h = Added(config, x, attended, weights.attention_post_norm, basis);
  const at::Tensor expanded = Mlp(config, weights, NormFor(config, type, h, weights.mlp_norm));
  return Added(config, h, expanded, weights.mlp_post_norm, basis);
}

}  // namespace swarm::model
