#include "worker/protocol/grid/reduce_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace swarm::protocol {
namespace {

/// Every grid of up to 40 participants, and the chosen ones of up to 300.
void ForEachGrid(const std::function<void(const ReduceGrid&)>& check) {
  for (std::size_t participants = 1; participants <= 300; ++participants) {
    if (participants <= 40) {
      for (std::size_t rows = 1; rows <= participants; ++rows) check({participants, rows});
    } else {
      check({participants, ChooseRows(participants)});
    }
    if (testing::Test::HasFailure()) {
      FAIL() << participants << " participants";
    }
  }
}

TEST(ReduceGridTest, EveryPieceHasOneOwnerAndNobodyOwnsTwo) {
  ForEachGrid([](const ReduceGrid& grid) {
    std::set<std::size_t> owners;
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece) owners.insert(grid.OwnerOf(piece));
    EXPECT_EQ(owners.size(), grid.pieces());
    for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
      EXPECT_EQ(grid.OwnsPiece(seat), owners.contains(seat));
    }
  });
}

TEST(ReduceGridTest, RowsCoverTheParticipantsAndDifferByOneAtMost) {
  ForEachGrid([](const ReduceGrid& grid) {
    std::set<std::size_t> seats;
    for (std::size_t row = 0; row < grid.rows(); ++row) {
      EXPECT_GE(grid.RowSize(row), grid.columns());
      EXPECT_LE(grid.RowSize(row), grid.columns() + 1);
      for (std::size_t place = 0; place < grid.RowSize(row); ++place) {
        const std::size_t seat = grid.SeatAt(row, place);
        EXPECT_EQ(grid.RowOf(seat), row);
        EXPECT_EQ(grid.ColumnOf(seat), place);
        seats.insert(seat);
      }
    }
    EXPECT_EQ(seats.size(), grid.participants());
    EXPECT_EQ(*seats.rbegin(), grid.participants() - 1);
  });
}

TEST(ReduceGridTest, EveryContributionReachesEveryOwnerThroughPeers) {
  ForEachGrid([](const ReduceGrid& grid) {
    for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
      for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
        const std::size_t adder = grid.AdderOf(grid.RowOf(seat), piece);
        const std::size_t owner = grid.OwnerOf(piece);
        EXPECT_EQ(grid.RowOf(adder), grid.RowOf(seat));
        EXPECT_TRUE(seat == adder || grid.Exchange(seat, adder));
        EXPECT_TRUE(adder == owner || grid.Exchange(adder, owner));
      }
    }
  });
}

TEST(ReduceGridTest, PeersAreThoseThatExchangeData) {
  ForEachGrid([](const ReduceGrid& grid) {
    for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
      std::vector<std::size_t> expected;
      for (std::size_t other = 0; other < grid.participants(); ++other) {
        EXPECT_EQ(grid.Exchange(seat, other), grid.Exchange(other, seat));
        if (grid.Exchange(seat, other)) expected.push_back(other);
      }
      EXPECT_EQ(grid.PeersOf(seat), expected);
    }
  });
}

TEST(ReduceGridTest, AChosenGridHasAboutTwiceTheRootOfPeers) {
  for (std::size_t participants = 17; participants <= 4000; ++participants) {
    const ReduceGrid grid(participants, ChooseRows(participants));
    const double least = 2 * std::sqrt(static_cast<double>(participants)) - 2;
    for (std::size_t seat = 0; seat < participants; seat += 1 + participants / 50) {
      const double peers = static_cast<double>(grid.PeersOf(seat).size());
      ASSERT_LE(peers, 1.07 * least + 1.2) << participants << " participants";
    }
  }
}

TEST(ReduceGridTest, SmallGroupsSumFlat) {
  EXPECT_EQ(ChooseRows(1, 16), 1u);
  EXPECT_EQ(ChooseRows(16, 16), 1u);
  EXPECT_EQ(ChooseRows(17, 16), 4u);
  EXPECT_EQ(ChooseRows(4, 3), 2u);
  EXPECT_EQ(ReduceGrid(16, 1).PeersOf(3).size(), 15u);
}

TEST(ReduceGridTest, AnImpossibleNumberOfRowsIsBroughtIntoItsRange) {
  EXPECT_EQ(ReduceGrid(5, 0).rows(), 1u);
  EXPECT_EQ(ReduceGrid(5, 1000).rows(), 5u);
}

