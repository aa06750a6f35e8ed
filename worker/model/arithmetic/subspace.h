// Orthonormal bases of subspaces, and tables expressed in them. Pure; torch-free. Sums are taken in
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

/// The basis after one step of ascent on the Grassmann manifold towards the directions in which a
/// second moment M [rows, rows] is large: the Q of U + rate (I - U Uᵀ) M U / m, where `moment` is
/// M U [rows, rank] and m the mean eigenvalue of Uᵀ M U. The same basis where m is not a positive
/// number.
std::vector<float> TurnBasis(std::span<const float> basis, std::span<const float> moment,
                             double rate, std::size_t rows, std::size_t rank);

/// Uᵀ U' [rank, rank]: maps coefficients in U to the nearest coefficients in U'.
std::vector<double> Overlap(std::span<const float> from, std::span<const float> to,
                            std::size_t rows, std::size_t rank);

enum class Entries { kAsTheyAre, kSquared };

/// Replaces each row r of [n, rank] by r R. With kSquared, R's entries are squared, which
/// transforms the variances of independent coefficients.
void TurnRows(std::span<float> rows, std::span<const double> overlap, std::size_t rank,
              Entries entries);
/// Replaces `columns` [rank, n] by Rᵀ `columns`; kSquared as above.
void TurnColumns(std::span<float> columns, std::span<const double> overlap, std::size_t rank,
                 Entries entries);

}  // namespace swarm::model
