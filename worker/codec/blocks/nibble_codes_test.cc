#include "worker/codec/blocks/nibble_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "worker/codec/blocks/testing/normal.h"

namespace swarm::codec {
namespace {

std::vector<std::byte> Encoded(const std::vector<float>& values, Isa isa = BestIsa()) {
  std::vector<std::byte> out(NibbleCodes::EncodedBytes(values.size()));
  EXPECT_TRUE(NibbleCodes::Encode(values, out.data(), isa).ok());
  return out;
}

std::vector<float> Decoded(const std::vector<std::byte>& payload, std::size_t n,
                           Isa isa = BestIsa()) {
  std::vector<float> values(n, -7);
  const Status status = NibbleCodes::Decode(payload, values, isa);
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

TEST(NibbleCodesTest, EveryNumberComesBackWithinAFourteenthOfTheLargestOfItsBlock) {
  for (const std::size_t n : {1, 2, 63, 64, 65, 127, 1000, 4099}) {
    const std::vector<float> values = NormalNumbers(n, static_cast<unsigned>(n), 3);
    const std::vector<float> back = Decoded(Encoded(values), n);
    for (std::size_t begin = 0; begin < n; begin += NibbleCodes::kBlock) {
      const std::size_t end = std::min(n, begin + NibbleCodes::kBlock);
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
      for (std::size_t i = begin; i < end; ++i) {
        ASSERT_LE(std::fabs(values[i] - back[i]), largest / 14 * (1 + 0x1p-20)) << i << " of " << n;
      }
    }
  }
}

TEST(NibbleCodesTest, EightNumbersTakeFourBytesAndTheirScale) {
  EXPECT_EQ(
      Encoded({7, -7, 3, -3, 1, 0, -1, 2.4f}),
      (std::vector<std::byte>{std::byte{0}, std::byte{0}, std::byte{0xe0}, std::byte{0x40},
                              std::byte{0x97}, std::byte{0xd3}, std::byte{0x01}, std::byte{0x2f}}));
}

TEST(NibbleCodesTest, EveryInstructionSetWritesTheSameBytesAndReadsTheSameNumbers) {
  for (const std::size_t n : {1, 31, 64, 65, 2048, 5003}) {
    for (const float deviation : {1e-20f, 1.0f, 1e20f}) {
      const std::vector<float> values = NormalNumbers(n, static_cast<unsigned>(n), deviation);
      const std::vector<std::byte> truth = Encoded(values, Isa::kScalar);
      const std::vector<float> numbers = Decoded(truth, n, Isa::kScalar);
      for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
        if (!HasIsa(isa)) continue;
        EXPECT_EQ(Encoded(values, isa), truth) << IsaName(isa) << ", " << n;
        EXPECT_EQ(Decoded(truth, n, isa), numbers) << IsaName(isa) << ", " << n;
      }
    }
  }
}

TEST(NibbleCodesTest, ABlockOfTinyNumbersIsOneOfZeros) {
  EXPECT_EQ(Decoded(Encoded({1e-35f, -1e-35f, 0}), 3), std::vector<float>(3, 0));
}

TEST(NibbleCodesTest, ANumberThatIsNotFiniteIsRefusedByItsPlace) {
  std::vector<float> values = NormalNumbers(200, 1);
  values[70] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> out(NibbleCodes::EncodedBytes(values.size()));
  const Status status = NibbleCodes::Encode(values, out.data());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("64 to 127"), std::string::npos) << status.message();
}

TEST(NibbleCodesTest, WhatNoEncoderWritesIsRefused) {
  const std::vector<float> values = NormalNumbers(65, 2);
  const std::vector<std::byte> good = Encoded(values);
  std::vector<float> back(values.size());
  const auto refuses = [&](std::vector<std::byte> payload) {
    return NibbleCodes::Decode(payload, back).code() == StatusCode::kDataLoss;
  };
  const auto with = [&](std::size_t at, std::byte byte) {
    std::vector<std::byte> payload = good;
    payload[at] = byte;
    return payload;
  };
  EXPECT_TRUE(refuses({good.begin(), good.end() - 1})) << "a byte is missing";
  EXPECT_TRUE(refuses(with(3, std::byte{0xff}))) << "a negative scale";
  EXPECT_TRUE(refuses(with(8, std::byte{0x08}))) << "a code of -8";
  EXPECT_TRUE(refuses(with(9, std::byte{0x80}))) << "a code of -8 above";
  EXPECT_TRUE(refuses(with(good.size() - 1, std::byte{0x17}))) << "a code behind the last number";
  EXPECT_FALSE(refuses(good));
}

}  // namespace
}  // namespace swarm::codec
