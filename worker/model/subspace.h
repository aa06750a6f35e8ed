// Orthonormal bases of subspaces, and what tables are in them. Pure; torch-free. Sums are taken in
// double and in a fixed order: the same bits on every machine.
//
// A basis is a matrix [rows, rank], row-major, whose columns are orthonormal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace swarm::model {

/// Makes the columns of `matrix` orthonormal: the Q of its QR decomposition whose R has a positive
/// diagonal. Requires rank <= rows and linearly independent columns.
void Orthonormalize(std::span<double> matrix, std::size_t rows, std::size_t rank);

/// A basis that depends on (seed, name, rows, rank) alone. Requires 1 <= rank <= rows.
std::vector<float> SeededBasis(std::uint64_t seed, std::string_view name, std::size_t rows,
                               std::size_t rank);

/// coefficients[j] = sum of row[i] basis[i, j].
void ProjectRow(std::span<const float> row, std::span<const float> basis,
                std::span<float> coefficients);
/// row[i] -= sum of coefficients[j] basis[i, j].
void SubtractExpansion(std::span<const float> coefficients, std::span<const float> basis,
                       std::span<float> row);

}  // namespace swarm::model
