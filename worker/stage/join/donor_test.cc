#include "worker/stage/join/donor.h"

#include <gtest/gtest.h>

#include <string>

namespace swarm::stage {
namespace {

using checkpoint::kPieceBytes;
using checkpoint::PiecedBytes;
using protocol::Fetch;
using protocol::FetchKind;
using protocol::Generation;
using protocol::Version;

constexpr Generation kGeneration(1);

std::shared_ptr<const PiecedBytes> Filled(char with, std::size_t size = 10) {
  return std::make_shared<const PiecedBytes>(
      std::vector<Bytes>{Bytes::Copy(std::string(size, with))});
}

/// With room for 300 bytes of copies.
class DonorTest : public testing::Test {
 protected:
  DonorTest() { account_.SetBudget(3200); }

  MemoryAccount account_;
  Donor donor_{&account_, [](auto&&...) { return nullptr; }};
};

Fetch StateOf(std::uint64_t version, std::uint64_t piece = 0) {
  return {.generation = kGeneration,
          .kind = FetchKind::kState,
          .version = Version(version),
          .piece = piece};
}

TEST_F(DonorTest, AnswersNameWhatWasAskedFor) {
  const Fetch asked{.generation = kGeneration,
                    .kind = FetchKind::kGradient,
                    .version = Version(6),
                    .group = protocol::GroupIndex(3),
                    .k = {protocol::Term(2), 5},
                    .piece = 1};
  const auto gradient = Filled('g', kPieceBytes + 1);
  Donor donor(&account_, [&](Generation generation, protocol::Step step, protocol::GroupIndex group,
                             const protocol::Attempt& k) {
    const bool here = generation == asked.generation && step == protocol::Step(6) &&
                      group == asked.group && k == asked.k;
    return here ? gradient : nullptr;
  });
  const Donor::Answer answer = donor.OnFetch(asked);
  EXPECT_EQ(answer.message.error, "");
  EXPECT_EQ(answer.message.generation, asked.generation);
  EXPECT_EQ(answer.message.kind, asked.kind);
  EXPECT_EQ(answer.message.version, asked.version);
  EXPECT_EQ(answer.message.group, asked.group);
  EXPECT_EQ(answer.message.k, asked.k);
  EXPECT_EQ(answer.message.piece, 1u);
  EXPECT_EQ(answer.message.pieces, 2u);
  EXPECT_EQ(answer.payload.text(), "g");

  Fetch other = asked;
  other.k.n = 4;
  EXPECT_EQ(donor.OnFetch(other).message.error, "no reduced gradient of step 6");
}

TEST_F(DonorTest, GivesIndexAndPiecesWithoutACopy) {
  Donor& donor = donor_;
  const auto state = Filled('s', kPieceBytes + 10);
  donor.Pin(kGeneration, Version(4), state);
  Fetch index = StateOf(4);
  index.kind = FetchKind::kStateIndex;
  EXPECT_EQ(donor.OnFetch(index).payload.data(), state->index().data());
  EXPECT_EQ(donor.OnFetch(StateOf(4, 0)).payload.data(), state->Piece(0).data());
  EXPECT_EQ(donor.OnFetch(StateOf(4, 1)).payload.size(), 10u);
  EXPECT_EQ(donor.OnFetch(StateOf(4, 2)).message.error, "piece 2 of 2 pieces");
}

TEST_F(DonorTest, KeepsTwoVersionsAtTheMost) {
  Donor& donor = donor_;
  const auto first = Filled('a');
  donor.Pin(kGeneration, Version(1), first);
  donor.Pin(kGeneration, Version(2), Filled('b'));
  donor.Pin(kGeneration, Version(2), Filled('c'));  // again: replaces it
  EXPECT_EQ(donor.OnFetch(StateOf(1)).payload.text()[0], 'a');
  EXPECT_EQ(donor.OnFetch(StateOf(2)).payload.text()[0], 'c');
  donor.Pin(kGeneration, Version(3), Filled('d'));
  EXPECT_EQ(donor.pinned(), 2u);
  EXPECT_EQ(first.use_count(), 1) << "what is not pinned is not kept";
  EXPECT_EQ(donor.OnFetch(StateOf(1)).message.error, "version 1 is not pinned");
  EXPECT_EQ(donor.OnFetch(StateOf(3)).payload.text()[0], 'd');
}

TEST_F(DonorTest, KeepsOneVersionWhereThereIsNoRoomForTwo) {
  donor_.Pin(kGeneration, Version(1), Filled('a', 300));
  EXPECT_EQ(account_.bytes(MemoryKind::kCopies), 300u);
  donor_.Pin(kGeneration, Version(2), Filled('b', 300));
  EXPECT_EQ(donor_.pinned(), 1u);
  EXPECT_EQ(account_.bytes(MemoryKind::kCopies), 300u);
  donor_.Pin(kGeneration, Version(3), Filled('c', 5000));  // no worker could join without it
  EXPECT_EQ(donor_.OnFetch(StateOf(3)).message.error, "");
  donor_.Clear();
  EXPECT_EQ(account_.bytes(MemoryKind::kCopies), 0u);
}

TEST_F(DonorTest, WhatADiskKeepsTakesNoMemory) {
  donor_.Pin(kGeneration, Version(1), Filled('a', 300), 20);
  donor_.Pin(kGeneration, Version(2), Filled('b', 300), 20);
  EXPECT_EQ(donor_.pinned(), 2u);
  EXPECT_EQ(account_.bytes(MemoryKind::kCopies), 40u);
}

TEST_F(DonorTest, WhatIsUnpinnedOrOfAnotherGenerationIsNotHere) {
  Donor& donor = donor_;
  donor.Pin(kGeneration, Version(1), Filled('a'));
  Fetch older = StateOf(1);
  older.generation = Generation(0);
  EXPECT_NE(donor.OnFetch(older).message.error, "");
  donor.Unpin(Generation(0), Version(1));
  EXPECT_EQ(donor.OnFetch(StateOf(1)).message.error, "");
  donor.Unpin(kGeneration, Version(1));
  EXPECT_NE(donor.OnFetch(StateOf(1)).message.error, "");
  EXPECT_EQ(donor.pinned(), 0u);
}

}  // namespace
}  // namespace swarm::stage
