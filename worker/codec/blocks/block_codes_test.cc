#include "worker/codec/blocks/block_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "worker/codec/blocks/testing/normal.h"

namespace swarm::codec {
namespace {

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};

std::vector<std::byte> Encoded(const BlockCodes& codes, const std::vector<float>& values,
                               Isa isa = BestIsa()) {
  std::vector<std::byte> out(codes.EncodedBytes(values.size()));
  EXPECT_TRUE(codes.Encode(values, out.data(), isa).ok());
  return out;
}

std::vector<float> Decoded(const BlockCodes& codes, const std::vector<std::byte>& payload,
                           std::size_t n, Isa isa = BestIsa()) {
  std::vector<float> values(n, -7);
  const Status status = codes.Decode(payload, values, isa);
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

class BothMaps : public ::testing::TestWithParam<CodeMap> {
 protected:
  BlockCodes Codes(std::size_t block, NotFinite not_finite = NotFinite::kRefused) const {
    return BlockCodes(GetParam(), block, not_finite);
  }
  double error_of_largest() const { return GetParam() == CodeMap::kLinear ? 1.0 / 254 : 0.0071; }
};
INSTANTIATE_TEST_SUITE_P(, BothMaps, ::testing::Values(CodeMap::kLinear, CodeMap::kDynamic),
                         [](const auto& info) {
                           return info.param == CodeMap::kLinear ? "Linear" : "Dynamic";
                         });

TEST_P(BothMaps, EveryNumberComesBackWithinTheStatedError) {
  for (const std::size_t n : {1, 2, 15, 16, 17, 255, 256, 257, 1000, 4099}) {
    for (const std::size_t block : {1, 7, 64, 256, 4096}) {
      const BlockCodes codes = Codes(block);
      const std::vector<float> values = NormalNumbers(n, static_cast<unsigned>(n + block), 3);
      const std::vector<float> back = Decoded(codes, Encoded(codes, values), n);
      for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(n, begin + block);
        float largest = 0;
        for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
        for (std::size_t i = begin; i < end; ++i) {
          ASSERT_LE(std::fabs(values[i] - back[i]), largest * error_of_largest() * (1 + 0x1p-20))
              << "number " << i << " of " << n << " in blocks of " << block;
        }
      }
    }
  }
}

TEST_P(BothMaps, EveryInstructionSetWritesTheSameBytesAndReadsTheSameNumbers) {
  for (const std::size_t n : {1, 31, 32, 33, 65, 100, 2048, 5003}) {
    for (const float deviation : {1e-20f, 1.0f, 1e20f}) {
      const BlockCodes codes = Codes(192);
      const std::vector<float> values = NormalNumbers(n, static_cast<unsigned>(n), deviation);
      const std::vector<std::byte> truth = Encoded(codes, values, Isa::kScalar);
      const std::vector<float> numbers = Decoded(codes, truth, n, Isa::kScalar);
      for (const Isa isa : kIsas) {
        if (!HasIsa(isa)) continue;
        EXPECT_EQ(Encoded(codes, values, isa), truth) << IsaName(isa) << ", " << n;
        EXPECT_EQ(Decoded(codes, truth, n, isa), numbers) << IsaName(isa) << ", " << n;
      }
    }
  }
}

TEST_P(BothMaps, CodesStayInTheirRangeAtEveryScale) {
  // A scale whose reciprocal rounds up must not push the largest number over the last code.
  std::mt19937 random(5);
  std::vector<float> values(64);
  const BlockCodes codes = Codes(1);
  for (int round = 0; round < 2000; ++round) {
    for (float& value : values) {
      value = std::ldexp(1.0f + static_cast<float>(random() % 8388608) / 8388608.0f,
                         static_cast<int>(random() % 200) - 90);
    }
    const std::vector<float> back = Decoded(codes, Encoded(codes, values), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(back[i] / values[i], 1, 1e-6) << values[i];
    }
  }
}

TEST_P(BothMaps, ZerosAndNumbersTooSmallForAScaleComeBackAsZeros) {
  const BlockCodes codes = Codes(4);
  const std::vector<float> values = {0, -0.0f, 0, 0, 1e-38f, -3e-42f, 0, 1e-31f, 1, -1, 0, 0};
  const std::vector<float> back = Decoded(codes, Encoded(codes, values), values.size());
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(back[i], 0) << i;
  EXPECT_EQ(back[8], 1);
}

TEST_P(BothMaps, NothingIsAnEncodingToo) {
  const BlockCodes codes = Codes(256);
  EXPECT_EQ(codes.EncodedBytes(0), 0u);
  EXPECT_TRUE(codes.Encode({}, nullptr).ok());
  EXPECT_TRUE(codes.Decode({}, {}).ok());
}

TEST_P(BothMaps, WhatIsNotFiniteIsRefusedWithItsPlace) {
  const float kinds[] = {std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  const BlockCodes codes = Codes(100);
  for (const float bad : kinds) {
    for (const std::size_t at : {0, 99, 100, 249}) {
      for (const Isa isa : kIsas) {
        if (!HasIsa(isa)) continue;
        std::vector<float> values = NormalNumbers(250, 1);
        values[at] = bad;
        std::vector<std::byte> out(codes.EncodedBytes(values.size()));
        const Status status = codes.Encode(values, out.data(), isa);
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << IsaName(isa);
        const std::size_t begin = at / 100 * 100;
        EXPECT_NE(status.message().find("numbers " + std::to_string(begin)), std::string::npos)
            << status.message();
      }
    }
  }
}

TEST_P(BothMaps, ABlockWithANumberThatIsNotFiniteIsReadAsNaNsWhereThatIsSaid) {
  const BlockCodes codes = Codes(100, NotFinite::kBlockOfNaNs);
  const std::vector<float> good = NormalNumbers(250, 1);
  const std::vector<float> expected = Decoded(codes, Encoded(codes, good), good.size());
  for (const std::size_t at : {0, 99, 100, 249}) {
    std::vector<float> values = good;
    values[at] = -std::numeric_limits<float>::infinity();
    const std::vector<std::byte> truth = Encoded(codes, values, Isa::kScalar);
    for (const Isa isa : kIsas) {
      if (!HasIsa(isa)) continue;
      EXPECT_EQ(Encoded(codes, values, isa), truth) << IsaName(isa);
      const std::vector<float> back = Decoded(codes, truth, values.size(), isa);
      for (std::size_t i = 0; i < back.size(); ++i) {
        if (i / 100 == at / 100) {
          ASSERT_TRUE(std::isnan(back[i])) << i;
        } else {
          ASSERT_EQ(back[i], expected[i]) << i;
        }
      }
    }
  }
}

TEST_P(BothMaps, OnlyTheBlockOfNaNsThatAnEncoderWritesIsRead) {
  const BlockCodes codes = Codes(8, NotFinite::kBlockOfNaNs);
  std::vector<float> values(8, std::numeric_limits<float>::quiet_NaN());
  const std::vector<std::byte> good = Encoded(codes, values);
  EXPECT_EQ(Codes(8).Decode(good, values).code(), StatusCode::kDataLoss);
  for (const std::size_t at : {0, 3, 4, 11}) {  // another NaN, a negative one, a code
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0x80};
    EXPECT_EQ(codes.Decode(bad, values).code(), StatusCode::kDataLoss) << at;
  }
}

TEST_P(BothMaps, PayloadsThatNoEncoderWritesAreRefused) {
  const BlockCodes codes = Codes(8);
  const std::vector<std::byte> good = Encoded(codes, NormalNumbers(20, 2));
  std::vector<float> values(20);
  for (std::size_t size = 0; size < good.size() + 2; ++size) {
    if (size == good.size()) continue;
    const std::vector<std::byte> other(size);
    EXPECT_EQ(codes.Decode(other, values).code(), StatusCode::kDataLoss) << size;
  }
  for (const float scale : {-1.0f, 1e-38f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<std::byte> bad = good;
    std::memcpy(bad.data() + 4, &scale, sizeof scale);
    EXPECT_EQ(codes.Decode(bad, values).code(), StatusCode::kDataLoss) << scale;
  }
}

TEST_P(BothMaps, CheckSaysWhatDecodeSays) {
  std::vector<float> values = NormalNumbers(20, 4);
  values[9] = std::numeric_limits<float>::infinity();
  std::vector<float> back(values.size());
  for (const NotFinite not_finite : {NotFinite::kRefused, NotFinite::kBlockOfNaNs}) {
    const BlockCodes codes = Codes(8, not_finite);
    const std::vector<std::byte> good = Encoded(Codes(8, NotFinite::kBlockOfNaNs), values);
    EXPECT_EQ(codes.Check(good, values.size()).ok(), not_finite == NotFinite::kBlockOfNaNs);
    EXPECT_FALSE(codes.Check(std::span(good).first(31), values.size()).ok());
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::vector<std::byte> other = good;
        other[at] = static_cast<std::byte>(byte);
        const Status decoded = codes.Decode(other, back);
        ASSERT_EQ(codes.Check(other, values.size()).message(), decoded.message())
            << "byte " << at << " is " << byte;
      }
    }
  }
}

