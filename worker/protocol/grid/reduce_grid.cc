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

/// Participants of one pod, or of one region.
struct Group {
  std::string region;
  std::vector<WorkerId> members;
};

/// Rows of `length` members or one more, each of one group. Longer rows are first.
std::vector<Group> CutIntoRows(const std::vector<Group>& groups, std::size_t length) {
  std::vector<Group> rows;
  for (const Group& group : groups) {
    const std::size_t members = group.members.size(), count = RowsFor(members, length);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = members * i / count, end = members * (i + 1) / count;
      const auto row = std::span(group.members).subspan(begin, end - begin);
      rows.push_back({group.region, {row.begin(), row.end()}});
    }
  }
  std::ranges::sort(rows, [](const Group& a, const Group& b) {
    return a.members.size() != b.members.size() ? a.members.size() > b.members.size()
                                                : a.members.front() < b.members.front();
  });
  return rows;
}

/// The most members that a row may have, up to `most`, so that all groups can be cut into rows that
/// differ by one.
std::size_t ChooseLength(const std::vector<Group>& groups, std::size_t most) {
  std::size_t length = most;
  for (const Group& group : groups) length = std::min(length, group.members.size());
  const auto fits = [&](const Group& group) {
    return RowsFor(group.members.size(), length) * length <= group.members.size();
  };
  while (!std::ranges::all_of(groups, fits)) --length;  // rows of one always fit
  return length;
}

/// The rows of all pods; empty: there is no pod of several, or too many rows.
std::vector<Group> RowsOfPods(const std::vector<PlacedMember>& participants) {
  std::map<std::string, Group> pods;
  std::vector<Group> groups;
  for (const PlacedMember& member : participants) {
    if (member.pod.empty()) {
      groups.push_back({{}, {member.id}});
    } else {
      pods[member.pod].members.push_back(member.id);
    }
  }
  for (auto& [pod, group] : pods) groups.push_back(std::move(group));
  for (Group& group : groups) std::ranges::sort(group.members);
  std::vector<Group> rows = CutIntoRows(groups, ChooseLength(groups, participants.size()));
  if (rows.size() == participants.size() || rows.size() > kPlaceRowsMax) return {};
  return rows;
}

/// The rows of all regions; empty: there is one region, or too many rows in one.
std::vector<Group> RowsOfRegions(const std::vector<PlacedMember>& participants,
                                 std::size_t flat_max) {
  std::map<std::string, std::map<std::string, Group>> regions;
  std::size_t largest = 0;
  bool share = false;
  for (const PlacedMember& member : participants) {
    Group& group = regions[member.region][member.pod];
    group.region = member.region;
    group.members.push_back(member.id);
    largest = std::max(largest, group.members.size());
    share |= !member.pod.empty();
  }
  if (regions.size() == 1) return {};
  std::vector<Group> groups;
  for (auto& [region, pods] : regions) {
    for (auto& [pod, group] : pods) {
      std::ranges::sort(group.members);
      groups.push_back(std::move(group));
    }
  }
  const std::size_t members = participants.size();
  const std::size_t most = members <= flat_max ? members : members / ChooseRows(members, flat_max);
  const bool of_one = !share && largest <= flat_max;
  std::vector<Group> rows = CutIntoRows(groups, of_one ? 0 : ChooseLength(groups, most));
  std::map<std::string, std::size_t> counts;
  for (const Group& row : rows) {
    if (++counts[row.region] > kPlaceRowsMax) return {};
  }
  return rows;
}

}  // namespace

