#include "api/outer_step.h"

namespace swarm::api {
namespace {

OuterStep DefaultFor(std::uint64_t replicas) {
  if (replicas >= 8) return {.learning_rate = 0.8, .momentum = 0.9};
  if (replicas >= 4) return {.learning_rate = 1, .momentum = 0.8};
  if (replicas >= 2) return {.learning_rate = 1, .momentum = 0.5};
  return {};
}

}  // namespace

std::uint64_t ReplicasOfRound(const Training& training) {
  return training.globalBatchSize /
         (training.microbatchSize * training.local.innerSteps * training.local.microbatches);
}

OuterStep OuterStepOf(const Training& training) {
  const OuterStep usual = DefaultFor(ReplicasOfRound(training));
  return {.learning_rate = training.local.outerLearningRate.value_or(usual.learning_rate),
          .momentum = training.local.outerMomentum.value_or(usual.momentum)};
}

}  // namespace swarm::api
