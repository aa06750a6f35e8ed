#include "worker/protocol/grid/reduce_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

namespace swarm::protocol {
namespace {

/// Every grid of up to 40 participants, and the chosen ones of up to 300.
void ForEachGrid(const std::function<void(const ReduceGrid&)>& check) {
  for (std::size_t participants = 1; participants <= 300; ++participants) {
    if (participants <= 40) {
      for (std::size_t rows = 1; rows <= participants; ++rows) check({participants, rows});
    } else {
      check({participants, ChooseRows(participants, 16)});
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
    for (std::size_t rank = 0; rank < grid.participants(); ++rank) {
      EXPECT_EQ(grid.OwnsPiece(rank), owners.contains(rank));
    }
  });
}

TEST(ReduceGridTest, RowsCoverTheParticipantsAndDifferByOneAtMost) {
  ForEachGrid([](const ReduceGrid& grid) {
    std::size_t rank = 0;
    for (std::size_t row = 0; row < grid.rows(); ++row) {
      EXPECT_GE(grid.RowSize(row), grid.columns());
      EXPECT_LE(grid.RowSize(row), grid.columns() + 1);
      for (std::size_t place = 0; place < grid.RowSize(row); ++place, ++rank) {
        EXPECT_EQ(grid.RowOf(rank), row);
        EXPECT_EQ(grid.ColumnOf(rank), place);
      }
    }
    EXPECT_EQ(rank, grid.participants());
  });
}

TEST(ReduceGridTest, EveryContributionReachesEveryOwnerThroughPeers) {
  ForEachGrid([](const ReduceGrid& grid) {
    for (std::size_t rank = 0; rank < grid.participants(); ++rank) {
      for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
        const std::size_t adder = grid.AdderOf(grid.RowOf(rank), piece);
        const std::size_t owner = grid.OwnerOf(piece);
        EXPECT_EQ(grid.RowOf(adder), grid.RowOf(rank));
        EXPECT_TRUE(rank == adder || grid.Exchange(rank, adder));
        EXPECT_TRUE(adder == owner || grid.Exchange(adder, owner));
      }
    }
  });
}

TEST(ReduceGridTest, PeersAreThoseThatExchangeData) {
  ForEachGrid([](const ReduceGrid& grid) {
    for (std::size_t rank = 0; rank < grid.participants(); ++rank) {
      std::vector<std::size_t> expected;
      for (std::size_t other = 0; other < grid.participants(); ++other) {
        EXPECT_EQ(grid.Exchange(rank, other), grid.Exchange(other, rank));
        if (grid.Exchange(rank, other)) expected.push_back(other);
      }
      EXPECT_EQ(grid.PeersOf(rank), expected);
    }
  });
}

TEST(ReduceGridTest, AChosenGridHasAboutTwiceTheRootOfPeers) {
  for (std::size_t participants = 17; participants <= 4000; ++participants) {
    const ReduceGrid grid(participants, ChooseRows(participants, 16));
    const double root = std::sqrt(static_cast<double>(participants));
    for (std::size_t rank = 0; rank < participants; rank += 1 + participants / 50) {
      const double peers = static_cast<double>(grid.PeersOf(rank).size());
      ASSERT_LE(peers, 2 * root + 1) << participants << " participants";
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
    for (std::size_t rank = 0; rank < grid.participants(); ++rank) {
      const auto sent = static_cast<double>(grid.PiecesSent(rank));
      if (grid.participants() == grid.pieces()) {
        EXPECT_EQ(sent, 2 * (pieces - 1));  // as in a ring
      } else {
        EXPECT_LE(sent, 2 * pieces + static_cast<double>(grid.rows()));
      }
    }
  });
}

}  // namespace
}  // namespace swarm::protocol
