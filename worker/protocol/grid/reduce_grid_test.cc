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

/// Every grid of up to 40 participants, the chosen ones of up to 300, and some of several regions.
void ForEachGrid(const std::function<void(const ReduceGrid&)>& check) {
  for (std::size_t participants = 2; participants <= 25; ++participants) {
    for (std::size_t rows = 2; rows <= participants; ++rows) {
      for (const std::size_t regions : {2, 3, 5}) {
        std::vector<std::uint64_t> region_of;
        for (std::size_t row = 0; row < rows; ++row) region_of.push_back(row * row % regions);
        check({participants, rows, region_of});
        if (testing::Test::HasFailure()) {
          FAIL() << participants << " in " << rows << " rows of " << regions << " regions";
        }
      }
    }
  }
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
        const std::size_t head = grid.HeadOf(grid.RegionOf(seat), piece);
        const std::size_t owner = grid.OwnerOf(piece);
        EXPECT_EQ(grid.RowOf(adder), grid.RowOf(seat));
        EXPECT_EQ(grid.RegionOf(head), grid.RegionOf(seat));
        EXPECT_TRUE(seat == adder || grid.Exchange(seat, adder));
        EXPECT_TRUE(adder == head || grid.Exchange(adder, head));
        EXPECT_TRUE(head == owner || grid.Exchange(head, owner));
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
    double sum = 0;
    for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
      const auto sent = static_cast<double>(grid.PiecesSent(seat));
      if (grid.regions() > 1) {
        // A region of few rows heads the pieces of others, too.
        sum += sent;
      } else if (grid.participants() == grid.pieces()) {
        EXPECT_EQ(sent, 2 * (pieces - 1));  // as in a ring
      } else {
        EXPECT_LE(sent, 2 * pieces + static_cast<double>(grid.rows()));
      }
    }
    // Everyone but the owner of an element sends it on once, and gets the sum of it once.
    const auto participants = static_cast<double>(grid.participants());
    if (grid.regions() > 1) {
      EXPECT_EQ(sum, 2 * (participants - 1) * pieces);
    }
  });
}

TEST(ReduceGridTest, BetweenRegionsEachElementCrossesAsOftenAsItMust) {
  ForEachGrid([](const ReduceGrid& grid) {
    std::size_t across = 0, counted = 0;
    for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
      across += grid.PiecesSentAcross(seat);
    }
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
      for (std::size_t region = 0; region < grid.regions(); ++region) {
        const std::size_t head = grid.HeadOf(region, piece);
        const bool crosses = grid.RegionOf(grid.OwnerOf(piece)) != grid.RegionOf(head);
        counted += crosses ? 2 : 0;  // there and back
      }
    }
    EXPECT_EQ(across, LeastCrossings(grid.regions()) * grid.pieces());
    EXPECT_EQ(across, counted);
  });
}

