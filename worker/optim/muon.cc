#include "worker/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/vectorized.h"
#include "worker/optim/norm.h"

namespace swarm::optim {
namespace {

// A tile of a product is kTileRows × kLanes sums, which fit into the registers of AVX2.
constexpr std::size_t kTileRows = 6, kLanes = 16;
constexpr std::size_t kPanel = 64;  ///< columns that a thread takes at once
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

std::size_t RoundUp(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// A matrix with zeros around it, so that all tiles are whole.
struct Padded {
  std::size_t rows, columns;
  std::size_t stride = RoundUp(columns, kLanes);
  std::vector<float> values = std::vector<float>(RoundUp(rows, kTileRows) * stride);

  Padded(std::size_t r, std::size_t c) : rows(r), columns(c) {}
  float* row(std::size_t i) { return values.data() + i * stride; }
  const float* row(std::size_t i) const { return values.data() + i * stride; }
};

/// The sums of a tile: out[r, c] = sum over k of left[r, k] packed[k, c].
SWARM_VECTORIZED void MultiplyTile(const float* left, std::size_t left_stride, const float* packed,
                                   std::size_t depth, float* out, std::size_t out_stride) {
  Lanes sums[kTileRows] = {};
  for (std::size_t k = 0; k < depth; ++k) {
    Lanes right;
    std::memcpy(&right, packed + k * kLanes, sizeof right);
    for (std::size_t r = 0; r < kTileRows; ++r) sums[r] += left[r * left_stride + k] * right;
  }
  for (std::size_t r = 0; r < kTileRows; ++r) {
    std::memcpy(out + r * out_stride, &sums[r], sizeof sums[r]);
  }
}

Padded Multiply(const Padded& left, const Padded& right, const ForEach& for_each) {
  Padded product(left.rows, right.columns);
  const std::size_t depth = left.columns;
  for_each((product.stride + kPanel - 1) / kPanel, [&](std::size_t panel) {
    const std::size_t first = panel * kPanel, last = std::min(first + kPanel, product.stride);
    std::vector<float> packed(depth * (last - first));
    for (std::size_t column = first; column < last; column += kLanes) {
      float* to = packed.data() + (column - first) * depth;
      for (std::size_t k = 0; k < depth; ++k) {
        std::memcpy(to + k * kLanes, right.row(k) + column, kLanes * sizeof(float));
      }
    }
    for (std::size_t row = 0; row < product.rows; row += kTileRows) {
      for (std::size_t column = first; column < last; column += kLanes) {
        MultiplyTile(left.row(row), left.stride, packed.data() + (column - first) * depth, depth,
                     product.row(row) + column, product.stride);
      }
    }
  });
  return product;
}

Padded Transpose(const Padded& matrix) {
  Padded transposed(matrix.columns, matrix.rows);
  constexpr std::size_t kBlock = 32;
  for (std::size_t i = 0; i < matrix.rows; i += kBlock) {
    for (std::size_t j = 0; j < matrix.columns; ++j) {
      const std::size_t end = std::min(i + kBlock, matrix.rows);
      for (std::size_t r = i; r < end; ++r) transposed.row(j)[r] = matrix.row(r)[j];
    }
  }
  return transposed;
}

/// to = scale to + factor with.
SWARM_VECTORIZED void Combine(float scale, float* to, float factor, const float* with,
                              std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = scale * to[i] + factor * with[i];
}

}  // namespace

void Orthogonalize(std::span<float> matrix, std::size_t rows, std::size_t columns,
                   const ForEach& for_each) {
  constexpr int kSteps = 5;
  constexpr float kA = 3.4445F, kB = -4.7750F, kC = 2.0315F;
  constexpr double kNormMin = 1e-7;  // as torch.optim.Muon
  const auto norm = static_cast<float>(std::max(std::sqrt(SquaredNorm(matrix)), kNormMin));
  Padded x(rows, columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) x.row(i)[j] = matrix[i * columns + j] / norm;
  }
  const bool tall = rows > columns;
  if (tall) x = Transpose(x);
  for (int step = 0; step < kSteps; ++step) {
    const Padded gram = Multiply(x, Transpose(x), for_each);
    Padded factor = Multiply(gram, gram, for_each);
    Combine(kC, factor.values.data(), kB, gram.values.data(), factor.values.size());
    const Padded product = Multiply(factor, x, for_each);
    Combine(kA, x.values.data(), 1, product.values.data(), x.values.size());
  }
  if (tall) x = Transpose(x);
  for (std::size_t i = 0; i < rows; ++i) {
    std::copy_n(x.row(i), columns, matrix.data() + i * columns);
  }
}

void UpdateMuon(const UpdateOptions& options, double momentum, const UpdateSpans& spans,
                std::size_t rows, std::size_t columns, const ForEach& for_each) {
  const auto clip = static_cast<float>(options.clip);
  const auto rest = static_cast<float>(1 - momentum);
  std::vector<float> direction(spans.gradient.size());
  for (std::size_t i = 0; i < direction.size(); ++i) {
    const float g = spans.gradient[i] * clip;
    const float m = spans.first_moment[i] + rest * (g - spans.first_moment[i]);
    spans.first_moment[i] = m;
    direction[i] = m - (m - g) * rest;
  }
  Orthogonalize(direction, rows, columns, for_each);
  const auto decay = static_cast<float>(1 - options.learning_rate * options.weight_decay);
  const auto step = static_cast<float>(
      options.learning_rate * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns))));
  for (std::size_t i = 0; i < direction.size(); ++i) {
    spans.weights[i] = decay * spans.old_weights[i] - step * direction[i];
  }
}

}  // namespace swarm::optim
