#include "worker/tier/mover.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace swarm::tier {
namespace {

constexpr const char* kFile = "the file";

/// Puts the outcome where a test looks.
Tier::Done Into(std::optional<Status>* outcome) {
  return [outcome](Status status) { *outcome = std::move(status); };
}

std::vector<std::byte> Counted(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

TEST(PieceTest, NoBlockIsOfTwoPieces) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{5}, kBlock - 1, 3 * kBlock}) {
    for (const std::size_t size : {std::size_t{1}, kPiece - 5, kPiece, kPiece + 1, 3 * kPiece}) {
      std::vector<std::byte> memory(size);
      std::optional<Status> outcome;
      std::uint64_t at = offset, block = 0;
      const auto pieces = CutRead(offset, memory, Into(&outcome));
      for (const Piece& piece : pieces) {
        EXPECT_EQ(piece.offset, at);
        EXPECT_EQ(piece.to, memory.data() + (at - offset));
        EXPECT_GE(piece.offset / kBlock, block);
        at += piece.size;
        block = RoundUpToBlocks(at) / kBlock;
        EXPECT_LE(block * kBlock - piece.offset / kBlock * kBlock, kPiece);
      }
      EXPECT_EQ(at, offset + size);
      for (const Piece& piece : pieces) {
        EXPECT_FALSE(outcome.has_value());
        piece.request->Finish(Status());
      }
      EXPECT_TRUE(outcome.has_value() && outcome->ok());
    }
  }
}

TEST(PieceTest, ARequestTellsTheFirstErrorOfItsPieces) {
  const std::vector<std::byte> bytes(3 * kPiece);
  std::optional<Status> outcome;
  const auto pieces = CutWrite(0, bytes, Into(&outcome));
  ASSERT_EQ(pieces.size(), 3);
  pieces[2].request->Finish(DataLoss("the first"));
  pieces[0].request->Finish(DataLoss("the second"));
  EXPECT_FALSE(outcome.has_value());
  pieces[1].request->Finish(Status());
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->message(), "the first");
}

TEST(PassageTest, ACallThatMovesLessOrIsInterruptedIsFollowedByOneForTheRest) {
  const Buffers buffers(1);
  const auto file = Counted(4 * kBlock);
  std::vector<std::byte> memory(2 * kBlock);
  std::optional<Status> outcome;
  Passage passage(CutRead(kBlock + 3, memory, Into(&outcome)).front(), buffers.at(0));
  EXPECT_EQ(passage.offset(), kBlock);
  EXPECT_EQ(passage.size(), 3 * kBlock) << "whole blocks";
  EXPECT_FALSE(passage.Advance(-EINTR, kFile));
  EXPECT_FALSE(passage.Advance(-EAGAIN, kFile));
  while (true) {
    const std::uint64_t moved = std::min<std::uint64_t>(passage.size(), 1000);
    std::memcpy(passage.memory(), file.data() + passage.offset(), moved);
    if (passage.Advance(static_cast<std::int64_t>(moved), kFile)) break;
    EXPECT_FALSE(outcome.has_value());
  }
  ASSERT_TRUE(outcome.has_value() && outcome->ok());
  EXPECT_TRUE(std::ranges::equal(memory, std::span(file).subspan(kBlock + 3, memory.size())));
}

TEST(PassageTest, TheRestOfTheLastBlockOfAWriteIsZeros) {
  const Buffers buffers(1);
  std::memset(buffers.at(0), 1, kPiece);
  const auto bytes = Counted(kBlock + 10);
  std::optional<Status> outcome;
  const Passage passage(CutWrite(kBlock, bytes, Into(&outcome)).front(), buffers.at(0));
  const std::span written(passage.memory(), passage.size());
  ASSERT_EQ(written.size(), 2 * kBlock);
  EXPECT_TRUE(std::ranges::equal(written.first(bytes.size()), bytes));
  EXPECT_EQ(std::ranges::count(written.subspan(bytes.size()), std::byte{0}), kBlock - 10);
}

TEST(PassageTest, AnErrorSaysWhatFailedWhereAndWhatToDo) {
  const Buffers buffers(1);
  std::vector<std::byte> memory(kBlock);
  std::optional<Status> outcome;
  Passage lost(CutRead(2 * kBlock, memory, Into(&outcome)).front(), buffers.at(0));
  EXPECT_TRUE(lost.Advance(-EIO, kFile));
  EXPECT_EQ(outcome->ToString(),
            "DATA_LOSS: the file cannot be read at 8192: Input/output error; name another folder "
            "in pipeline.memory.scratch");
  Passage behind(CutRead(0, memory, Into(&outcome)).front(), buffers.at(0));
  EXPECT_TRUE(behind.Advance(0, kFile));
  EXPECT_NE(outcome->message().find("the file ends there"), std::string::npos);
}

TEST(ThreadsTest, WhatTheKernelDoesNotTakeIsAnErrorOfItsRequestAlone) {
  const ScratchFile file(::open("/dev/full", O_RDWR | O_CLOEXEC), "/dev/full");
  const auto threads = MakeThreads(file);
  std::vector<std::byte> bytes(5 * kPiece, std::byte{1});
  const auto move = [&](const auto& cut) {
    std::promise<Status> outcome;
    threads->Move(cut(0, bytes, [&](Status status) { outcome.set_value(std::move(status)); }));
    return outcome.get_future().get();
  };
  const Status full = move(CutWrite);
  EXPECT_EQ(full.code(), StatusCode::kDataLoss);
  EXPECT_NE(full.message().find("No space left on device"), std::string::npos);
  ASSERT_TRUE(move(CutRead).ok()) << "it goes on";
  EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), std::ssize(bytes));
}

}  // namespace
}  // namespace swarm::tier
