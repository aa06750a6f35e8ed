#include "worker/model/arithmetic/subspace.h"

#include <algorithm>
#include <cmath>

#include "worker/model/arithmetic/init.h"

namespace swarm::model {
namespace {

double Dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double Entry(double value, Entries entries) {
  return entries == Entries::kSquared ? value * value : value;
}

}  // namespace

// Gram-Schmidt, each column twice: the second pass removes the rounding errors of the first.
void Orthonormalize(std::span<double> matrix, std::size_t rows, std::size_t rank) {
  std::vector<double> columns(matrix.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rank; ++j) columns[j * rows + i] = matrix[i * rank + j];
  }
  for (std::size_t j = 0; j < rank; ++j) {
    const auto column = std::span(columns).subspan(j * rows, rows);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t k = 0; k < j; ++k) {
        const auto earlier = std::span(columns).subspan(k * rows, rows);
        const double part = Dot(column, earlier);
        for (std::size_t i = 0; i < rows; ++i) column[i] -= part * earlier[i];
      }
      const double length = std::sqrt(Dot(column, column));
      for (double& value : column) value /= length;
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rank; ++j) matrix[i * rank + j] = columns[j * rows + i];
  }
}

std::vector<float> SeededBasis(std::uint64_t seed, std::string_view name, std::size_t rows,
                               std::size_t rank) {
  std::vector<float> basis(rows * rank);
  FillNormal(seed, name, 1, basis);
  std::vector<double> matrix(basis.begin(), basis.end());
  Orthonormalize(matrix, rows, rank);
  for (std::size_t i = 0; i < basis.size(); ++i) basis[i] = static_cast<float>(matrix[i]);
  return basis;
}

void ProjectRow(std::span<const float> row, std::span<const float> basis,
                std::span<float> coefficients) {
  const std::size_t rank = coefficients.size();
  std::vector<double> sums(rank);
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t j = 0; j < rank; ++j) sums[j] += double{row[i]} * basis[i * rank + j];
  }
  for (std::size_t j = 0; j < rank; ++j) coefficients[j] = static_cast<float>(sums[j]);
}

void SubtractExpansion(std::span<const float> coefficients, std::span<const float> basis,
                       std::span<float> row) {
  const std::size_t rank = coefficients.size();
  for (std::size_t i = 0; i < row.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < rank; ++j) sum += double{coefficients[j]} * basis[i * rank + j];
    row[i] = static_cast<float>(row[i] - sum);
  }
}

std::vector<float> TurnBasis(std::span<const float> basis, std::span<const float> moment,
                             double rate, std::size_t rows, std::size_t rank) {
  std::vector<double> inside(rank * rank);  // Uᵀ M U
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t a = 0; a < rank; ++a) {
      for (std::size_t b = 0; b < rank; ++b) {
        inside[a * rank + b] += double{basis[i * rank + a]} * moment[i * rank + b];
      }
    }
  }
  double mean = 0;
  for (std::size_t a = 0; a < rank; ++a) mean += inside[a * rank + a];
  mean /= static_cast<double>(rank);
  std::vector<float> turned(basis.begin(), basis.end());
  if (!(mean > 0) || !std::isfinite(mean)) return turned;
  std::vector<double> matrix(rows * rank);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t b = 0; b < rank; ++b) {
      double tangent = moment[i * rank + b];
      for (std::size_t a = 0; a < rank; ++a) {
        tangent -= double{basis[i * rank + a]} * inside[a * rank + b];
      }
      matrix[i * rank + b] = basis[i * rank + b] + rate / mean * tangent;
    }
  }
  Orthonormalize(matrix, rows, rank);
  for (std::size_t i = 0; i < matrix.size(); ++i) turned[i] = static_cast<float>(matrix[i]);
  return turned;
}

std::vector<double> Overlap(std::span<const float> from, std::span<const float> to,
                            std::size_t rows, std::size_t rank) {
  std::vector<double> overlap(rank * rank);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t a = 0; a < rank; ++a) {
      for (std::size_t b = 0; b < rank; ++b) {
        overlap[a * rank + b] += double{from[i * rank + a]} * to[i * rank + b];
      }
    }
  }
  return overlap;
}

void TurnRows(std::span<float> rows, std::span<const double> overlap, std::size_t rank,
              Entries entries) {
  std::vector<double> turned(rank);
  for (std::size_t begin = 0; begin < rows.size(); begin += rank) {
    const std::span<float> row = rows.subspan(begin, rank);
    std::ranges::fill(turned, 0.0);
    for (std::size_t a = 0; a < rank; ++a) {
      for (std::size_t b = 0; b < rank; ++b)
        turned[b] += row[a] * Entry(overlap[a * rank + b], entries);
    }
    std::ranges::copy(turned, row.begin());
  }
}

void TurnColumns(std::span<float> columns, std::span<const double> overlap, std::size_t rank,
                 Entries entries) {
  const std::size_t count = columns.size() / rank;
  std::vector<double> turned(columns.size());
  for (std::size_t a = 0; a < rank; ++a) {
    for (std::size_t b = 0; b < rank; ++b) {
      const double factor = Entry(overlap[a * rank + b], entries);
      for (std::size_t c = 0; c < count; ++c)
        turned[b * count + c] += factor * columns[a * count + c];
    }
  }
  std::ranges::copy(turned, columns.begin());
}

}  // namespace swarm::model
