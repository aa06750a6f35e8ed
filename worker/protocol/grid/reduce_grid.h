// Who adds what in a sum, and who exchanges data for it (docs/protocol.md, rule 11). The elements
// are cut into pieces of nearly equal length, and each piece has one owner, who makes its sum.
//
// The participants, in the order of summation, stand in rows of nearly equal length. The first
// `columns` members of each row own a piece each; as rows differ by one member, at most one member
// of a row owns none. A column is the pieces of the owners that stand one below the other, a run of
// the elements. In each row the owner in a column adds what its row contributes to the column. The
// owner of a piece adds these partial sums, row by row. The sum goes back the same way. So a
// participant exchanges data with its row and its column alone. One row is a flat sum. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace swarm::protocol {

class ReduceGrid {
 public:
  using Rank = std::size_t;  ///< place in the order of summation

  /// A grid of no rows has one, and one of more rows than participants as many as there are.
  /// Requires a participant.
  ReduceGrid(std::size_t participants, std::size_t rows);

  std::size_t participants() const { return participants_; }
  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return participants_ / rows_; }
  std::size_t pieces() const { return rows_ * columns(); }

  std::size_t RowOf(Rank rank) const { return ((rank + 1) * rows_ - 1) / participants_; }
  Rank RowBegin(std::size_t row) const { return participants_ * row / rows_; }
  std::size_t RowSize(std::size_t row) const { return RowBegin(row + 1) - RowBegin(row); }
  /// The place in the row. One that is not less than columns() owns no piece.
  std::size_t ColumnOf(Rank rank) const { return rank - RowBegin(RowOf(rank)); }
  bool OwnsPiece(Rank rank) const { return ColumnOf(rank) < columns(); }

  /// Pieces are numbered in the order of their elements, so column by column.
  std::size_t ColumnOfPiece(std::size_t piece) const { return piece / rows_; }
  Rank OwnerOf(std::size_t piece) const { return AdderOf(piece % rows_, piece); }
  /// Adds what the members of the row contribute to the piece.
  Rank AdderOf(std::size_t row, std::size_t piece) const {
    return RowBegin(row) + ColumnOfPiece(piece);
  }

  /// Whether the two exchange data.
  bool Exchange(Rank a, Rank b) const;
  /// All that the participant exchanges data with, in order.
  std::vector<Rank> PeersOf(Rank rank) const;
  /// Pieces that the participant sends, each as often as it sends it; it receives as many.
  std::size_t PiecesSent(Rank rank) const;

 private:
  std::size_t participants_;
  std::size_t rows_;
};

/// The number of rows with which participants have the fewest peers. Up to `flat_max` participants
/// sum flat: two ways less, and few peers all the same.
std::size_t ChooseRows(std::size_t participants, std::size_t flat_max);

}  // namespace swarm::protocol
