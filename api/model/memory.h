// About how many bytes a microbatch occupies in a worker. Pure.
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::api {

/// What `layers` decoder layers of the model keep of `tokens` tokens between forward and backward,
/// in float32 (BF16 and FP16 keep less): inputs of norms, of products and of the attention, which
/// keeps no scores; or what `recompute` leaves of them. Copies of keys and values for heads that
/// share them are not counted; only CUDA makes them, where it has no kernel that reads shared ones.
/// With `head` also what the loss keeps, among it the head's gradient. Source:
/// worker/model/arithmetic/decoder.cc and head_loss.cc, tensor by tensor.
std::uint64_t GraphBytes(const DecoderConfig& config, Recompute recompute, std::uint64_t layers,
                         std::uint64_t tokens, bool head);

/// What a backward holds besides: the gradients of activations at its widest point, and what it has
/// computed again. One backward runs at a time.
std::uint64_t BackwardBytes(const DecoderConfig& config, Recompute recompute, std::uint64_t layers,
                            std::uint64_t tokens);

/// Parameters of the adapters of a layer.
std::uint64_t AdapterParameters(const DecoderConfig& config, const Lora& lora);

/// Versions of the weights that a stage holds; as many steps are open.
std::uint64_t VersionsOf(const Spec& spec);
/// Of a parameter and version: its master, and its operand where that is not the master itself.
std::uint64_t OperandBytes(const Spec& spec);
/// Of a parameter in a microbatch's fresh gradient.
std::uint64_t FreshBytes(const Spec& spec);
/// Of a parameter in an accumulator.
std::uint64_t ElementBytes(const Spec& spec);

/// The state of a stage in a worker, with what its reduces need besides: its weights (`trained` and
/// `frozen` parameters), optimizer, accumulators, fresh gradients and the sums being made.
std::uint64_t StateBytes(const Spec& spec, std::uint64_t trained, std::uint64_t frozen);

/// What a worker that serves the stage has resident beside graphs: its weights, optimizer, fresh
/// gradients, accumulators, and the sums of two steps, which late peers may ask for (they have a
/// share of the budget, so StateBytes is without them). `alone`: without other replicas, where
/// sums are the accumulators themselves. CopyBytes come and go.
std::uint64_t ServingBytes(const Spec& spec, std::uint64_t trained, std::uint64_t frozen,
                           bool alone);

/// A copy of the state: weights and moments.
std::uint64_t CopyBytes(const Spec& spec, std::uint64_t trained, std::uint64_t frozen);

/// One microbatch's activations at a boundary, as float32.
std::uint64_t BoundaryBytes(const SwarmJob& job);

/// The part of a worker's memory budget that graphs have; the rest is for what waits, travels, or
/// is kept for others.
inline std::uint64_t GraphShare(std::uint64_t budget) { return budget / 2; }

/// The graphs that a worker must be able to hold: one microbatch in flight, one more of a repair,
/// and one backward, in a stage that has its share of the layers, rounded up, and the head.
/// Requires a valid job with a model that is read.
std::uint64_t LeastGraphBytes(const SwarmJob& job);

/// The least budget with which the job can run: its shares have room for LeastGraphBytes. Requires
/// the same.
std::uint64_t NeededBudget(const SwarmJob& job);

/// The microbatches that a worker may hold between forward and backward: spec.pipeline.inFlightMax,
/// or fewer where the budget has no room for as many and a repair's. 0: any number. Requires the
/// same.
std::uint64_t InFlightMax(const Spec& spec);

/// The microbatches that a worker should have at once, since they pass through it together: with
/// Residency::kSwap the weights of a segment are read once for all of them. 0: any number will do.
/// Requires the same.
std::uint64_t TasksTogether(const Spec& spec);

/// Disk of a worker with Residency::kSwap whose stage trains so many parameters, beside what is
/// frozen, and CopyBytes, which come and go: weights and moments, the gradients of microbatches
/// that pass together, their sum; in Delayed weights and sum twice; in Local also outer and local
/// weights, the velocity, what an inner step moved, the round's sums, and what waits for the turn
/// of its fragment. Requires the same.
std::uint64_t SwapDiskBytes(const Spec& spec, std::uint64_t trained);

/// Of a stage with Residency::kSwap, the trained parameters that need as much memory as so many
/// that are frozen, at least: those have no moments and no gradients.
std::uint64_t FrozenAsTrained(std::uint64_t frozen);

/// The most of the same disk that the inputs of segments need, which microbatches keep until their
/// backward, where memory has no room for them. Requires the same.
std::uint64_t SwapInputBytes(const Spec& spec);

/// The least memory of a stage with Residency::kSwap: three quarters of it have room for its
/// largest segment twice, of so many parameters of so many bytes each, with moments.
std::uint64_t LeastSwapMemory(std::uint64_t largest, std::uint64_t parameter_bytes);

/// The same of a job's stages, whose smallest segments are a layer, the embedding and the head.
/// Requires the same.
std::uint64_t LeastSwapMemory(const SwarmJob& job);

}  // namespace swarm::api
