// Records of TensorBoard's event files: the room of that format. Pure.
//
// A record is: u64 length, u32 masked CRC-32C of these 8 bytes, the message, u32 masked CRC-32C of
// it, all little endian (TFRecord). The message is an Event of tensorboard/compat/proto/event.proto
// in protobuf's encoding, of which we write few fields:
//   Event       {1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary summary,
//                7: SessionLog session_log}
//   Summary     {1: repeated Value value}       Value      {1: string tag, 2: float simple_value}
//   SessionLog  {1: enum status; START = 1}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace swarm::trainer {

/// A number of a step, under the name of its curve.
struct Scalar {
  std::string_view tag;
  double value = 0;  ///< written as float32
};

/// The first record of every file. `time` is in seconds since 1970, here and below.
std::string FileVersionRecord(double time);
/// Says that a program goes on at `step`: readers drop what they have of this step and later ones.
std::string SessionStartRecord(double time, std::uint64_t step);
std::string ScalarsRecord(double time, std::uint64_t step, std::span<const Scalar> scalars);

}  // namespace swarm::trainer
