#include "worker/tier/mover.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <thread>
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
  Passage passage(CutRead(kBlock + 3, memory, Into(&outcome)).front(), buffers.at(0), kBlock);
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
  const Passage passage(CutWrite(kBlock, bytes, Into(&outcome)).front(), buffers.at(0), kBlock);
  const std::span written(passage.memory(), passage.size());
  ASSERT_EQ(written.size(), 2 * kBlock);
  EXPECT_TRUE(std::ranges::equal(written.first(bytes.size()), bytes));
  EXPECT_EQ(std::ranges::count(written.subspan(bytes.size()), std::byte{0}), kBlock - 10);
}

TEST(PassageTest, WholeBlocksInAlignedMemoryAreNotCopied) {
  const auto memory = MakeMemory(4 * kBlock);
  const Buffers buffers(1);
  const auto goes_through = [&](std::uint64_t offset, std::size_t first, std::size_t size) {
    const std::span part(memory.get() + first, size);
    const Passage read(CutRead(offset, part, [](Status) {}).front(), buffers.at(0), kBlock / 8);
    const Passage write(CutWrite(offset, part, [](Status) {}).front(), buffers.at(0), kBlock / 8);
    EXPECT_EQ(read.memory(), write.memory());
    EXPECT_TRUE(read.memory() == part.data() || read.memory() == buffers.at(0));
    return read.memory() == buffers.at(0);
  };
  EXPECT_FALSE(goes_through(kBlock, 0, 2 * kBlock));
  EXPECT_FALSE(goes_through(0, kBlock / 8, kBlock));  // as aligned as this file wants it
  EXPECT_TRUE(goes_through(0, 4, kBlock));
  EXPECT_TRUE(goes_through(8, 0, kBlock));
  EXPECT_TRUE(goes_through(0, 0, kBlock - 4));
}

TEST(PassageTest, AnErrorSaysWhatFailedWhereAndWhatToDo) {
  const Buffers buffers(1);
  std::vector<std::byte> memory(kBlock);
  std::optional<Status> outcome;
  Passage lost(CutRead(2 * kBlock, memory, Into(&outcome)).front(), buffers.at(0), kBlock);
  EXPECT_TRUE(lost.Advance(-EIO, kFile));
  EXPECT_EQ(outcome->ToString(),
            "DATA_LOSS: the file cannot be read at 8192: Input/output error; name another folder "
            "in pipeline.memory.scratch");
  Passage behind(CutRead(0, memory, Into(&outcome)).front(), buffers.at(0), kBlock);
  EXPECT_TRUE(behind.Advance(0, kFile));
  EXPECT_NE(outcome->message().find("the file ends there"), std::string::npos);
}

/// A mover, and the file that it moves bytes of.
struct Moving {
  std::unique_ptr<const ScratchFile> file;
  std::unique_ptr<Mover> mover;
};

Result<Moving> Open(const char* path, FileMover kind) {
  Moving moving{std::make_unique<const ScratchFile>(::open(path, O_RDWR | O_CLOEXEC), path), {}};
  if (kind == FileMover::kThreads) {
    moving.mover = MakeThreads(*moving.file);
  } else {
    ASSIGN_OR_RETURN(moving.mover, MakeRing(*moving.file));
  }
  return moving;
}

class MoverTest : public ::testing::TestWithParam<FileMover> {};

TEST_P(MoverTest, WhatTheKernelDoesNotTakeIsAnErrorOfItsRequestAlone) {
  const auto moving = Open("/dev/full", GetParam());
  if (!moving.ok()) GTEST_SKIP() << moving.status().ToString();
  std::vector<std::byte> bytes(5 * kPiece, std::byte{1});
  const auto move = [&](const auto& cut) {
    std::promise<Status> outcome;
    moving->mover->Move(
        cut(0, bytes, [&](Status status) { outcome.set_value(std::move(status)); }));
    return outcome.get_future().get();
  };
  const Status full = move(CutWrite);
  EXPECT_EQ(full.code(), StatusCode::kDataLoss);
  EXPECT_NE(full.message().find("No space left on device"), std::string::npos);
  ASSERT_TRUE(move(CutRead).ok()) << "it goes on";
  EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), std::ssize(bytes));
}

INSTANTIATE_TEST_SUITE_P(Movers, MoverTest,
                         ::testing::Values(FileMover::kThreads, FileMover::kRing),
                         [](const auto& info) {
                           return info.param == FileMover::kRing ? "Ring" : "Threads";
                         });

/// From now on the kernel answers this thread's calls of that number with the error. Returns false
/// where the thread may not ask for that.
bool Refuse(std::uint32_t call, std::uint32_t error) {
  std::array<sock_filter, 4> program{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Containers refuse to make a ring, each in its way; a filter may also refuse to use one.
TEST(FileTierTest, WhereIoUringIsRefusedThreadsTakeItsPlaceAndTheNameSaysWhy) {
  const std::string folder = std::filesystem::temp_directory_path();
  const bool offered = Open("/dev/zero", FileMover::kRing).ok();
  for (const auto& [call, error] :
       {std::pair{__NR_io_uring_setup, EPERM}, std::pair{__NR_io_uring_setup, ENOSYS},
        std::pair{__NR_io_uring_enter, EACCES}}) {
    bool refused = false;
    std::jthread([&] {
      refused = Refuse(static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(error));
      if (!refused) return;
      const auto tier = OpenFileTier(folder, FileMover::kRing);
      ASSERT_TRUE(tier.ok()) << tier.status().ToString();
      EXPECT_NE((*tier)->name().find("by 4 threads (the kernel offers no io_uring"),
                std::string::npos)
          << (*tier)->name();
      if (offered) {
        EXPECT_NE((*tier)->name().find(std::strerror(error)), std::string::npos) << (*tier)->name();
      }
      const auto bytes = Counted(3 * kPiece);
      std::vector<std::byte> found(bytes.size());
      ASSERT_TRUE((*tier)->Grow(bytes.size()).ok());
      ASSERT_TRUE((*tier)->Write(0, bytes).ok());
      ASSERT_TRUE((*tier)->Read(0, found).ok());
      EXPECT_EQ(found, bytes);
    }).join();
    if (!refused) GTEST_SKIP() << "a thread may not filter its system calls here";
  }
}

}  // namespace
}  // namespace swarm::tier