TEST(ReduceGridTest, AParticipantSendsAboutTwiceTheElementsWhateverTheGrid) {
  ForEachGrid([](const ReduceGrid& grid) {
    const auto pieces = static_cast<double>(grid.pieces());
    for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
      const auto sent = static_cast<double>(grid.PiecesSent(seat));
      if (grid.participants() == grid.pieces()) {
        EXPECT_EQ(sent, 2 * (pieces - 1));  // as in a ring
      } else {
        EXPECT_LE(sent, 2 * pieces + static_cast<double>(grid.rows()));
      }
    }
  });
}

std::vector<WorkerId> Named(std::size_t participants) {
  std::vector<WorkerId> named;
  for (std::size_t i = 0; i < participants; ++i) named.push_back(WorkerId("w" + std::to_string(i)));
  return named;
}

TEST(ReduceGridTest, EveryParticipantHasASeatWhateverTheOrder) {
  for (const std::size_t participants : {2, 3, 16, 17, 63, 64, 65, 250}) {
    std::vector<WorkerId> all = Named(participants);
    const std::vector<WorkerId> seated = SeatParticipants(all, 2);
    EXPECT_TRUE(std::ranges::is_permutation(seated, all));
    std::ranges::reverse(all);
    EXPECT_EQ(SeatParticipants(all, 2), seated);
    EXPECT_EQ(SeatParticipants(all, 1), all) << "a flat sum is made in their order";
  }
}

using Pairs = std::set<std::pair<WorkerId, WorkerId>>;

Pairs PairsOf(const std::vector<WorkerId>& participants) {
  const ReduceGrid grid(participants.size(), ChooseRows(participants.size()));
  const std::vector<WorkerId> seated = SeatParticipants(participants, grid.rows());
  Pairs pairs;
  for (std::size_t a = 0; a < seated.size(); ++a) {
    for (const std::size_t b : grid.PeersOf(a)) pairs.emplace(seated[a], seated[b]);
  }
  return pairs;
}

/// The part of `pairs` that is not among the others; without those of `worker`.
double MissingIn(const Pairs& others, const Pairs& pairs, const WorkerId& worker) {
  double all = 0, missing = 0;
  for (const auto& pair : pairs) {
    if (pair.first == worker || pair.second == worker) continue;
    ++all;
    missing += others.contains(pair) ? 0 : 1;
  }
  return missing / all;
}

TEST(ReduceGridTest, AParticipantThatComesOrGoesChangesFewOfTheOthersPairs) {
  for (const auto& [participants, part] :
       {std::pair(18, 0.2), std::pair(64, 0.2), std::pair(250, 0.05)}) {
    const std::vector<WorkerId> all = Named(static_cast<std::size_t>(participants));
    const Pairs with = PairsOf(all);
    double gone = 0, come = 0, tried = 0;
    for (std::size_t leaver = 0; leaver < all.size(); leaver += 1 + all.size() / 20, ++tried) {
      std::vector<WorkerId> others = all;
      std::erase(others, all[leaver]);
      const Pairs without = PairsOf(others);
      gone += MissingIn(without, with, all[leaver]);
      come += MissingIn(with, without, all[leaver]);
    }
    EXPECT_LE(gone / tried, part) << participants;
    EXPECT_LE(come / tried, part) << participants;
  }
}

TEST(ReduceGridTest, WhereAGridGetsTwiceTheRowsAThirdOfThePairsStay) {
  const std::vector<WorkerId> more = Named(129);
  std::vector<WorkerId> less = more;
  less.pop_back();
  ASSERT_NE(ChooseRows(more.size()), ChooseRows(less.size()));
  EXPECT_LE(MissingIn(PairsOf(more), PairsOf(less), more.back()), 0.66);
}

/// Pods of so many participants each; of one: it is alone.
std::vector<PodMember> InPods(const std::vector<std::size_t>& sizes) {
  std::vector<PodMember> members;
  for (std::size_t pod = 0; pod < sizes.size(); ++pod) {
    for (std::size_t i = 0; i < sizes[pod]; ++i) {
      const std::string name = "p" + std::to_string(pod) + "-" + std::to_string(i);
      members.push_back({WorkerId(name), sizes[pod] == 1 ? "" : "p" + std::to_string(pod)});
    }
  }
  return members;
}