TEST(LinearCodes, TheCodeBelowTheRangeIsRefusedOnEveryPath) {
  const BlockCodes codes(CodeMap::kLinear, 64);
  const std::vector<float> values = NormalNumbers(50, 3);
  for (const std::size_t at : {0, 31, 48, 49}) {
    std::vector<std::byte> bad = Encoded(codes, values);
    bad[4 + at] = std::byte{0x80};
    for (const Isa isa : kIsas) {
      if (!HasIsa(isa)) continue;
      std::vector<float> back(50);
      EXPECT_EQ(codes.Decode(bad, back, isa).code(), StatusCode::kDataLoss) << IsaName(isa);
    }
  }
}

TEST(DynamicCodes, TheMapHasItsPublishedShape) {
  const auto& map = DynamicMap();
  for (std::size_t i = 1; i < map.size(); ++i) ASSERT_LT(map[i - 1], map[i]) << i;
  EXPECT_EQ(map[255], 1.0f);
  EXPECT_EQ(map[127], 0.0f);
  EXPECT_FLOAT_EQ(map[128], 5.5e-7f);      // the only entry of the lowest decade
  EXPECT_FLOAT_EQ(map[254], 0.99296875f);  // the middle of the last of 64 parts of [0.1, 1]
  EXPECT_FLOAT_EQ(map[0], -0.99296875f);
}

TEST(DynamicCodes, SmallNumbersBesideALargeOneKeepMoreThanLinearOnesDo) {
  std::vector<float> values = NormalNumbers(256, 4, 0.003f);
  values[17] = 1;
  const auto error = [&](CodeMap map) {
    const BlockCodes codes(map, 256);
    const std::vector<float> back = Decoded(codes, Encoded(codes, values), values.size());
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += std::pow(values[i] - back[i], 2);
    return sum;
  };
  EXPECT_LT(error(CodeMap::kDynamic) * 10, error(CodeMap::kLinear));
}

}  // namespace
}  // namespace swarm::codec