Seating SeatByPlace(const std::vector<PlacedMember>& participants, std::size_t flat_max) {
  Seating seating;
  std::vector<Group> rows = RowsOfRegions(participants, flat_max);
  const bool several = !rows.empty();
  if (!several) rows = RowsOfPods(participants);
  if (rows.empty()) {
    for (const PlacedMember& member : participants) seating.seats.push_back(member.id);
    seating.rows = ChooseRows(participants.size(), flat_max);
    seating.seats = SeatParticipants(std::move(seating.seats), seating.rows);
    return seating;
  }
  seating.rows = rows.size();
  for (std::size_t seat = 0; seat < participants.size(); ++seat) {
    seating.seats.push_back(rows[seat % seating.rows].members[seat / seating.rows]);
  }
  if (!several) return seating;
  std::map<std::string, std::uint64_t> numbers;
  for (const Group& row : rows) numbers.emplace(row.region, 0);
  std::uint64_t next = 0;
  for (auto& [region, number] : numbers) number = next++;
  for (const Group& row : rows) seating.regions.push_back(numbers.at(row.region));
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

ReduceGrid::ReduceGrid(std::size_t participants, std::size_t rows,
                       const std::vector<std::uint64_t>& regions)
    : participants_(participants), rows_(std::clamp<std::size_t>(rows, 1, participants)) {
  std::map<std::uint64_t, std::vector<std::size_t>> rows_of;
  for (std::size_t row = 0; row < rows_; ++row) {
    rows_of[regions.size() == rows_ ? regions[row] : 0].push_back(row);
  }
  places_.resize(rows_);
  for (auto& [number, its_rows] : rows_of) {
    for (std::size_t i = 0; i < its_rows.size(); ++i) places_[its_rows[i]] = {rows_of_.size(), i};
    rows_of_.push_back(std::move(its_rows));
  }
}

ReduceGrid::Seat ReduceGrid::HeadOf(std::size_t region, std::size_t piece) const {
  const Seat owner = OwnerOf(piece);
  const Place& place = places_[RowOf(owner)];
  if (place.region == region) return owner;
  // The pieces of a region take turns, so that the heads of another one have as many each.
  const std::size_t column = ColumnOfPiece(piece);
  const std::size_t turn = column * rows_of_[place.region].size() + place.number;
  const std::vector<std::size_t>& rows = rows_of_[region];
  return SeatAt(rows[turn % rows.size()], column);
}

bool ReduceGrid::Exchange(Seat a, Seat b) const {
  if (a == b) return false;
  if (RowOf(a) == RowOf(b)) return true;  // at most one of a row owns nothing
  if (!OwnsPiece(a) || ColumnOf(a) != ColumnOf(b)) return false;
  if (RegionOf(a) == RegionOf(b)) return true;
  return HeadOf(RegionOf(b), a) == b || HeadOf(RegionOf(a), b) == a;
}

std::vector<ReduceGrid::Seat> ReduceGrid::PeersOf(Seat seat) const {
  std::vector<Seat> peers;
  for (Seat peer = RowOf(seat); peer < participants_; peer += rows_) {
    if (peer != seat) peers.push_back(peer);
  }
  for (std::size_t row = 0; OwnsPiece(seat) && row < rows_; ++row) {
    const Seat peer = SeatAt(row, ColumnOf(seat));
    if (row != RowOf(seat) && Exchange(seat, peer)) peers.push_back(peer);
  }
  std::ranges::sort(peers);
  return peers;
}

std::size_t ReduceGrid::PiecesHeaded(Seat seat) const {
  if (!OwnsPiece(seat)) return 0;
  std::size_t headed = 0;
  for (std::size_t row = 0; row < rows_; ++row) {
    headed += HeadOf(RegionOf(seat), SeatAt(row, ColumnOf(seat))) == seat ? 1 : 0;
  }
  return headed;
}

std::size_t ReduceGrid::PiecesSentAcross(Seat seat) const {
  if (!OwnsPiece(seat)) return 0;
  // The sums of the region for the pieces of others, and the own piece.
  return (PiecesHeaded(seat) - 1) + (regions() - 1);
}

std::size_t ReduceGrid::PiecesSent(Seat seat) const {
  if (!OwnsPiece(seat)) return pieces();  // its contributions
  const std::size_t headed = PiecesHeaded(seat);
  const std::size_t contributions = (columns() - 1) * rows_;
  // To the heads of the region, and the sums from it as a head.
  const std::size_t partials = rows_ - headed;
  const std::size_t from_head = headed * (rows_of_[RegionOf(seat)].size() - 1);
  const std::size_t sums = (RowSize(RowOf(seat)) - 1) * rows_;
  return contributions + partials + from_head + PiecesSentAcross(seat) + sums;
}

ReduceGrid::Load ReduceGrid::LoadOf(Seat seat) const {
  const std::vector<Seat> others = PeersOf(seat);
  const auto all = static_cast<double>(pieces());
  Load load{.sent = static_cast<double>(PiecesSent(seat)) / all, .peers = others.size()};
  if (regions() == 1) return load;
  load.across = static_cast<double>(PiecesSentAcross(seat)) / all;
  load.peers_across = static_cast<std::size_t>(
      std::ranges::count_if(others, [&](Seat peer) { return RegionOf(peer) != RegionOf(seat); }));
  return load;
}

ReduceGrid::Ways ReduceGrid::ways() const {
  if (regions() == 1) return {.within = rows_ == 1 ? 2 : 4};
  return {.across = 2, .within = rows_ == participants_ ? 2 : 4};
}

std::size_t ChooseRows(std::size_t participants, std::size_t flat_max) {
  if (participants <= flat_max) return 1;
  std::size_t rows = 1;
  while (2 * rows * rows < participants) rows *= 2;
  return rows;
}

}  // namespace swarm::protocol
