#include "worker/codec/cuda/float_body.h"
#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/launch.cuh"

namespace swarm::codec::cuda {

Status EncodeBFloat16(const float* x, std::size_t n, std::uint16_t* halves, Stream stream) {
  return Apply("encode", x, n, halves, ToBFloat16(), stream);
}

Status DecodeBFloat16(const std::uint16_t* halves, std::size_t n, float* x, Stream stream) {
  return Apply("decode", halves, n, x, FromBFloat16(), stream);
}

Status EncodeFloat16(const float* x, std::size_t n, std::uint16_t* halves, Stream stream) {
  return Apply("encode", x, n, halves, ToFloat16(), stream);
}

Status DecodeFloat16(const std::uint16_t* halves, std::size_t n, float* x, Stream stream) {
  return Apply("decode", halves, n, x, FromFloat16(), stream);
}

}  // namespace swarm::codec::cuda
