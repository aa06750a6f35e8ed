// Gradients as integers, so that a sum does not depend on its order (docs/protocol.md, "Exact
// accumulation"). Pure, on plain memory.
//
// A tensor has an exponent e; a gradient g is added as the integer q = round(g 2^e), to the nearest
// and, halfway, to the even one. With M microbatches a step, |g| 2^e <= 2^b must hold for every
// element, where b = ContributionBits(M): this depends on the contribution alone, not on the worker
// that folds it. Each microbatch contributes at most twice to an element (a tied embedding: where
// it is looked up and where it is multiplied), so |sum| <= 2 M 2^b <= 2^62.
//
// The exponent of a step follows from the sum of an earlier one: its largest element is brought to
// b - kHeadroomBits bits. So contributions may grow by 2^20 before they do not fit, and an element
// is rounded by at most 2^-(b - 20) of the tensor's largest: 2^-37 for M = 16. Elements within
// 2^-13 of the largest keep all bits of their float32.
#pragma once

#include <cstdint>
#include <span>

namespace swarm::optim {

/// Bits between the largest element of a sum and the bound of the next contributions.
inline constexpr int kHeadroomBits = 20;
/// By how much each scale level lowers exponents (see Stage::SetScaleLevel).
inline constexpr int kScaleLevelBits = 16;
/// At this level every finite contribution fits.
inline constexpr unsigned kScaleLevelMax = 15;

/// b, above. Requires 1 <= microbatches <= 2^20.
int ContributionBits(std::uint64_t microbatches);

/// The nearest useful exponent: between the one at which every finite float fits and the one at
/// which every float is exact.
int ClampExponent(int contribution_bits, std::int64_t exponent);
/// The exponent before any sum is known: as if the largest element of a sum had been 2^-8.
int StartExponent(int contribution_bits);
/// The same for a sum of squares of numbers weighted 1/M, as if its largest element had been 2^-16
/// / M^2 (the square of 2^-8 / M): 2 log2(M) + 8 bits more. With StartExponent all of them could be
/// rounded to zero, and a sum of zeros gives no better exponent for the next step. An exponent that
/// is too high costs the repetition of a step at a higher scale level. Requires as
/// ContributionBits.
int StartExponentOfSquares(std::uint64_t microbatches);
/// The exponent that follows a sum with MagnitudeBits `magnitude_bits` (more than 0), taken with
/// `exponent`.
int NextExponent(int contribution_bits, int exponent, int magnitude_bits);
/// `exponent` at a scale level.
int LowerExponent(int contribution_bits, int exponent, unsigned level);

/// The largest |value|; not finite if a value is not. 0 for none.
float LargestMagnitude(std::span<const float> values);
/// Whether values up to `largest` in magnitude, which is finite, fit.
bool Fits(float largest, int exponent, int contribution_bits);
/// sum[i] += round(values[i] 2^exponent). `largest` is the largest magnitude of `values`. Requires
/// that it fits in 62 bits, and spans of one size.
void AddQuantized(std::span<const float> values, int exponent, float largest,
                  std::span<std::int64_t> sum);

/// The smallest n with -2^n <= q < 2^n for all q of `sum`.
int MagnitudeBits(std::span<const std::int64_t> sum);
/// values[i] = sum[i] 2^-exponent, rounded to float by way of double. `magnitude_bits` is at least
/// MagnitudeBits(sum). Spans of one size.
void Dequantize(std::span<const std::int64_t> sum, int exponent, int magnitude_bits,
                std::span<float> values);
/// The sum of the squares of a block: at most kNormBlock integers.
double SquaredBlock(std::span<const std::int64_t> sum);
/// What squares of integers are of the numbers that these stand for.
double ScaleSquares(double squares, int exponent);
/// The sum of the squares of sum[i] 2^-exponent, in the order of optim::SquaredNorm.
double SquaredNorm(std::span<const std::int64_t> sum, int exponent);

}  // namespace swarm::optim
