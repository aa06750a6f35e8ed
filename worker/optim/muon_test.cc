#include "worker/optim/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "base/rng.h"

namespace swarm::optim {
namespace {

const ForEach kOneAfterTheOther = [](std::size_t count, const auto& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
};

const ForEach kBackwardsOnThreads = [](std::size_t count, const auto& body) {
  std::vector<std::jthread> threads;
  for (std::size_t i = count; i-- > 0;) threads.emplace_back([&body, i] { body(i); });
};

std::vector<float> RandomMatrix(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> matrix(count);
  for (float& value : matrix) value = static_cast<float>(rng.Below(2000)) / 1000 - 1;
  return matrix;
}

/// The definition: a loop for each product, and no blocks.
std::vector<float> Plainly(std::vector<float> x, std::size_t m, std::size_t n) {
  const auto multiply = [](const auto& left, const auto& right, std::size_t rows, std::size_t depth,
                           std::size_t columns) {
    std::vector<float> product(rows * columns);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        for (std::size_t k = 0; k < depth; ++k) {
          product[i * columns + j] += left[i * depth + k] * right[k * columns + j];
        }
      }
    }
    return product;
  };
  double squares = 0;
  for (const float value : x) squares += double{value} * value;
  for (float& value : x) value /= static_cast<float>(std::sqrt(squares));
  for (int step = 0; step < 5; ++step) {
    std::vector<float> transposed(x.size());
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t k = 0; k < n; ++k) transposed[k * m + i] = x[i * n + k];
    }
    const auto gram = multiply(x, transposed, m, n, m);
    auto factor = multiply(gram, gram, m, m, m);
    for (std::size_t i = 0; i < factor.size(); ++i) {
      factor[i] = 2.0315F * factor[i] + -4.7750F * gram[i];
    }
    const auto product = multiply(factor, x, m, m, n);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445F * x[i] + product[i];
  }
  return x;
}

TEST(OrthogonalizeTest, HasTheBitsOfPlainLoopsWhateverTheBlocksAndThreads) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{1, 1}, {5, 7}, {6, 16},
                                      {13, 200}, {64, 64}, {70, 131}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    const std::vector<float> matrix = RandomMatrix(rows * columns, rows);
    const std::vector<float> expected = Plainly(matrix, rows, columns);
    for (const ForEach& for_each : {kOneAfterTheOther, kBackwardsOnThreads}) {
      std::vector<float> actual = matrix;
      Orthogonalize(actual, rows, columns, for_each);
      EXPECT_EQ(actual, expected);
    }
  }
}

TEST(OrthogonalizeTest, OfATallMatrixIsThatOfTheWideOne) {
  constexpr std::size_t kRows = 70, kColumns = 30;
  const std::vector<float> tall = RandomMatrix(kRows * kColumns, 1);
  std::vector<float> wide(tall.size());
  for (std::size_t i = 0; i < tall.size(); ++i) {
    wide[i % kColumns * kRows + i / kColumns] = tall[i];
  }
  // The norms are sums in another order.
  std::vector<float> of_tall = tall;
  Orthogonalize(of_tall, kRows, kColumns, kOneAfterTheOther);
  Orthogonalize(wide, kColumns, kRows, kOneAfterTheOther);
  for (std::size_t i = 0; i < tall.size(); ++i) {
    EXPECT_NEAR(of_tall[i], wide[i % kColumns * kRows + i / kColumns], 1e-5);
  }
}

TEST(OrthogonalizeTest, BringsSingularValuesNearOne) {
  constexpr std::size_t kRows = 24, kColumns = 60;
  std::vector<float> x = RandomMatrix(kRows * kColumns, 3);
  Orthogonalize(x, kRows, kColumns, kOneAfterTheOther);
  for (std::size_t i = 0; i < kRows; ++i) {
    double squares = 0;
    for (std::size_t k = 0; k < kColumns; ++k) squares += double{x[i * kColumns + k]} * x[i * kColumns + k];
    EXPECT_NEAR(std::sqrt(squares), 1, 0.35) << "row " << i;
  }
}

TEST(OrthogonalizeTest, LeavesZerosAlone) {
  std::vector<float> zeros(12);
  Orthogonalize(zeros, 3, 4, kOneAfterTheOther);
  EXPECT_EQ(zeros, std::vector<float>(12));
}

}  // namespace
}  // namespace swarm::optim
