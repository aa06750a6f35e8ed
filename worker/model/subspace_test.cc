#include "worker/model/subspace.h"

#include <gtest/gtest.h>

#include <numeric>

namespace swarm::model {
namespace {

TEST(SubspaceBasisTest, IsOrthonormalAndOfItsSeedAndName) {
  constexpr std::size_t kRows = 40, kRank = 12;
  const auto basis = SeededBasis(3, "a", kRows, kRank);
  for (std::size_t i = 0; i < kRank; ++i) {
    for (std::size_t j = 0; j < kRank; ++j) {
      double product = 0;
      for (std::size_t r = 0; r < kRows; ++r) {
        product += double{basis[r * kRank + i]} * basis[r * kRank + j];
      }
      EXPECT_NEAR(product, i == j, 1e-6);
    }
  }
  EXPECT_EQ(SeededBasis(3, "a", kRows, kRank), basis);
  EXPECT_NE(SeededBasis(3, "b", kRows, kRank), basis);
  EXPECT_NE(SeededBasis(4, "a", kRows, kRank), basis);
}

TEST(SubspaceBasisTest, OrthonormalColumnsStayAsTheyAre) {
  const auto floats = SeededBasis(3, "a", 20, 20);
  std::vector<double> matrix(floats.begin(), floats.end());
  Orthonormalize(matrix, 20, 20);
  for (std::size_t i = 0; i < matrix.size(); ++i) EXPECT_NEAR(matrix[i], floats[i], 1e-6);
}

TEST(SubspaceBasisTest, ARowIsItsPartInTheBasisAndTheRest) {
  const auto basis = SeededBasis(3, "a", 20, 5);
  std::vector<float> row(20), coefficients(5), again(5);
  std::iota(row.begin(), row.end(), -7.0F);
  ProjectRow(row, basis, coefficients);
  EXPECT_GT(std::abs(coefficients[0]), 1e-3);
  SubtractExpansion(coefficients, basis, row);
  ProjectRow(row, basis, again);
  for (const float left : again) EXPECT_NEAR(left, 0, 1e-5);
}

}  // namespace
}  // namespace swarm::model