/// Its pod, by the names of InPods.
std::string PodOf(const WorkerId& id) { return id.value.substr(0, id.value.find('-')); }

/// What crosses from one pod to another in a sum, in units of all elements.
double CrossesPods(const Seating& seating) {
  const ReduceGrid grid(seating.seats.size(), seating.rows);
  const auto crosses = [&](std::size_t a, std::size_t b) {
    return PodOf(seating.seats[a]) != PodOf(seating.seats[b]) ? 2.0 : 0.0;  // there and back
  };
  double pieces = 0;
  for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
    for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
      pieces += crosses(seat, grid.AdderOf(grid.RowOf(seat), piece));
    }
    for (std::size_t row = 0; row < grid.rows(); ++row) {
      pieces += crosses(grid.AdderOf(row, piece), grid.OwnerOf(piece));
    }
  }
  return pieces / static_cast<double>(grid.pieces());
}

TEST(SeatByPodTest, OfEqualPodsEachSendsItsSumOnce) {
  const auto members = InPods({4, 4, 4});
  const Seating seating = SeatByPod(members);
  EXPECT_EQ(seating.rows, 3u);
  EXPECT_EQ(CrossesPods(seating), 2 * (3 - 1));
  EXPECT_NEAR(CrossesPods({seating.seats, 1}), 2 * 8, 1e-9) << "flat, four times as much";
}

TEST(SeatByPodTest, ARowNeverHoldsTwoPodsAndRowsDifferByOneAtMost) {
  for (const std::vector<std::size_t>& sizes : std::vector<std::vector<std::size_t>>{
           {2}, {8}, {4, 3}, {3, 4}, {4, 2}, {1, 4}, {1, 1, 5}, {2, 7, 3}, {8, 8, 8, 5, 1}}) {
    const auto members = InPods(sizes);
    Seating seating = SeatByPod(members);
    ASSERT_EQ(seating.seats.size(), members.size());
    EXPECT_TRUE(std::ranges::is_permutation(seating.seats, members, {}, {}, &PodMember::id));
    EXPECT_GE(seating.rows, sizes.size());
    EXPECT_LT(seating.rows, members.size());
    const ReduceGrid grid(seating.seats.size(), seating.rows);
    std::map<std::size_t, std::set<std::string>> pods_of_row;
    for (std::size_t seat = 0; seat < seating.seats.size(); ++seat) {
      pods_of_row[grid.RowOf(seat)].insert(PodOf(seating.seats[seat]));
    }
    for (const auto& [row, pods] : pods_of_row) EXPECT_EQ(pods.size(), 1u);
    EXPECT_LT(CrossesPods(seating), sizes.size() == 1 ? 1 : CrossesPods({seating.seats, 1}));
  }
}

TEST(SeatByPodTest, ThePodsThatStayKeepTheirRowsWhenOneGoes) {
  auto members = InPods({4, 4, 4, 4});
  const Seating all = SeatByPod(members);
  std::erase_if(members, [](const PodMember& member) { return member.pod == "p1"; });
  const Seating left = SeatByPod(members);
  const auto peers_of = [](const Seating& seating, const WorkerId& id) {
    const ReduceGrid grid(seating.seats.size(), seating.rows);
    std::set<WorkerId> peers;
    const auto seat = std::ranges::find(seating.seats, id) - seating.seats.begin();
    for (const std::size_t peer : grid.PeersOf(static_cast<std::size_t>(seat))) {
      peers.insert(seating.seats[peer]);
    }
    return peers;
  };
  for (const PodMember& member : members) {
    EXPECT_TRUE(std::ranges::includes(peers_of(all, member.id), peers_of(left, member.id)));
  }
}

TEST(SeatByPodTest, WithoutPodsAndWithVeryManyTheGridIsThatOfTheNumberAlone) {
  for (const std::size_t participants : {1, 7, 16, 17, 250}) {
    const auto members = InPods(std::vector<std::size_t>(participants, 1));
    const Seating seating = SeatByPod(members);
    EXPECT_EQ(seating.rows, ChooseRows(participants));
    if (participants <= kFlatReduceMax) {
      EXPECT_EQ(seating.seats.back(), members.back().id);
    }
  }
  const auto many = InPods(std::vector<std::size_t>(kPodRowsMax + 1, 2));
  EXPECT_EQ(SeatByPod(many).rows, ChooseRows(many.size()));
}

}  // namespace
}  // namespace swarm::protocol
