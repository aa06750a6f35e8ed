#include "worker/tier/tier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "worker/tier/scratch_file.h"
#include "worker/tier/space.h"

namespace swarm::tier {
namespace {

std::vector<std::byte> SomeBytes(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Below(256));
  return bytes;
}

/// None: memory.
using Kind = std::optional<FileMover>;

class TierTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == FileMover::kRing) {
      const std::string name = Open()->name();
      if (name.find("through io_uring") == name.npos) GTEST_SKIP() << name;
    }
  }
  std::unique_ptr<Tier> Open() {
    if (!GetParam().has_value()) return MakeMemoryTier();
    auto tier = OpenFileTier(std::filesystem::temp_directory_path(), *GetParam());
    EXPECT_TRUE(tier.ok()) << tier.status().ToString();
    return *std::move(tier);
  }
};

TEST_P(TierTest, MovesWhatIsAlignedAndWhatIsNot) {
  const auto tier = Open();
  const std::size_t size = 2 * kPiece + 3 * kBlock + 24;
  const auto bytes = SomeBytes(size, 2);
  ASSERT_TRUE(tier->Grow(RoundUpToBlocks(size)).ok());
  for (const std::size_t shift : {std::size_t{0}, std::size_t{512}, std::size_t{4}}) {
    const auto from = MakeMemory(size + shift), to = MakeMemory(size + shift);
    const std::span written(from.get() + shift, size), found(to.get() + shift, size);
    std::ranges::copy(bytes, written.begin());
    ASSERT_TRUE(tier->Write(0, written).ok());
    std::ranges::fill(found, std::byte{0});
    ASSERT_TRUE(tier->Read(0, found).ok());
    EXPECT_TRUE(std::ranges::equal(found, bytes)) << shift;
  }
}

TEST_P(TierTest, GivesBackAnyPartOfWhatWasWritten) {
  const auto tier = Open();
  const auto bytes = SomeBytes(3 * kPiece + 777, 1);
  ASSERT_TRUE(tier->Grow(kBlock + bytes.size()).ok());
  ASSERT_TRUE(tier->Write(kBlock, bytes).ok());
  for (const auto& [first, size] :
       {std::pair{std::size_t{0}, bytes.size()}, std::pair{std::size_t{5}, std::size_t{1}},
        std::pair{kPiece - 3, kPiece + 9}, std::pair{bytes.size() - 1, std::size_t{1}},
        std::pair{std::size_t{17}, std::size_t{0}}}) {
    std::vector<std::byte> found(size);
    ASSERT_TRUE(tier->Read(kBlock + first, found).ok());
    EXPECT_TRUE(std::ranges::equal(found, std::span(bytes).subspan(first, size)))
        << size << " bytes from " << first << " on";
  }
}

TEST_P(TierTest, KeepsWhatIsThereWhenItGrows) {
  const auto tier = Open();
  const auto bytes = SomeBytes(5000, 2);
  ASSERT_TRUE(tier->Grow(2 * kBlock).ok());
  ASSERT_TRUE(tier->Write(0, bytes).ok());
  ASSERT_TRUE(tier->Grow(9 * kPiece).ok());
  std::vector<std::byte> found(bytes.size());
  ASSERT_TRUE(tier->Read(0, found).ok());
  EXPECT_EQ(found, bytes);
}

TEST_P(TierTest, ManyRequestsAreOnTheirWayAtOnce) {
  const auto tier = Open();
  constexpr std::size_t kCount = 40, kSize = kPiece / 2 + 1;
  const std::size_t stride = (kSize / kBlock + 1) * kBlock;
  ASSERT_TRUE(tier->Grow(kCount * stride).ok());
  std::vector<std::vector<std::byte>> written, read;
  std::vector<std::future<Status>> results;
  const auto note = [&] {
    const auto promise = std::make_shared<std::promise<Status>>();
    results.push_back(promise->get_future());
    return [promise](Status status) { promise->set_value(std::move(status)); };
  };
  for (std::size_t i = 0; i < kCount; ++i) written.push_back(SomeBytes(kSize, i));
  for (std::size_t i = 0; i < kCount; ++i) tier->SubmitWrite(i * stride, written[i], note());
  for (auto& result : results) EXPECT_TRUE(result.get().ok());
  results.clear();
  read.resize(kCount, std::vector<std::byte>(kSize));
  for (std::size_t i = 0; i < kCount; ++i) tier->SubmitRead(i * stride, read[i], note());
  for (auto& result : results) EXPECT_TRUE(result.get().ok());
  EXPECT_EQ(read, written);
}

TEST_P(TierTest, ThreadsUseItTogether) {
  const auto tier = Open();
  constexpr std::size_t kCount = 4, kSize = kPiece + 3 * kBlock;
  ASSERT_TRUE(tier->Grow(kCount * kSize).ok());
  std::vector<std::future<bool>> same;
  for (std::size_t i = 0; i < kCount; ++i) {
    same.push_back(std::async(std::launch::async, [&tier, i] {
      const auto bytes = SomeBytes(kSize, i);
      std::vector<std::byte> found(kSize);
      for (int round = 0; round < 10; ++round) {
        std::ranges::fill(found, std::byte{0});
        if (!tier->Write(i * kSize, bytes).ok() || !tier->Read(i * kSize, found).ok()) return false;
        if (found != bytes) return false;
      }
      return true;
    }));
  }
  for (auto& each : same) EXPECT_TRUE(each.get());
}

