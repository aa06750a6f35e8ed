#include "worker/checkpoint/tensor.h"

#include <gmock/gmock.h>

#include <cmath>

namespace swarm::checkpoint {
namespace {

NamedTensor Halves(ElementType type, std::vector<std::uint16_t> bits) {
  const auto count = static_cast<std::int64_t>(bits.size());
  return {"w", type, {count}, Bytes::Copy(bits.data(), bits.size() * 2)};
}

std::vector<float> Floats(const NamedTensor& tensor) {
  std::vector<float> values(tensor.data.size() / 4);
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

TEST(TensorTest, BrainFloatsWidenExactly) {
  const auto wide = ConvertToFloat32(Halves(ElementType::kBF16, {0x3f80, 0xc000, 0x0000, 0x7f80}));
  ASSERT_TRUE(wide.ok());
  EXPECT_THAT(Floats(*wide), testing::ElementsAre(1.0f, -2.0f, 0.0f, HUGE_VALF));
}

TEST(TensorTest, HalfFloatsWidenExactlySubnormalsToo) {
  const auto wide = ConvertToFloat32(
      Halves(ElementType::kF16, {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0xfc00, 0x8000}));
  ASSERT_TRUE(wide.ok());
  EXPECT_THAT(Floats(*wide), testing::ElementsAre(1.0f, -2.0f, 0x1.0p-24f, -1023 * 0x1.0p-24f,
                                                  65504.0f, -HUGE_VALF, -0.0f));
  EXPECT_TRUE(std::signbit(Floats(*wide)[6]));
}

TEST(TensorTest, FloatsShareTheirMemory) {
  const float value = 3;
  const NamedTensor scalar{"s", ElementType::kF32, {}, Bytes::Copy(&value, 4)};
  EXPECT_EQ(ConvertToFloat32(scalar)->data.data(), scalar.data.data());
}

TEST(TensorTest, IntegersAndWrongSizesAreRefusedByName) {
  const NamedTensor ids{"ids", ElementType::kI64, {1}, Bytes::Copy("12345678")};
  EXPECT_THAT(ConvertToFloat32(ids).status().message(), testing::HasSubstr("ids"));
  const NamedTensor cut{"cut", ElementType::kF32, {3}, Bytes::Copy("12345678")};
  EXPECT_EQ(ConvertToFloat32(cut).status().code(), StatusCode::kInvalidArgument);
}

TEST(TensorTest, SizesThatOverflowAreErrors) {
  EXPECT_EQ(*ComputeTensorBytes({}, 4), 4u);
  EXPECT_EQ(*ComputeTensorBytes({3, 0, INT64_MAX}, 4), 0u);
  EXPECT_FALSE(ComputeTensorBytes({INT64_MAX, 2}, 1).ok());
  EXPECT_FALSE(ComputeTensorBytes({1LL << 40, 1LL << 40}, 4).ok());
  EXPECT_FALSE(ComputeTensorBytes({-1}, 4).ok());
}

}  // namespace
}  // namespace swarm::checkpoint
