// Compiled with -mavx512f -mavx512bw; reached only where HasIsa(kAvx512).
#include <immintrin.h>

#include <algorithm>

#include "worker/codec/blocks/block_kernels.h"

namespace swarm::codec {
namespace {

std::uint32_t Largest(const float* x, std::size_t n) {
  const __m512i mask = _mm512_set1_epi32(0x7fffffff);
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  std::size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    a = _mm512_max_epu32(a, _mm512_and_si512(_mm512_loadu_si512(x + i), mask));
    b = _mm512_max_epu32(b, _mm512_and_si512(_mm512_loadu_si512(x + i + 16), mask));
    c = _mm512_max_epu32(c, _mm512_and_si512(_mm512_loadu_si512(x + i + 32), mask));
    d = _mm512_max_epu32(d, _mm512_and_si512(_mm512_loadu_si512(x + i + 48), mask));
  }
  a = _mm512_max_epu32(_mm512_max_epu32(a, b), _mm512_max_epu32(c, d));
  return std::max(_mm512_reduce_max_epu32(a), kScalarKernels.largest(x + i, n - i));
}

void QuantizeLinear(const float* x, std::size_t n, float factor, std::uint8_t* codes) {
  const __m512 scale = _mm512_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), scale));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_cvtepi32_epi8(code));
  }
  kScalarKernels.quantize_linear(x + i, n - i, factor, codes + i);
}

bool DequantizeLinear(const std::uint8_t* codes, std::size_t n, float factor, float* x) {
  const __m512 scale = _mm512_set1_ps(factor);
  __m128i bad = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    bad = _mm_or_si128(bad, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(-128)));
    _mm512_storeu_ps(x + i, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), scale));
  }
  const bool rest = kScalarKernels.dequantize_linear(codes + i, n - i, factor, x + i);
  return rest && _mm_testz_si128(bad, bad);
}

void QuantizeDynamic(const float* x, std::size_t n, float factor, const NearestEntry& nearest,
                     std::uint8_t* codes) {
  const __m512 scale = _mm512_set1_ps(factor), one = _mm512_set1_ps(1), half = _mm512_set1_ps(0.5f);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m512 y = _mm512_mul_ps(_mm512_loadu_ps(x + i), scale);
    y = _mm512_min_ps(_mm512_max_ps(y, _mm512_set1_ps(-1)), one);
    y = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_add_ps(y, one), half), _mm512_set1_ps(65535), half);
    const __m512i four = _mm512_i32gather_epi32(_mm512_cvttps_epi32(y), nearest.code.data(), 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_cvtepi32_epi8(four));
  }
  kScalarKernels.quantize_dynamic(x + i, n - i, factor, nearest, codes + i);
}

void DequantizeDynamic(const std::uint8_t* codes, std::size_t n, const float* map, float factor,
                       float* x) {
  const __m512 scale = _mm512_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    const __m512 entries = _mm512_i32gather_ps(_mm512_cvtepu8_epi32(bytes), map, sizeof(float));
    _mm512_storeu_ps(x + i, _mm512_mul_ps(entries, scale));
  }
  kScalarKernels.dequantize_dynamic(codes + i, n - i, map, factor, x + i);
}

}  // namespace

const BlockKernels kAvx512Kernels = {Largest, QuantizeLinear, DequantizeLinear, QuantizeDynamic,
                                     DequantizeDynamic};

}  // namespace swarm::codec
