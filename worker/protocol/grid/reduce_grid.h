// Who adds what in a sum, and who exchanges data for it (docs/protocol.md, rule 11). The elements
// are cut into pieces of nearly equal length, and each piece has one owner, who makes its sum.
//
// The participants take seats (SeatByPod) in rows of nearly equal length: seat r is in row r %
// rows. The first `columns` members of each row own a piece each; as rows differ by one member, at
// most one member of a row owns none. A column is the pieces of the owners that stand one below the
// other, a run of the elements. In each row the owner in a column adds what its row contributes to
// the column. The owner of a piece adds these partial sums, row by row. The sum goes back the same
// way. So a participant exchanges data with its row and its column alone. One row is a flat sum.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// Up to so many participants sum flat: two ways less, and few peers all the same.
inline constexpr std::size_t kFlatReduceMax = 16;

/// The participants by seat. In one row they keep their order. In several, who sits where follows
/// from the names and the number of seats, whatever the order; a participant that comes or goes
/// moves few others, about half as many as the number of seats has natural logarithms. Costs
/// O(n log n).
std::vector<WorkerId> SeatParticipants(std::vector<WorkerId> participants, std::size_t rows);

class ReduceGrid {
 public:
  using Seat = std::size_t;

  /// A grid of no rows has one, and one of more rows than participants as many as there are.
  /// Requires a participant.
  ReduceGrid(std::size_t participants, std::size_t rows);

  std::size_t participants() const { return participants_; }
  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return participants_ / rows_; }
  std::size_t pieces() const { return rows_ * columns(); }

  std::size_t RowOf(Seat seat) const { return seat % rows_; }
  std::size_t RowSize(std::size_t row) const { return (participants_ - row - 1) / rows_ + 1; }
  /// The place in the row. One that is not less than columns() owns no piece.
  std::size_t ColumnOf(Seat seat) const { return seat / rows_; }
  Seat SeatAt(std::size_t row, std::size_t column) const { return column * rows_ + row; }
  bool OwnsPiece(Seat seat) const { return seat < pieces(); }

  /// Pieces are numbered in the order of their elements, so column by column, as seats are.
  std::size_t ColumnOfPiece(std::size_t piece) const { return ColumnOf(piece); }
  Seat OwnerOf(std::size_t piece) const { return piece; }
  /// Adds what the members of the row contribute to the piece.
  Seat AdderOf(std::size_t row, std::size_t piece) const {
    return SeatAt(row, ColumnOfPiece(piece));
  }

  /// Whether the two exchange data.
  bool Exchange(Seat a, Seat b) const;
  /// All that the participant exchanges data with, in order.
  std::vector<Seat> PeersOf(Seat seat) const;
  /// Pieces that the participant sends, each as often as it sends it; it receives as many.
  std::size_t PiecesSent(Seat seat) const;

 private:
  std::size_t participants_;
  std::size_t rows_;
};

/// A participant, and the pod that it shares with others; empty: it is alone.
struct PodMember {
  WorkerId id;
  std::string pod;
};

struct Seating {
  std::vector<WorkerId> seats;
  std::size_t rows = 1;
};

/// Where the participants of a sum sit: in as many rows as ChooseRows says. But if some of them
/// share a pod, each pod has its own rows, and as few as there can be with rows of nearly equal
/// length: the members of a row sum among themselves first, and what crosses the network between
/// pods is the sum of each row, once. That needs at most kPodRowsMax rows.
Seating SeatByPod(const std::vector<PodMember>& participants,
                  std::size_t flat_max = kFlatReduceMax);
inline constexpr std::size_t kPodRowsMax =
    64;  // a worker exchanges data with all others of a column

/// The number of rows: the power of two with which participants have the fewest peers, at most 7 %
/// more than with any other number. So it changes only when the number of participants grows
/// fourfold, and then each row becomes two. Up to `flat_max` participants sum flat.
std::size_t ChooseRows(std::size_t participants, std::size_t flat_max = kFlatReduceMax);

}  // namespace swarm::protocol
