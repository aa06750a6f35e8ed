#include "worker/protocol/grid/reduce_grid.h"

#include <algorithm>

namespace swarm::protocol {

ReduceGrid::ReduceGrid(std::size_t participants, std::size_t rows)
    : participants_(participants), rows_(std::clamp<std::size_t>(rows, 1, participants)) {}

bool ReduceGrid::Exchange(Rank a, Rank b) const {
  if (a == b) return false;
  if (RowOf(a) == RowOf(b)) return true;  // at most one of a row owns nothing
  return OwnsPiece(a) && ColumnOf(a) == ColumnOf(b);
}

std::vector<ReduceGrid::Rank> ReduceGrid::PeersOf(Rank rank) const {
  std::vector<Rank> peers;
  for (std::size_t row = 0; row < rows_; ++row) {
    if (row != RowOf(rank)) {
      if (OwnsPiece(rank)) peers.push_back(RowBegin(row) + ColumnOf(rank));
      continue;
    }
    for (Rank peer = RowBegin(row); peer < RowBegin(row + 1); ++peer) {
      if (peer != rank) peers.push_back(peer);
    }
  }
  return peers;
}

std::size_t ReduceGrid::PiecesSent(Rank rank) const {
  if (!OwnsPiece(rank)) return pieces();  // its contributions
  const std::size_t contributions = (columns() - 1) * rows_;
  const std::size_t between_rows = 2 * (rows_ - 1);  // partial sums, and the own piece
  const std::size_t sums = (RowSize(RowOf(rank)) - 1) * rows_;
  return contributions + between_rows + sums;
}

std::size_t ChooseRows(std::size_t participants, std::size_t flat_max) {
  if (participants <= flat_max) return 1;
  std::size_t rows = 1;
  while ((rows + 1) * (rows + 1) <= participants) ++rows;
  return rows;
}

}  // namespace swarm::protocol
