// Compiled with -mavx2 -mfma; reached only where HasIsa(kAvx2).
#include <immintrin.h>

#include <algorithm>

#include "worker/codec/blocks/block_kernels.h"

namespace swarm::codec {
namespace {

std::uint32_t Largest(const float* x, std::size_t n) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  __m256i a = _mm256_setzero_si256(), b = a;
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const auto* at = reinterpret_cast<const __m256i*>(x + i);
    a = _mm256_max_epu32(a, _mm256_and_si256(_mm256_loadu_si256(at), mask));
    b = _mm256_max_epu32(b, _mm256_and_si256(_mm256_loadu_si256(at + 1), mask));
  }
  alignas(32) std::uint32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_max_epu32(a, b));
  return std::max(*std::max_element(lanes, lanes + 8), kScalarKernels.largest(x + i, n - i));
}

// Four registers of 32-bit codes to one of bytes. Packing works within halves of a register; the
// permutation puts its result in order.
__m256i PackCodes(__m256i c0, __m256i c1, __m256i c2, __m256i c3) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i words_low = _mm256_packs_epi32(c0, c1), words_high = _mm256_packs_epi32(c2, c3);
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words_low, words_high), order);
}

void QuantizeLinear(const float* x, std::size_t n, float factor, std::uint8_t* codes) {
  const __m256 scale = _mm256_set1_ps(factor);
  const auto code = [&](const float* at) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(at), scale));
  };
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i bytes =
        PackCodes(code(x + i), code(x + i + 8), code(x + i + 16), code(x + i + 24));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), bytes);
  }
  kScalarKernels.quantize_linear(x + i, n - i, factor, codes + i);
}

bool DequantizeLinear(const std::uint8_t* codes, std::size_t n, float factor, float* x) {
  const __m256 scale = _mm256_set1_ps(factor);
  __m128i bad = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    bad = _mm_or_si128(bad, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(-128)));
    const __m256i low = _mm256_cvtepi8_epi32(bytes);
    const __m256i high = _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8));
    _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_cvtepi32_ps(low), scale));
    _mm256_storeu_ps(x + i + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(high), scale));
  }
  const bool rest = kScalarKernels.dequantize_linear(codes + i, n - i, factor, x + i);
  return rest && _mm_testz_si128(bad, bad);
}

void QuantizeDynamic(const float* x, std::size_t n, float factor, const NearestEntry& nearest,
                     std::uint8_t* codes) {
  const __m256 scale = _mm256_set1_ps(factor), one = _mm256_set1_ps(1), half = _mm256_set1_ps(0.5f);
  const auto* table = reinterpret_cast<const int*>(nearest.code.data());
  const auto code = [&](const float* at) {
    __m256 y = _mm256_mul_ps(_mm256_loadu_ps(at), scale);
    y = _mm256_min_ps(_mm256_max_ps(y, _mm256_set1_ps(-1)), one);
    y = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_add_ps(y, one), half), _mm256_set1_ps(65535), half);
    const __m256i four = _mm256_i32gather_epi32(table, _mm256_cvttps_epi32(y), 1);
    // Sign-extended, so that packing with signed saturation keeps the byte as it is.
    return _mm256_srai_epi32(_mm256_slli_epi32(four, 24), 24);
  };
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i bytes =
        PackCodes(code(x + i), code(x + i + 8), code(x + i + 16), code(x + i + 24));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), bytes);
  }
  kScalarKernels.quantize_dynamic(x + i, n - i, factor, nearest, codes + i);
}

void DequantizeDynamic(const std::uint8_t* codes, std::size_t n, const float* map, float factor,
                       float* x) {
  const __m256 scale = _mm256_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
    const __m256 entries = _mm256_i32gather_ps(map, _mm256_cvtepu8_epi32(bytes), sizeof(float));
    _mm256_storeu_ps(x + i, _mm256_mul_ps(entries, scale));
  }
  kScalarKernels.dequantize_dynamic(codes + i, n - i, map, factor, x + i);
}

}  // namespace

const BlockKernels kAvx2Kernels = {Largest, QuantizeLinear, DequantizeLinear, QuantizeDynamic,
                                   DequantizeDynamic};

}  // namespace swarm::codec
