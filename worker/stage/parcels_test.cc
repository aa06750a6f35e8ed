#include "worker/stage/parcels.h"

#include <gtest/gtest.h>

namespace swarm::stage {
namespace {

using protocol::GroupIndex;

const protocol::WorkerId kDonor("d");

/// Two groups, the first of which takes three pieces.
class ParcelsTest : public testing::Test {
 protected:
  using Pieces = std::vector<std::pair<protocol::Parcel, Bytes>>;

  static Pieces Cut(std::uint64_t microbatch) {
    protocol::Parcel header;
    header.contributions = {{protocol::Microbatch(microbatch), {protocol::Term(1), 1}}};
    Pieces pieces;
    for (std::uint64_t group = 0; group < 2; ++group) {
      const std::string sum(group == 0 ? 10'000'000 : 8, static_cast<char>('a' + microbatch));
      for (auto& piece : CutParcel(header, GroupIndex(group), {Bytes::Copy(sum)})) {
        pieces.push_back(std::move(piece));
      }
    }
    return pieces;
  }
  /// How often these pieces complete the parcel.
  int Add(const Pieces& pieces) {
    int whole = 0;
    for (const auto& [piece, payload] : pieces) {
      const auto added =
          parcels_.Add(kDonor, piece, payload, {{GroupIndex(0), 10'000'000}, {GroupIndex(1), 8}});
      EXPECT_TRUE(added.ok()) << added.status().ToString();
      whole += added.ok() && *added != nullptr;
    }
    return whole;
  }
  std::string SumOfSecond() const {
    const Parcels::Whole* whole = parcels_.Find(kDonor, protocol::Step(0));
    return whole == nullptr ? "" : std::string(whole->parts.at(1).elements.text());
  }

  MemoryAccount account_;
  Parcels parcels_{&account_};
};

TEST_F(ParcelsTest, IsWholeWithItsLastPieceWhicheverThatIs) {
  Pieces pieces = Cut(0);
  ASSERT_EQ(pieces.size(), 4u);
  std::swap(pieces.front(), pieces.back());
  const Pieces first(pieces.begin(), pieces.end() - 1), last(pieces.end() - 1, pieces.end());
  EXPECT_EQ(Add(first), 0);
  EXPECT_EQ(SumOfSecond(), "");
  EXPECT_EQ(Add(first), 0) << "pieces that are here already change nothing";
  EXPECT_EQ(Add(last), 1);
  EXPECT_EQ(SumOfSecond(), "aaaaaaaa");
  EXPECT_EQ(account_.bytes(MemoryKind::kParcels), 10'000'008u);
  parcels_.DropUpTo(protocol::Step(0));
  EXPECT_EQ(account_.bytes(MemoryKind::kParcels), 0u);
}

TEST_F(ParcelsTest, StaysWholeWhenItIsSentOnceMoreAndIsToldOnceMore) {
  const Pieces pieces = Cut(0);
  EXPECT_EQ(Add(pieces), 1);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(Add({pieces[i]}), i == 0 ? 1 : 0);
    EXPECT_EQ(SumOfSecond(), "aaaaaaaa");
  }
}

TEST_F(ParcelsTest, AnotherAccountTakesThePlaceOfTheEarlierOne) {
  EXPECT_EQ(Add(Cut(0)), 1);
  const Pieces pieces = Cut(1);
  EXPECT_EQ(Add({pieces[0]}), 0);
  EXPECT_EQ(SumOfSecond(), "");
  EXPECT_EQ(Add(pieces), 1);
  EXPECT_EQ(SumOfSecond(), "bbbbbbbb");
}

}  // namespace
}  // namespace swarm::stage
