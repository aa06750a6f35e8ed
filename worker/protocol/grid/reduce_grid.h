// Who adds what in a sum, and who exchanges data for it (docs/protocol.md, rule 11). The elements
// are cut into pieces of nearly equal length, and each piece has one owner, who makes its sum.
//
// The participants take seats (SeatByPlace) in rows of nearly equal length: seat r is in row r %
// rows. The first `columns` members of each row own a piece each; as rows differ by one member, at
// most one member of a row owns none. A column is the pieces of the owners that stand one below the
// other, a run of the elements. In each row the owner in a column adds what its row contributes to
// the column. The owner of a piece adds these partial sums, row by row. The sum goes back the same
// way. So a participant exchanges data with its row and its column alone. One row is a flat sum.
//
// Rows may be of several regions, each of one. Then a region has a head for each piece, in the
// piece's column: it adds the partial sums of its region's rows, and the owner, who is the head of
// its own region, adds the sums of the regions. The sum goes back the same way. So every region
// sends each element once to its owner, or, if the owner is its own, to each other region: with R
// regions 2 (R - 1) times the elements cross in all, whatever their sizes, and no sum crosses less.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// `regions`: by row, equal numbers for rows of one region; of another length: there is one.
  /// Requires a participant.
  ReduceGrid(std::size_t participants, std::size_t rows,
             const std::vector<std::uint64_t>& regions = {});

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

  std::size_t regions() const { return rows_of_.size(); }
  /// In the order of their numbers.
  std::size_t RegionOf(Seat seat) const { return places_[RowOf(seat)].region; }
  /// The rows of a region, in order.
  const std::vector<std::size_t>& RowsOf(std::size_t region) const { return rows_of_[region]; }
  /// The place of a row among those of its region.
  std::size_t NumberOf(std::size_t row) const { return places_[row].number; }
  /// Adds the partial sums of the region's rows for the piece. In the region of the piece's owner,
  /// the owner.
  Seat HeadOf(std::size_t region, std::size_t piece) const;

  /// Whether the two exchange data.
  bool Exchange(Seat a, Seat b) const;
  /// All that the participant exchanges data with, in order.
  std::vector<Seat> PeersOf(Seat seat) const;
  /// Pieces that the participant sends, each as often as it sends it; it receives as many.
  std::size_t PiecesSent(Seat seat) const;
  /// Of these, to other regions.
  std::size_t PiecesSentAcross(Seat seat) const;

  /// What a participant sends in a sum, in parts of its elements, and to how many others. `across`:
  /// of it, to other regions.
  struct Load {
    double sent = 0, across = 0;
    std::size_t peers = 0, peers_across = 0;
  };
  Load LoadOf(Seat seat) const;
  /// How many ways follow each other in a sum: between regions, and within one. If there is one
  /// region, all are within.
  struct Ways {
    int across = 0, within = 0;
  };
  Ways ways() const;

 private:
  struct Place {
    std::size_t region = 0;
    std::size_t number = 0;  // of the row in its region
  };

  /// The pieces of its column of which the participant is a head.
  std::size_t PiecesHeaded(Seat seat) const;

  std::size_t participants_;
  std::size_t rows_;
  std::vector<Place> places_;                      // by row
  std::vector<std::vector<std::size_t>> rows_of_;  // by region
};

/// How many times the elements of a sum must cross from one region to another, if the participants
/// are in so many: all regions but one send theirs, and get the sum.
constexpr std::size_t LeastCrossings(std::size_t regions) { return 2 * (regions - 1); }

/// A participant, and where it is.
struct PlacedMember {
  WorkerId id;
  std::string pod = {};     ///< that it shares with others; empty: it is alone
  std::string region = {};  ///< empty: unknown, which is as good as another name
};

struct Seating {
  std::vector<WorkerId> seats;
  std::size_t rows = 1;
  std::vector<std::uint64_t> regions = {};  ///< by row (ReduceGrid); empty: all are in one
};

/// Where the participants of a sum sit. If all are in one region, in as many rows as ChooseRows
/// says. But if some of them share a pod, each pod has its own rows, and as few as there can be
/// with rows of nearly equal length: the members of a row sum among themselves first, and what
/// crosses the network between pods is the sum of each row, once. That needs at most kPlaceRowsMax
/// rows.
///
/// If they are in several regions, each region has its own rows: one a participant where regions
/// have up to `flat_max` of them and nobody shares a pod; else of about the length that as many
/// participants in one region would have, and shorter where a pod or region is smaller. If a region
/// would have more than kPlaceRowsMax rows, participants sit as if all were in one.
Seating SeatByPlace(const std::vector<PlacedMember>& participants,
                    std::size_t flat_max = kFlatReduceMax);
/// A worker exchanges data with all others of a column, or with those of its region.
inline constexpr std::size_t kPlaceRowsMax = 64;

/// The number of rows: the power of two with which participants have the fewest peers, at most 7 %
/// more than with any other number. So it changes only when the number of participants grows
/// fourfold, and then each row becomes two. Up to `flat_max` participants sum flat.
std::size_t ChooseRows(std::size_t participants, std::size_t flat_max = kFlatReduceMax);

}  // namespace swarm::protocol
