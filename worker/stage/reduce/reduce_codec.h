// Encodings of the numbers of a reduce: fewer bytes than float32, at the price of an error, which
// the sender keeps and adds to its next contribution (error feedback: Seide et al., "1-bit SGD",
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
  /// Bytes of the encoding of `count` floats that are all finite.
  virtual std::size_t EncodedBytes(std::size_t count) const = 0;
  /// Never fails. A codec that cannot encode an infinity or a NaN gives an empty payload instead.
  /// Decode reads it as NaNs, so that the step is skipped.
  virtual Bytes Encode(std::span<const float> values) const = 0;
  /// Errors: kDataLoss (a payload that Encode does not give for so many floats).
  virtual Status Decode(const Bytes& payload, std::span<float> values) const = 0;
};

/// Null for kNone: floats are sent as they are.
std::unique_ptr<const ReduceCodec> MakeReduceCodec(api::ReduceCodec codec);

}  // namespace swarm::stage
