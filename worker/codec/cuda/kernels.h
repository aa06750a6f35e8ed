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
#include "worker/codec/blocks/block_codes.h"
#include "worker/codec/blocks/block_kernels.h"
#include "worker/optim/update.h"

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
/// with kRefused, that is an error. `tables` may be null for kLinear. Requires a payload that is
/// aligned to 4 bytes and less than 2^31 blocks; blocks of a multiple of 4 numbers and an x aligned
/// to 16 bytes are sooner done.
Status EncodeBlocks(CodeMap map, std::size_t block, const float* x, std::size_t n,
                    const DynamicTables* tables, std::byte* payload, std::uint32_t* odd_block,
                    Stream stream);

/// Decodes what EncodeBlocks gives. Lowers *odd_block to the first block that no encoder writes:
/// where BlockCodes::Decode gives kDataLoss. x is then undefined. Requires as EncodeBlocks.
Status DecodeBlocks(CodeMap map, std::size_t block, NotFinite not_finite, const std::byte* payload,
                    std::size_t n, const DynamicTables* tables, float* x, std::uint32_t* odd_block,
                    Stream stream);

// Narrow floats, rounded to nearest, halfway to even. `halves` are the bits of their formats.

/// As the codec BF16. A NaN stays one; which, differs from libtorch's.
Status EncodeBFloat16(const float* x, std::size_t n, std::uint16_t* halves, Stream stream);
Status DecodeBFloat16(const std::uint16_t* halves, std::size_t n, float* x, Stream stream);
/// IEEE's binary16; what is too large becomes infinite.
Status EncodeFloat16(const float* x, std::size_t n, std::uint16_t* halves, Stream stream);
Status DecodeFloat16(const std::uint16_t* halves, std::size_t n, float* x, Stream stream);

// Folding gradients into the sums of a step (worker/model/decoder/gradient_store.h). Every element
// is added to by one thread; in tables, in the order of the positions.

/// sum[i] += values[i]
Status AddFloats(const float* values, std::size_t n, float* sum, Stream stream);
/// sum[i] += values[i], which are bfloat16.
Status AddBFloat16s(const std::uint16_t* values, std::size_t n, float* sum, Stream stream);

/// Some rows of a table [V, width].
struct Rows {
  const std::int64_t* ids;  ///< [count], each once
  std::size_t count;
  std::size_t width;
};

/// Adds the rows of `values` [positions, width] to those of `table`, as index_add does on a CPU: to
/// row ids[u], one after the other, the rows order[i] for begins[u] <= i < begins[u + 1]. With
/// positions that are sorted by their token, ties in their order, that is the order of the
/// positions. The host makes both lists; it has the tokens before the device does.
Status AddRows(const float* values, const Rows& rows, const std::uint32_t* order,
               const std::uint32_t* begins, float* table, Stream stream);

// Exact sums (worker/optim/fixed_point.h).

/// Raises *largest to the bits of optim::LargestMagnitude(values).
Status RaiseToLargestMagnitude(const float* values, std::size_t n, std::uint32_t* largest,
                               Stream stream);
/// As optim::AddQuantized, with its requirement.
Status AddQuantized(const float* values, std::size_t n, int exponent, std::int64_t* sum,
                    Stream stream);
/// The same for the rows `values` [rows.count, width] of a table.
Status AddQuantizedRows(const float* values, const Rows& rows, int exponent, std::int64_t* table,
                        Stream stream);
/// Sets the bits in *bits so that its width is at least optim::MagnitudeBits(sum); the same if it
/// was 0.
Status SetMagnitudeBits(const std::int64_t* sum, std::size_t n, std::uint64_t* bits, Stream stream);
/// As optim::Dequantize.
Status Dequantize(const std::int64_t* sum, std::size_t n, int exponent, float* values,
                  Stream stream);

// Norms, to the bits of optim::SquaredNorm. Both need memory for NormBlocks(n) doubles, `squares`.

std::size_t NormBlocks(std::size_t n);
Status SquaredNorm(const float* values, std::size_t n, double* squares, double* norm,
                   Stream stream);
/// Of sum[i] 2^-exponent.
Status SquaredNorm(const std::int64_t* sum, std::size_t n, int exponent, double* squares,
                   double* norm, Stream stream);

/// The accumulators of the digests of pieces (digest_body.h).
struct DigestTask;
Status DigestPieces(const DigestTask& task, Stream stream);

// Updates of a tensor, to the bits of worker/optim/update.h.

/// As optim::UpdateSpans, of n elements. `weights` may be `old_weights`.
struct UpdateMemory {
  const float* old_weights;
  const float* gradient;
  float* first_moment;
  float* second_moment;
  float* weights;
  std::size_t n;
};

/// As optim::UpdateAdamW. A tensor may be updated in parts.
Status UpdateAdamW(const optim::UpdateOptions& options, const UpdateMemory& memory, Stream stream);

/// What UpdateLamb writes besides, for a tensor of n elements.
struct LambMemory {
  float* direction;       ///< [n]
  double* squares;        ///< [NormBlocks(n)]
  double* squared_norms;  ///< [2]
};

/// As optim::UpdateLamb.
Status UpdateLamb(const optim::UpdateOptions& options, const UpdateMemory& memory,
                  const LambMemory& lamb, Stream stream);

}  // namespace swarm::codec::cuda
