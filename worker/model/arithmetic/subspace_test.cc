#include "worker/model/arithmetic/subspace.h"

#include <gtest/gtest.h>

#include <limits>
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

TEST(SubspaceBasisTest, TurnsTowardsWhereTheMomentIsLarge) {
  constexpr std::size_t kRows = 8, kRank = 2;
  const auto basis = SeededBasis(3, "a", kRows, kRank);
  // M has eigenvalue 9 in direction e0, and 1 in all others.
  std::vector<float> moment(basis);
  for (std::size_t j = 0; j < kRank; ++j) moment[j] *= 9;
  const auto share = [](const std::vector<float>& of) { return of[0] * of[0] + of[1] * of[1]; };
  auto turned = TurnBasis(basis, moment, 0.1, kRows, kRank);
  EXPECT_GT(share(turned), share(basis));
  for (int i = 0; i < 300; ++i) {
    moment = turned;
    for (std::size_t j = 0; j < kRank; ++j) moment[j] *= 9;
    turned = TurnBasis(turned, moment, 0.1, kRows, kRank);
  }
  EXPECT_NEAR(share(turned), 1, 1e-3);
  EXPECT_EQ(TurnBasis(basis, std::vector<float>(kRows * kRank), 0.1, kRows, kRank), basis);
  const std::vector<float> wrong(kRows * kRank, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(TurnBasis(basis, wrong, 0.1, kRows, kRank), basis);
}

TEST(SubspaceBasisTest, CoefficientsInATurnedBasisAreTheSameVectorsWhereTheyCanBe) {
  constexpr std::size_t kRows = 6, kRank = 3;
  const auto from = SeededBasis(3, "a", kRows, kRank);
  auto to = from;  // the same subspace, with two directions exchanged
  for (std::size_t i = 0; i < kRows; ++i) std::swap(to[i * kRank], to[i * kRank + 2]);
  const auto overlap = Overlap(from, to, kRows, kRank);
  std::vector<float> rows{1, 2, 3, 4, 5, 6}, columns{1, 2, 3, 4, 5, 6};
  TurnRows(rows, overlap, kRank, Entries::kAsTheyAre);
  TurnColumns(columns, overlap, kRank, Entries::kSquared);
  const std::vector<float> expected_rows{3, 2, 1, 6, 5, 4}, expected_columns{5, 6, 3, 4, 1, 2};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(rows[i], expected_rows[i], 1e-5);
    EXPECT_NEAR(columns[i], expected_columns[i], 1e-5);
  }
}

}  // namespace
}  // namespace swarm::model
