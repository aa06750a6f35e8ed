// What a CUDA device does for codecs and sums: the same bytes and bits as the CPU's code that each
// function names. Every function enqueues work on a stream and returns; it never waits for the
// device and allocates nothing. All pointers are into the memory of the stream's device, which is
// the current one; what they point to must live until the stream has passed. Errors of all of them:
// kInternal, for work that the device does not accept; what failed on the way shows where the
// caller waits for the stream. No CUDA headers here: host code includes this with any compiler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "worker/codec/block_codes.h"
#include "worker/codec/block_kernels.h"

struct CUstream_st;

namespace swarm::codec::cuda {

using Stream = ::CUstream_st*;  // cudaStream_t

/// What the dynamic map needs on the device: a copy of {DynamicMap(), NearestEntries()}.
struct DynamicTables {
  std::array<float, 256> map;
  NearestEntry nearest;
};

/// The value of an `odd_block` before a call: no block is odd.
inline constexpr std::uint32_t kNoBlock = 0xffffffff;

/// The n numbers x, encoded as BlockCodes(map, block, NotFinite::kBlockOfNaNs) does, into
/// EncodedBytes(n) bytes. Lowers *odd_block to the first block with a number that is not finite:
/// with kRefused, that is an error. `tables` may be null for kLinear. Requires: x aligned to 16
/// bytes, payload to 4; less than 2^31 blocks.
Status EncodeBlocks(CodeMap map, std::size_t block, const float* x, std::size_t n,
                    const DynamicTables* tables, std::byte* payload, std::uint32_t* odd_block,
                    Stream stream);

/// Decodes what EncodeBlocks gives. Lowers *odd_block to the first block that no encoder writes:
/// where BlockCodes::Decode gives kDataLoss. x is then undefined. Requires as EncodeBlocks.
Status DecodeBlocks(CodeMap map, std::size_t block, NotFinite not_finite, const std::byte* payload,
                    std::size_t n, const DynamicTables* tables, float* x, std::uint32_t* odd_block,
                    Stream stream);

}  // namespace swarm::codec::cuda
