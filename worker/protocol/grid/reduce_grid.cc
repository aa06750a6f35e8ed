#include "worker/protocol/grid/reduce_grid.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "base/rng.h"

namespace swarm::protocol {
namespace {

/// Tells the order of seats from those of the mesh (routing/mesh/mesh.cc).
constexpr std::uint64_t kRole = 2;

}  // namespace

std::vector<WorkerId> SeatParticipants(std::vector<WorkerId> participants, std::size_t rows) {
  if (rows <= 1) return participants;
  // Every participant asks for one seat after the other, in an order of its own, until it finds a
  // free one; all ask once in each round. If one more or one less takes part, whoever it displaces
  // looks on from there, and so takes a seat that would have been taken late: that ends soon.
  struct Turn {
    std::uint64_t priority, next, step;
    WorkerId id;
    auto Key() const { return std::tie(priority, id); }
  };
  const std::size_t seats = participants.size();
  const std::uint64_t mask = std::bit_ceil(seats) - 1;
  std::vector<Turn> standing;
  for (WorkerId& id : participants) {
    const std::uint64_t key = MixName(kRole, id.value);
    standing.push_back({key, Mix(key), Mix(key + 1) | 1, std::move(id)});
  }
  std::ranges::sort(standing, {}, &Turn::Key);
  std::vector<WorkerId> seated(seats);
  while (!standing.empty()) {
    std::erase_if(standing, [&](Turn& turn) {
      // The low bits, so that most numbers mean the same seat if there is one seat more. Odd steps
      // lead to all of them.
      std::uint64_t seat = std::exchange(turn.next, turn.next + turn.step) & mask;
      if (seat >= seats) seat &= mask >> 1;
      if (!seated[seat].empty()) return false;
      seated[seat] = std::move(turn.id);
      return true;
    });
  }
  return seated;
}

ReduceGrid::ReduceGrid(std::size_t participants, std::size_t rows)
    : participants_(participants), rows_(std::clamp<std::size_t>(rows, 1, participants)) {}

bool ReduceGrid::Exchange(Seat a, Seat b) const {
  if (a == b) return false;
  if (RowOf(a) == RowOf(b)) return true;  // at most one of a row owns nothing
  return OwnsPiece(a) && ColumnOf(a) == ColumnOf(b);
}

std::vector<ReduceGrid::Seat> ReduceGrid::PeersOf(Seat seat) const {
  std::vector<Seat> peers;
  for (Seat peer = RowOf(seat); peer < participants_; peer += rows_) {
    if (peer != seat) peers.push_back(peer);
  }
  for (std::size_t row = 0; OwnsPiece(seat) && row < rows_; ++row) {
    if (row != RowOf(seat)) peers.push_back(SeatAt(row, ColumnOf(seat)));
  }
  std::ranges::sort(peers);
  return peers;
}

std::size_t ReduceGrid::PiecesSent(Seat seat) const {
  if (!OwnsPiece(seat)) return pieces();  // its contributions
  const std::size_t contributions = (columns() - 1) * rows_;
  const std::size_t between_rows = 2 * (rows_ - 1);  // partial sums, and the own piece
  const std::size_t sums = (RowSize(RowOf(seat)) - 1) * rows_;
  return contributions + between_rows + sums;
}

std::size_t ChooseRows(std::size_t participants, std::size_t flat_max) {
  if (participants <= flat_max) return 1;
  std::size_t rows = 1;
  while (2 * rows * rows < participants) rows *= 2;
  return rows;
}

}  // namespace swarm::protocol
