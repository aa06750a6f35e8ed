// What the numbers of a reduce are sent in: fewer bytes than float32, at the price of an error that
// the sender keeps and adds to what it sends next (error feedback: Seide et al., "1-bit SGD",
// Interspeech 2014; Karimireddy et al., arXiv 1901.09847). No tensors here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"

namespace swarm::stage {

/// Stateless; the bytes are the same on every machine.
class ReduceCodec {
 public:
  virtual ~ReduceCodec() = default;
  /// Of so many floats that are all finite.
  virtual std::size_t EncodedBytes(std::size_t count) const = 0;
  /// Never fails. A codec that cannot say what is not finite gives an empty payload for floats of
  /// which one is not: they are read as NaNs, so that the step is skipped.
  virtual Bytes Encode(std::span<const float> values) const = 0;
  /// Errors: kDataLoss (a payload that Encode does not give for so many floats).
  virtual Status Decode(const Bytes& payload, std::span<float> values) const = 0;
};

/// Null for kNone: floats are sent as they are.
std::unique_ptr<const ReduceCodec> MakeReduceCodec(api::ReduceCodec codec);

}  // namespace swarm::stage