TEST(ReduceGridTest, HeadsOfEqualRegionsHaveEquallyMuchToAdd) {
  const ReduceGrid grid(24, 12, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  for (std::size_t seat = 1; seat < 24; ++seat) {
    EXPECT_EQ(grid.PiecesSent(seat), grid.PiecesSent(0));
    EXPECT_EQ(grid.PeersOf(seat).size(), grid.PeersOf(0).size());
  }
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
std::vector<PlacedMember> InPods(const std::vector<std::size_t>& sizes) {
  std::vector<PlacedMember> members;
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

TEST(SeatByPlaceTest, OfEqualPodsEachSendsItsSumOnce) {
  const auto members = InPods({4, 4, 4});
  const Seating seating = SeatByPlace(members);
  EXPECT_EQ(seating.rows, 3u);
  EXPECT_EQ(CrossesPods(seating), 2 * (3 - 1));
  EXPECT_NEAR(CrossesPods({seating.seats, 1}), 2 * 8, 1e-9) << "flat, four times as much";
}

TEST(SeatByPlaceTest, ARowNeverHoldsTwoPodsAndRowsDifferByOneAtMost) {
  for (const std::vector<std::size_t>& sizes : std::vector<std::vector<std::size_t>>{
           {2}, {8}, {4, 3}, {3, 4}, {4, 2}, {1, 4}, {1, 1, 5}, {2, 7, 3}, {8, 8, 8, 5, 1}}) {
    const auto members = InPods(sizes);
    Seating seating = SeatByPlace(members);
    ASSERT_EQ(seating.seats.size(), members.size());
    EXPECT_TRUE(std::ranges::is_permutation(seating.seats, members, {}, {}, &PlacedMember::id));
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

TEST(SeatByPlaceTest, ThePodsThatStayKeepTheirRowsWhenOneGoes) {
  auto members = InPods({4, 4, 4, 4});
  const Seating all = SeatByPlace(members);
  std::erase_if(members, [](const PlacedMember& member) { return member.pod == "p1"; });
  const Seating left = SeatByPlace(members);
  const auto peers_of = [](const Seating& seating, const WorkerId& id) {
    const ReduceGrid grid(seating.seats.size(), seating.rows);
    std::set<WorkerId> peers;
    const auto seat = std::ranges::find(seating.seats, id) - seating.seats.begin();
    for (const std::size_t peer : grid.PeersOf(static_cast<std::size_t>(seat))) {
      peers.insert(seating.seats[peer]);
    }
    return peers;
  };
  for (const PlacedMember& member : members) {
    EXPECT_TRUE(std::ranges::includes(peers_of(all, member.id), peers_of(left, member.id)));
  }
}

TEST(SeatByPlaceTest, WithoutPodsAndWithVeryManyTheGridIsThatOfTheNumberAlone) {
  for (const std::size_t participants : {1, 7, 16, 17, 250}) {
    const auto members = InPods(std::vector<std::size_t>(participants, 1));
    const Seating seating = SeatByPlace(members);
    EXPECT_EQ(seating.rows, ChooseRows(participants));
    if (participants <= kFlatReduceMax) {
      EXPECT_EQ(seating.seats.back(), members.back().id);
    }
  }
  const auto many = InPods(std::vector<std::size_t>(kPlaceRowsMax + 1, 2));
  EXPECT_EQ(SeatByPlace(many).rows, ChooseRows(many.size()));
}

/// Regions of so many participants each, without pods.
std::vector<PlacedMember> InRegions(const std::vector<std::size_t>& sizes) {
  std::vector<PlacedMember> members;
  for (std::size_t region = 0; region < sizes.size(); ++region) {
    const std::string name = "r" + std::to_string(region);
    for (std::size_t i = 0; i < sizes[region]; ++i) {
      members.push_back({WorkerId(name + "-" + std::to_string(i)), "", name});
    }
  }
  return members;
}

/// The names of InRegions begin with the region, as those of InPods with the pod.
std::string RegionOf(const WorkerId& id) { return PodOf(id); }

TEST(SeatByPlaceTest, OfWhateverRegionsEachElementCrossesAsOftenAsItMust) {
  for (const std::vector<std::size_t>& sizes :
       std::vector<std::vector<std::size_t>>{{4, 4, 4},
                                             {1, 1},
                                             {4, 3},
                                             {5, 1},
                                             {2, 7, 3},
                                             {16, 16, 1},
                                             {17, 20, 40},
                                             {60, 50, 70, 90},
                                             {1, 1, 1, 1, 12}}) {
    const auto members = InRegions(sizes);
    const Seating seating = SeatByPlace(members);
    ASSERT_TRUE(std::ranges::is_permutation(seating.seats, members, {}, {}, &PlacedMember::id));
    ASSERT_EQ(seating.regions.size(), seating.rows);
    const ReduceGrid grid(seating.seats.size(), seating.rows, seating.regions);
    EXPECT_EQ(grid.regions(), sizes.size());
    for (std::size_t a = 0; a < grid.participants(); ++a) {
      for (std::size_t b = 0; b < grid.participants(); ++b) {
        ASSERT_EQ(grid.RegionOf(a) == grid.RegionOf(b),
                  RegionOf(seating.seats[a]) == RegionOf(seating.seats[b]));
      }
      ASSERT_LE(grid.PeersOf(a).size(), 2 * kPlaceRowsMax);
    }
  }
}

TEST(SeatByPlaceTest, AFlatSumOfThreeRegionsOfFourCrossesFourTimesAsOften) {
  const auto members = InRegions({4, 4, 4});
  std::vector<WorkerId> ids;
  for (const PlacedMember& member : members) ids.push_back(member.id);
  EXPECT_NEAR(CrossesPods({ids, 1}), 4 * LeastCrossings(3), 1e-9);
}

TEST(SeatByPlaceTest, PodsSumBeforeTheirRegionDoes) {
  std::vector<PlacedMember> members;
  for (const char* region : {"eu", "us"}) {
    for (int pod = 0; pod < 3; ++pod) {
      for (int i = 0; i < 4; ++i) {
        const std::string name = region + std::to_string(pod);
        members.push_back({WorkerId(name + "-" + std::to_string(i)), name, region});
      }
    }
  }
  const Seating seating = SeatByPlace(members);
  EXPECT_EQ(seating.rows, 6u);
  const ReduceGrid grid(seating.seats.size(), seating.rows, seating.regions);
  for (std::size_t seat = 0; seat < grid.participants(); ++seat) {
    EXPECT_EQ(PodOf(seating.seats[seat]), PodOf(seating.seats[grid.RowOf(seat)]));
  }
}

TEST(SeatByPlaceTest, InOneRegionOrWithoutAnyNothingIsDifferent) {
  for (const std::size_t participants : {1, 2, 12, 17, 100}) {
    auto members = InRegions({participants});
    const Seating known = SeatByPlace(members);
    for (PlacedMember& member : members) member.region.clear();
    const Seating unknown = SeatByPlace(members);
    EXPECT_EQ(known.seats, unknown.seats);
    EXPECT_EQ(known.rows, ChooseRows(participants));
    EXPECT_TRUE(known.regions.empty());
  }
}

TEST(SeatByPlaceTest, TheOrderOfTheParticipantsDoesNotMatter) {
  auto members = InRegions({4, 3, 9});
  const Seating seating = SeatByPlace(members);
  std::ranges::reverse(members);
  EXPECT_EQ(SeatByPlace(members).seats, seating.seats);
  EXPECT_EQ(SeatByPlace(members).regions, seating.regions);
}

TEST(SeatByPlaceTest, ARegionOfVeryManyBesideOneOfOneSumsAsIfTheyWereOne) {
  const auto members = InRegions({2 * kPlaceRowsMax + 3, 1});
  const Seating seating = SeatByPlace(members);
  EXPECT_TRUE(seating.regions.empty());
  EXPECT_EQ(seating.rows, ChooseRows(members.size()));
}

}  // namespace
}  // namespace swarm::protocol
