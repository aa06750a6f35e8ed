// The bodies of the block kernels, run on the host, against the CPU's codes: byte for byte.
#include "worker/codec/cuda/block_body.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "worker/codec/blocks/block_codes.h"
#include "worker/codec/cuda/testing/cases.h"
#include "worker/codec/cuda/testing/on_host.h"

namespace swarm::codec::cuda {
namespace {

const DynamicTables& TablesOfHost() {
  static const DynamicTables tables{DynamicMap(), NearestEntries()};
  return tables;
}

constexpr LaneOrder kOrders[] = {LaneOrder::kUp, LaneOrder::kDown};
constexpr std::size_t kSizes[] = {1, 2, 3, 31, 33, 127, 128, 129, 255, 256, 257, 1000, 4099};
constexpr std::size_t kBlocks[] = {1, 7, 16, 64, 100, 256, 4096};

struct Encoding {
  std::vector<std::byte> payload;
  std::uint32_t odd_block = kNoBlock;
};

template <CodeMap kMap>
struct On {
  static constexpr CodeMap map = kMap;

  static Encoding Encode(const std::vector<float>& x, std::size_t block, LaneOrder order,
                         bool packs) {
    Encoding out;
    out.payload.assign(BlockCodes(kMap, block).EncodedBytes(x.size()), std::byte{0xaa});
    const EncodeTask task{x.data(),        x.size(),           block,
                          &TablesOfHost(), out.payload.data(), &out.odd_block};
    packs ? EncodeOnHost<kMap, 4>(order, task) : EncodeOnHost<kMap, 1>(order, task);
    return out;
  }

  /// The first block that no encoder writes.
  static std::uint32_t Decode(const std::vector<std::byte>& payload, std::size_t block,
                              NotFinite not_finite, LaneOrder order, bool packs,
                              std::vector<float>& x) {
    std::uint32_t odd_block = kNoBlock;
    const DecodeTask task{payload.data(), x.size(), block,     &TablesOfHost(),
                          not_finite,     x.data(), &odd_block};
    packs ? DecodeOnHost<kMap, 4>(order, task) : DecodeOnHost<kMap, 1>(order, task);
    return odd_block;
  }
};

template <typename Map>
class BlockBodies : public testing::Test {
 protected:
  static std::vector<std::byte> Truth(const std::vector<float>& x, std::size_t block) {
    const BlockCodes codes(Map::map, block, NotFinite::kBlockOfNaNs);
    std::vector<std::byte> out(codes.EncodedBytes(x.size()));
    EXPECT_TRUE(codes.Encode(x, out.data(), Isa::kScalar).ok());
    return out;
  }

  static void ExpectSameBothWays(const std::vector<float>& x, std::size_t block) {
    const std::vector<std::byte> truth = Truth(x, block);
    std::vector<float> numbers(x.size());
    const BlockCodes codes(Map::map, block, NotFinite::kBlockOfNaNs);
    ASSERT_TRUE(codes.Decode(truth, numbers, Isa::kScalar).ok());
    const bool refused = !BlockCodes(Map::map, block)
                              .Encode(x, std::vector<std::byte>(truth.size()).data(), Isa::kScalar)
                              .ok();
    for (const LaneOrder order : kOrders) {
      for (const bool packs : {false, true}) {
        if (packs && block % 4 != 0) continue;
        const Encoding encoding = Map::Encode(x, block, order, packs);
        ASSERT_EQ(encoding.payload, truth) << x.size() << " numbers in blocks of " << block;
        ASSERT_EQ(encoding.odd_block != kNoBlock, refused);
        std::vector<float> back(x.size(), -7);
        ASSERT_EQ(Map::Decode(truth, block, NotFinite::kBlockOfNaNs, order, packs, back), kNoBlock);
        ASSERT_EQ(std::memcmp(back.data(), numbers.data(), back.size() * sizeof(float)), 0)
            << x.size() << " numbers in blocks of " << block;
      }
    }
  }
};
using Maps = testing::Types<On<CodeMap::kLinear>, On<CodeMap::kDynamic>>;
TYPED_TEST_SUITE(BlockBodies, Maps);

TYPED_TEST(BlockBodies, WriteAndReadTheBytesOfTheCpu) {
  for (const std::size_t n : kSizes) {
    for (const std::size_t block : kBlocks) {
      for (const std::vector<float>& x : NumbersOfAllKinds(n)) this->ExpectSameBothWays(x, block);
    }
  }
}

TYPED_TEST(BlockBodies, RoundAsTheCpuDoesWhereTheNextCodeBegins) {
  this->ExpectSameBothWays(NextToDynamicCodes(), 16);
  this->ExpectSameBothWays(NextToLinearCodes(), 16);
}

TYPED_TEST(BlockBodies, OneNumberThatIsNotFiniteMakesItsBlockOneOfNaNs) {
  for (const std::vector<float>& x : WithOneNotFinite(NormalNumbers(150, 1))) {
    this->ExpectSameBothWays(x, 64);
  }
}

TYPED_TEST(BlockBodies, TellTheFirstBlockThatIsNotFinite) {
  std::vector<float> x = NormalNumbers(1000, 2);
  x[999] = x[300] = INFINITY;
  EXPECT_EQ(TypeParam::Encode(x, 64, LaneOrder::kUp, true).odd_block, 300u / 64);
}

TYPED_TEST(BlockBodies, RefuseWhatTheCpuRefuses) {
  constexpr std::size_t kBlock = 8, kNumbers = 20;
  const std::vector<std::byte> good = this->Truth(NormalNumbers(kNumbers, 3), kBlock);
  std::vector<float> x = NormalNumbers(kNumbers, 3);
  x[9] = NAN;
  const std::vector<std::byte> with_nans = this->Truth(x, kBlock);
  for (const std::vector<std::byte>& payload : {good, with_nans}) {
    // Every byte in turn takes every value.
    for (std::size_t at = 0; at < payload.size(); ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        std::vector<std::byte> bad = payload;
        bad[at] = static_cast<std::byte>(value);
        for (const NotFinite not_finite : {NotFinite::kRefused, NotFinite::kBlockOfNaNs}) {
          const bool accepted =
              BlockCodes(TypeParam::map, kBlock, not_finite).Decode(bad, x, Isa::kScalar).ok();
          std::vector<float> back(kNumbers);
          const std::uint32_t odd =
              TypeParam::Decode(bad, kBlock, not_finite, LaneOrder::kUp, value % 2 == 0, back);
          ASSERT_EQ(odd == kNoBlock, accepted) << "byte " << at << " is " << value;
          if (!accepted) continue;
          ASSERT_EQ(std::memcmp(back.data(), x.data(), kNumbers * sizeof(float)), 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace swarm::codec::cuda
