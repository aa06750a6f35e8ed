#include "base/kept_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

namespace swarm {
namespace {

/// Of this process.
std::uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0, pages = 0;
  statm >> total >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(KeptMemoryTest, WhatWasGivenBackIsGivenOutAgain) {
  KeptMemory kept(KeptMemory::Bound::kWithUsed, KeptMemory::Pages::kLarge);
  for (const std::size_t size : {KeptMemory::kMin, std::size_t{3} << 20, std::size_t{32} << 20}) {
    std::byte* const first = kept.Take(size);
    std::byte* const second = kept.Take(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 4096, 0);
    EXPECT_NE(first, second);
    std::memset(first, 1, size);
    kept.Return(first, size);
    EXPECT_EQ(kept.Take(size), first);
    kept.Return(second, size);
    kept.Return(first, size);
    EXPECT_EQ(kept.Take(size), first) << "the last one that came, which caches may still have";
    kept.Return(first, size);
  }
}

TEST(KeptMemoryTest, WhatIsKeptAndWhatIsInUseAreNotMoreThanWasInUseAtOnce) {
  constexpr std::size_t kSize = std::size_t{256} << 20;
  KeptMemory kept(KeptMemory::Bound::kWithUsed, KeptMemory::Pages::kLarge);
  const auto use = [&](std::size_t size) {
    std::byte* const memory = kept.Take(size);
    std::memset(memory, 1, size);
    kept.Return(memory, size);
  };
  const std::uint64_t before = ResidentBytes();
  for (std::size_t i = 1; i <= 8; ++i) use(i * kSize / 8);  // none serves the next one
  EXPECT_LT(ResidentBytes(), before + kSize + kSize / 8);
  std::vector<std::byte*> pieces;
  constexpr std::size_t kPiece = kSize / 32;  // of another kind of work, which has as much
  for (std::size_t i = 0; i < 32; ++i) pieces.push_back(kept.Take(kPiece));
  for (std::byte* const piece : pieces) std::memset(piece, 2, kPiece);
  EXPECT_LT(ResidentBytes(), before + kSize + kSize / 8);
  for (std::byte* const piece : pieces) kept.Return(piece, kPiece);
}

TEST(KeptMemoryTest, WhatIsInDemandAtUnlikeMomentsIsKeptBesideWhatIsInUse) {
  constexpr std::size_t kSize = std::size_t{64} << 20;
  KeptMemory kept(KeptMemory::Bound::kBesideUsed, KeptMemory::Pages::kLarge);
  std::byte* const forward = kept.Take(kSize);
  kept.Return(forward, kSize);
  std::byte* const backward = kept.Take(kSize / 2);
  EXPECT_EQ(kept.Take(kSize), forward);
  kept.Return(forward, kSize);
  kept.Return(backward, kSize / 2);
  const std::uint64_t before = ResidentBytes();
  for (std::size_t i = 1; i <= 16; ++i) {
    const std::size_t size = kSize / 2 + i * kSize / 32;  // each of a size that was not there yet
    std::byte* const memory = kept.Take(size);
    std::memset(memory, 1, size);
    kept.Return(memory, size);
  }
  EXPECT_LT(ResidentBytes(), before + 2 * kSize);
}

TEST(KeptMemoryTest, TheSystemGetsWhatIsReleased) {
  constexpr std::size_t kSize = std::size_t{128} << 20;
  KeptMemory kept(KeptMemory::Bound::kBesideUsed, KeptMemory::Pages::kLarge);
  const std::uint64_t before = ResidentBytes();
  std::byte* const memory = kept.Take(kSize);
  std::memset(memory, 1, kSize);
  kept.Return(memory, kSize);
  EXPECT_GT(ResidentBytes(), before + kSize / 2);
  kept.Release();
  EXPECT_LT(ResidentBytes(), before + kSize / 2);
}

TEST(KeptMemoryTest, WhatTheSystemDoesNotHaveIsNull) {
  KeptMemory kept(KeptMemory::Bound::kWithUsed, KeptMemory::Pages::kLarge);
  EXPECT_EQ(kept.Take(std::size_t{1} << 60), nullptr);
  std::byte* const memory = kept.Take(KeptMemory::kMin);
  EXPECT_NE(memory, nullptr);
  kept.Return(memory, KeptMemory::kMin);
}

TEST(KeptMemoryTest, EachPieceHasOneOwnerAtATime) {
  KeptMemory kept(KeptMemory::Bound::kWithUsed, KeptMemory::Pages::kLarge);
  const auto work = [&](unsigned char mine) {
    for (int round = 0; round < 2000; ++round) {
      const std::size_t size = KeptMemory::kMin * static_cast<std::size_t>(1 + round % 5);
      std::byte* const memory = kept.Take(size);
      std::memset(memory, mine, size);
      std::this_thread::yield();
      for (std::size_t i = 0; i < size; i += 4096) ASSERT_EQ(std::byte{mine}, memory[i]);
      kept.Return(memory, size);
    }
  };
  std::thread other([&] { work(1); });
  work(2);
  other.join();
}

TEST(KeptMemoryTest, OneTakesMoreThanWasEverInUseWhileAnotherGivesBack) {
  KeptMemory kept(KeptMemory::Bound::kWithUsed, KeptMemory::Pages::kLarge);
  const std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      kept.Return(kept.Take(KeptMemory::kMin), KeptMemory::kMin);
    }
  });
  for (std::size_t mib = 2; mib <= 1000; ++mib) {
    std::byte* const memory = kept.Take(mib << 20);
    ASSERT_NE(memory, nullptr);
    kept.Return(memory, mib << 20);
  }
}

TEST(KeptMemoryTest, SizesAreRoundedByLessThanAnEighth) {
  EXPECT_EQ(KeptMemory::RoundUp(100), 100);
  EXPECT_EQ(KeptMemory::RoundUp(KeptMemory::kMin), KeptMemory::kMin);
  EXPECT_EQ(KeptMemory::RoundUp(KeptMemory::kMin + 1), KeptMemory::kMin + KeptMemory::kMin / 8);
  EXPECT_EQ(KeptMemory::RoundUp(50'331'649), 54'525'952);
  EXPECT_EQ(KeptMemory::RoundUp(50'331'648), 50'331'648);
}

}  // namespace
}  // namespace swarm
