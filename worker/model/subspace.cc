#include "worker/model/subspace.h"

#include <cmath>

#include "worker/model/init.h"

namespace swarm::model {
namespace {

double Dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

// Gram and Schmidt, each column twice: the second time takes away what rounding left of the first.
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

}  // namespace swarm::model
