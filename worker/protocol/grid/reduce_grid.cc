#include "worker/protocol/grid/reduce_grid.h"

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "base/rng.h"

namespace swarm::protocol {
namespace {

/// Tells the order of seats from those of the mesh (routing/mesh/mesh.cc).
constexpr std::uint64_t kRole = 2;

/// The fewest rows of `length` members, or one more, that take so many.
std::size_t RowsFor(std::size_t members, std::size_t length) {
  return (members + length) / (length + 1);
}

/// The rows of all pods; empty: there is no pod of several, or too many rows. Longer rows are
/// first.
std::vector<std::vector<WorkerId>> RowsOfPods(const std::vector<PodMember>& participants) {
  std::map<std::string, std::vector<WorkerId>> pods;
  std::vector<std::vector<WorkerId>> groups;
  for (const PodMember& member : participants) {
    if (member.pod.empty()) {
      groups.push_back({member.id});
    } else {
      pods[member.pod].push_back(member.id);
    }
  }
  for (auto& [pod, members] : pods) groups.push_back(std::move(members));
  std::size_t length = participants.size();
  for (auto& group : groups) {
    length = std::min(length, group.size());
    std::ranges::sort(group);
  }
  const auto fits = [&](const std::vector<WorkerId>& group) {
    return RowsFor(group.size(), length) * length <= group.size();
  };
  while (!std::ranges::all_of(groups, fits)) --length;  // rows of one always fit
  std::vector<std::vector<WorkerId>> rows;
  for (const auto& group : groups) {
    const std::size_t count = RowsFor(group.size(), length);
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const WorkerId> all(group);
      const std::size_t begin = group.size() * i / count, end = group.size() * (i + 1) / count;
      const auto row = all.subspan(begin, end - begin);
      rows.emplace_back(row.begin(), row.end());
    }
  }
  if (rows.size() == participants.size() || rows.size() > kPodRowsMax) return {};
  std::ranges::sort(rows, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  return rows;
}

}  // namespace

Seating SeatByPod(const std::vector<PodMember>& participants, std::size_t flat_max) {
  Seating seating;
  const std::vector<std::vector<WorkerId>> rows = RowsOfPods(participants);
  if (rows.empty()) {
    for (const PodMember& member : participants) seating.seats.push_back(member.id);
    seating.rows = ChooseRows(participants.size(), flat_max);
    seating.seats = SeatParticipants(std::move(seating.seats), seating.rows);
    return seating;
  }
  seating.rows = rows.size();
  for (std::size_t seat = 0; seat < participants.size(); ++seat) {
    seating.seats.push_back(rows[seat % seating.rows][seat / seating.rows]);
  }
  return seating;
}

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
