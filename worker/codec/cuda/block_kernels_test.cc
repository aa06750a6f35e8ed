// The block kernels on a device against the CPU's codes: byte for byte. Skipped where there is
// none.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/testing/cases.h"
#include "worker/codec/cuda/testing/device.h"

namespace swarm::codec::cuda {
namespace {

constexpr std::size_t kSizes[] = {1, 3, 33, 129, 255, 256, 257, 1000, 4099, 1000003};
constexpr std::size_t kBlocks[] = {1, 7, 64, 100, 256, 4096};

class BlockKernels : public testing::TestWithParam<CodeMap> {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoDevice(); !why.empty()) GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(, BlockKernels, testing::Values(CodeMap::kLinear, CodeMap::kDynamic),
                         [](const auto& info) {
                           return info.param == CodeMap::kLinear ? "Linear" : "Dynamic";
                         });

TEST_P(BlockKernels, WriteAndReadTheBytesOfTheCpu) {
  const OnDevice<DynamicTables> tables(
      std::vector<DynamicTables>{{DynamicMap(), NearestEntries()}});
  for (const std::size_t n : kSizes) {
    for (const std::size_t block : kBlocks) {
      for (const std::vector<float>& x : NumbersOfAllKinds(n)) {
        const BlockCodes codes(GetParam(), block, NotFinite::kBlockOfNaNs);
        std::vector<std::byte> truth(codes.EncodedBytes(n));
        ASSERT_TRUE(codes.Encode(x, truth.data()).ok());
        std::vector<float> numbers(n);
        ASSERT_TRUE(codes.Decode(truth, numbers).ok());

        const OnDevice<float> values(x), back(n);
        const OnDevice<std::byte> payload(truth.size());
        const OnDevice<std::uint32_t> odd(std::vector{kNoBlock, kNoBlock});
        ASSERT_TRUE(EncodeBlocks(GetParam(), block, values.get(), n, tables.get(), payload.get(),
                                 odd.get(), nullptr)
                        .ok());
        ASSERT_EQ(payload.Read(), truth) << n << " numbers in blocks of " << block;
        ASSERT_TRUE(DecodeBlocks(GetParam(), block, NotFinite::kBlockOfNaNs, payload.get(), n,
                                 tables.get(), back.get(), odd.get() + 1, nullptr)
                        .ok());
        ASSERT_EQ(std::memcmp(back.Read().data(), numbers.data(), n * sizeof(float)), 0)
            << n << " numbers in blocks of " << block;
        ASSERT_EQ(odd.Read()[1], kNoBlock);
      }
    }
  }
}

TEST_P(BlockKernels, TellTheFirstOddBlock) {
  constexpr std::size_t kNumbers = 100000, kBlock = 256;
  const OnDevice<DynamicTables> tables(
      std::vector<DynamicTables>{{DynamicMap(), NearestEntries()}});
  std::vector<float> x = NormalNumbers(kNumbers, 1);
  for (const std::size_t at : {99999, 70000, 40000}) x[at] = NAN;
  const OnDevice<float> values(x), back(kNumbers);
  const OnDevice<std::byte> payload(BlockCodes(GetParam(), kBlock).EncodedBytes(kNumbers));
  const OnDevice<std::uint32_t> odd(std::vector{kNoBlock, kNoBlock});
  ASSERT_TRUE(EncodeBlocks(GetParam(), kBlock, values.get(), kNumbers, tables.get(), payload.get(),
                           odd.get(), nullptr)
                  .ok());
  ASSERT_TRUE(DecodeBlocks(GetParam(), kBlock, NotFinite::kRefused, payload.get(), kNumbers,
                           tables.get(), back.get(), odd.get() + 1, nullptr)
                  .ok());
  EXPECT_EQ(odd.Read(), std::vector(2, std::uint32_t{40000 / kBlock}));
}

}  // namespace
}  // namespace swarm::codec::cuda
