// The codecs that only choose a floating-point type.
#pragma once

#include <memory>

#include "worker/codec/codec.h"

namespace swarm::codec {

/// float32, little endian, row-major. Lossless; shares memory in both directions (a payload that is
/// not aligned to an element is copied).
std::unique_ptr<Codec> MakeFloat32Codec();

/// bfloat16, little endian, row-major, rounded to nearest even. Error: |x - x'| <= 2^-8 |x|.
std::unique_ptr<Codec> MakeBFloat16Codec();

}  // namespace swarm::codec
