// The decision about a step, from what its reduces reported (docs/protocol.md, rule 12). Sums are
// taken in one fixed order, so that a trainer and its successor, and the single-process reference,
// decide the same. Pure.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// The global norm of the gradient: the root of the sum of the tensors' squared norms, added in
/// double in the order of their names. A tensor counts once.
double ComputeGlobalNorm(const std::map<std::string, double>& squared_norms);

/// The factor that brings a gradient of that norm to at most `max_norm` (0: no clipping), as
/// torch.nn.utils.clip_grad_norm_ has it: min(1, max_norm / (norm + 1e-6)).
double ComputeClip(double norm, double max_norm);

/// The mean of the microbatches' losses, summed in the order of their ids.
double ComputeLoss(std::span<const double> loss_per_microbatch);

/// The report of a step's reduce, once for each group (all participants reported the same).
struct GroupReport {
  GroupResult result;
  std::vector<TensorNorm> norms;
};

struct CommitInputs {
  Generation generation;
  Step step;
  std::vector<GroupReport> groups;  ///< ordered by group
  std::vector<double> losses;       ///< by microbatch
  double max_grad_norm = 0;
  double learning_rate = 0;
  /// The part of the step's labels that count, above 0. Losses and gradients come as sums over
  /// those that count, divided by the number of all; the record is of their means.
  double counted_part = 1;
};

/// The commit record; its `clip` turns the sums into the mean's clipped gradient. A norm or loss
/// that is not finite gives a skip: every worker advances the version and keeps its weights.
CommitRecord DecideCommit(const CommitInputs& inputs);

}  // namespace swarm::protocol