TEST_P(TierTest, ATierThatGoesFinishesWhatIsOnItsWay) {
  auto tier = Open();
  constexpr std::size_t kCount = 40;
  const auto bytes = SomeBytes(2 * kPiece, 6);
  ASSERT_TRUE(tier->Grow(kCount * bytes.size()).ok());
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_TRUE(tier->Write(i * bytes.size(), bytes).ok());
  std::vector<std::vector<std::byte>> read(kCount, std::vector<std::byte>(bytes.size()));
  std::atomic<std::size_t> done = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    tier->SubmitRead(i * bytes.size(), read[i], [&done](Status status) { done += status.ok(); });
  }
  tier.reset();
  EXPECT_EQ(done, kCount);
  EXPECT_EQ(std::ranges::count(read, bytes), std::ssize(read));
}

TEST_P(TierTest, WhatIsMappedStaysWhileTheTierGoesOn) {
  const auto tier = Open();
  const auto bytes = SomeBytes(2 * kBlock + 55, 3);
  ASSERT_TRUE(tier->Grow(3 * kBlock).ok());
  ASSERT_TRUE(tier->Write(0, bytes).ok());
  const auto owner = std::make_shared<int>(1);
  auto mapped = tier->Map(0, bytes.size(), owner);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  EXPECT_EQ(owner.use_count(), 2);
  ASSERT_TRUE(tier->Grow(64 * kBlock).ok());
  ASSERT_TRUE(tier->Write(3 * kBlock, SomeBytes(9 * kBlock, 4)).ok());
  EXPECT_TRUE(std::ranges::equal(mapped->span(), bytes));
  mapped = Bytes();
  EXPECT_EQ(owner.use_count(), 1);
  // A place that was mapped is written and read as any other.
  const auto others = SomeBytes(bytes.size(), 5);
  ASSERT_TRUE(tier->Write(0, others).ok());
  std::vector<std::byte> found(others.size());
  ASSERT_TRUE(tier->Read(0, found).ok());
  EXPECT_EQ(found, others);
  EXPECT_TRUE(std::ranges::equal(tier->Map(0, others.size(), owner)->span(), others));
}

TEST_P(TierTest, AnExtentThatIsGivenBackIsGivenOutAgain) {
  Space space(Open());
  auto first = space.Take(10000);
  ASSERT_TRUE(first.ok());
  const std::uint64_t offset = (*first)->offset();
  const auto second = space.Take(10000);
  ASSERT_TRUE(second.ok());
  EXPECT_GE((*second)->offset(), offset + 10000);
  first->reset();
  const auto third = space.Take(9999);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ((*third)->offset(), offset);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TierTest,
                         ::testing::Values(Kind(), FileMover::kThreads, FileMover::kRing),
                         [](const auto& info) {
                           if (!info.param.has_value()) return "Memory";
                           return *info.param == FileMover::kRing ? "Ring" : "Threads";
                         });

TEST(MemoryTest, WhatWasGivenBackIsGivenOutAgainWhereItFits) {
  constexpr std::size_t kSize = std::size_t{32} << 20;
  auto first = MakeMemory(kSize);
  const std::byte* const place = first.get();
  const auto second = MakeMemory(kSize);
  EXPECT_NE(second.get(), place);
  first.reset();
  const auto again = MakeMemory(kSize - 100);
  EXPECT_EQ(again.get(), place);
}

TEST(MemoryTest, WhatIsKeptAndWhatIsInUseAreNotMoreThanWasInUseAtOnce) {
  constexpr std::size_t kSize = std::size_t{256} << 20;
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    std::uint64_t total = 0, pages = 0;
    statm >> total >> pages;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  };
  const auto use = [](std::size_t size) {
    const auto memory = MakeMemory(size);
    std::memset(memory.get(), 1, size);
  };
  const std::uint64_t before = resident();
  for (std::size_t i = 1; i <= 8; ++i) use(i * kSize / 8);  // none serves the next one
  EXPECT_LT(resident(), before + kSize + kSize / 8);
}

TEST(ScratchFileTest, MemoryIsMappedOfADiskOrNot) {
  for (const std::string& folder :
       {std::filesystem::temp_directory_path().string(), std::string()}) {
    const auto memory = MapScratchFile(folder, 3 * kBlock + 5);
    ASSERT_TRUE(memory.ok()) << memory.status().ToString();
    const std::span bytes(memory->get(), 3 * kBlock + 5);
    EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), std::ssize(bytes));
    bytes.back() = std::byte{7};
    EXPECT_EQ(bytes.back(), std::byte{7});
  }
  EXPECT_EQ(MapScratchFile("/no/such/folder", 1).status().code(), StatusCode::kUnavailable);
}

TEST(FileTierTest, AWordInTheEnvironmentNamesWhatMovesItsBytes) {
  const std::string folder = std::filesystem::temp_directory_path();
  ::setenv("SWARM_SCRATCH_IO", "threads", 1);
  EXPECT_NE((*OpenFileTier(folder))->name().find("by 4 threads"), std::string::npos);
  ::setenv("SWARM_SCRATCH_IO", "io_uring", 1);
  EXPECT_NE((*OpenFileTier(folder))->name().find("io_uring"), std::string::npos);
  ::setenv("SWARM_SCRATCH_IO", "aio", 1);
  EXPECT_EQ(OpenFileTier(folder).status().code(), StatusCode::kInvalidArgument);
  ::unsetenv("SWARM_SCRATCH_IO");
  EXPECT_NE((*OpenFileTier(folder))->name().find("by 4 threads"), std::string::npos);
}

TEST(FileTierTest, AFolderThatIsNotThereIsNamed) {
  const auto tier = OpenFileTier("/no/such/folder");
  ASSERT_FALSE(tier.ok());
  EXPECT_EQ(tier.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(tier.status().message().find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace swarm::tier
