// The loss of the head without the logits of a whole microbatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace swarm::model {

/// How many tokens' logits are held at once. A function of the vocabulary and the kind of device
/// alone, so that the bits of a microbatch's gradients do not depend on the machine's memory.
std::int64_t LossTokensAtOnce(std::int64_t vocab_size, bool on_gpu);

struct HeadLossOptions {
  std::int64_t tokens_at_once = 1;
  /// Weight of the square of log(sum of exp(logits)), averaged over the tokens, in the gradients:
  /// it keeps logits from drifting (Chowdhery et al., arXiv:2204.02311). The loss is without it.
  double z_loss = 0;
  double cap = 0;                           ///< of logits, as SoftCapped (decoder.h)
  std::optional<at::ScalarType> type = {};  ///< of products' operands; absent: that of the head
  /// The flat positions of the labels that count, int64 where x is; undefined: all count. Absent:
  /// they are looked for, for which the host waits.
  std::optional<at::Tensor> counted = {};
};

/// The cross entropy in nats of the (capped) logits x headᵀ, a float32 scalar: x [B, L, D] float32,
/// head [V, D], labels [B, L] int64. It is the sum over the labels that are not -1, divided by B L;
/// the others cost nothing. Products are computed in the type of the options, the rest in float32;
/// with binary16 they are those of half.h, and so are the gradients.
///
/// Where gradients are enabled, those of x and of the head are computed at once, a part of the
/// tokens after the other: logits are made once and never kept. What waits for the backward is as
/// large as x and, if it is trained, the head.
at::Tensor HeadLoss(const at::Tensor& x, const at::Tensor& head, const at::Tensor& labels,
                    const HeadLossOptions& options);

}  // namespace swarm::model
