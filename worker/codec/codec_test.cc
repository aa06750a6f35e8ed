// Promises of every codec, and the error of each.
#include "worker/codec/codec.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "api/model/boundary.h"
#include "worker/codec/cuda/float_body.h"
#include "worker/codec/cuda/testing/cases.h"

namespace swarm::codec {
namespace {

struct Case {
  api::BoundaryCodec codec;
  double error;           ///< of an element, relative to it
  double error_of_block;  ///< and to the largest of its block
  std::int64_t spread;    ///< so many elements become NaNs with one that is not finite; 0: none
};

std::unique_ptr<Codec> Make(api::BoundaryCodec codec) {
  return MakeCodec({.codec = codec, .blockSize = 16}, Direction::kForward);
}

class CodecTest : public ::testing::TestWithParam<Case> {
 protected:
  const std::unique_ptr<Codec> codec_ = Make(GetParam().codec);
  const std::vector<std::int64_t> shape_{3, 5, 7};

  Bytes Encode(const at::Tensor& tensor) const {
    const auto payload = codec_->Encode(tensor);
    EXPECT_TRUE(payload.ok()) << payload.status().ToString();
    return payload.ok() ? *payload : Bytes();
  }

  at::Tensor Tensor() const { return at::linspace(-4, 9, 105).view(shape_).sin(); }
  at::Tensor Decode(const Bytes& payload) const {
    auto tensor = codec_->Decode(payload, shape_, at::kCPU);
    EXPECT_TRUE(tensor.ok()) << tensor.status().ToString();
    return *tensor;
  }
};

TEST_P(CodecTest, GivesTheTensorBackWithinItsError) {
  const at::Tensor x = Tensor();
  const at::Tensor y = Decode(Encode(x));
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_EQ(y.sizes(), x.sizes());
  at::Tensor bound = GetParam().error * x.abs().view(-1);
  for (std::int64_t begin = 0; begin < 105; begin += 16) {
    at::Tensor block = bound.slice(0, begin, std::min<std::int64_t>(105, begin + 16));
    const at::Tensor largest = x.view(-1).slice(0, begin, begin + 16).abs().max();
    block += GetParam().error_of_block * largest * (1 + 0x1p-20);
  }
  EXPECT_TRUE(((x - y).abs().view(-1) <= bound).all().item<bool>());
}

TEST_P(CodecTest, EncodesAViewAsItsElements) {
  const at::Tensor x = Tensor();
  const at::Tensor turned = x.transpose(0, 2).contiguous().transpose(0, 2);
  EXPECT_EQ(Encode(turned).text(), Encode(x).text());
}

TEST_P(CodecTest, SaysWhatIsNotFiniteAndKeepsTheRest) {
  for (const float wrong :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::int64_t at : {0, 17, 104}) {
      at::Tensor x = Tensor();
      at::Tensor expected = Decode(Encode(x)).view(-1).clone();
      x.view(-1)[at] = wrong;
      expected[at] = wrong;
      if (const std::int64_t n = GetParam().spread; n > 0) {
        expected.slice(0, at / n * n, at / n * n + n) = std::numeric_limits<float>::quiet_NaN();
      }
      const at::Tensor y = Decode(Encode(x)).view(-1);
      EXPECT_TRUE(at::allclose(y, expected, 0, 0, /*equal_nan=*/true)) << wrong << " at " << at;
    }
  }
}

TEST_P(CodecTest, EncodesAsManyBytesAsItSays) {
  EXPECT_EQ(Encode(Tensor()).size(), codec_->EncodedBytes(105));
}

TEST_P(CodecTest, RefusesAPayloadOfAnotherSize) {
  const Bytes payload = Encode(Tensor());
  for (const Bytes& wrong : {payload.Slice(0, payload.size() - 1), Bytes(),
                             Bytes::Copy(std::string(payload.text()) + "x")}) {
    EXPECT_EQ(codec_->Decode(wrong, shape_, at::kCPU).status().code(), StatusCode::kDataLoss);
  }
}

TEST_P(CodecTest, RefusesAPayloadBeforeThereIsMemoryForItsShape) {
  const std::int64_t side = std::int64_t{1} << 23;
  EXPECT_EQ(codec_->Decode(Encode(Tensor()), {side, side}, at::kCPU).status().code(),
            StatusCode::kDataLoss);
}

TEST_P(CodecTest, ReadsAPayloadThatIsNotAligned) {
  const Bytes payload = Encode(Tensor());
  const Bytes shifted = Bytes::Copy("." + std::string(payload.text())).Slice(1, payload.size());
  EXPECT_TRUE(Decode(shifted).equal(Decode(payload)));
}

TEST_P(CodecTest, PayloadOutlivesTheTensorAndTensorThePayload) {
  Bytes payload = Encode(Tensor().clone());
  const at::Tensor y = Decode(payload);
  payload = Bytes();
  EXPECT_TRUE(y.equal(Decode(Encode(Tensor()))));
}

constexpr Case kCases[] = {{api::BoundaryCodec::kNone, 0, 0, 0},
                           {api::BoundaryCodec::kBF16, 0x1p-8, 0, 0},
                           {api::BoundaryCodec::kInt8, 0, 1.0 / 254, 16},
                           {api::BoundaryCodec::kInt8Dynamic, 0, 0.0071, 16}};
INSTANTIATE_TEST_SUITE_P(Codecs, CodecTest, ::testing::ValuesIn(kCases));

TEST_P(CodecTest, TakesZerosAndSizesOfAnyParity) {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 33}) {
    const at::Tensor x = at::zeros({n});
    const auto y = codec_->Decode(Encode(x), {n}, at::kCPU);
    ASSERT_TRUE(y.ok()) << n;
    EXPECT_TRUE(y->equal(x)) << n;
  }
}

TEST_P(CodecTest, GivesTheSameBytesForAnyNumberOfThreads) {
  const at::Tensor x = at::linspace(-3, 3, 300000).sin();
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const Bytes two = Encode(x);
  at::set_num_threads(1);
  EXPECT_EQ(Encode(x).text(), two.text());
  at::set_num_threads(threads);
}

TEST_P(CodecTest, ServesActivationsWithAnyCodecOfGradientsAndGradientsWithAnyOfActivations) {
  const Bytes expected = Encode(Tensor());
  const api::NumberCodec number = api::ForwardNumbers({.codec = GetParam().codec});
  for (const Case& other : kCases) {
    const api::NumberCodec other_number = api::ForwardNumbers({.codec = other.codec});
    const api::Boundary forward{
        .codec = GetParam().codec, .gradientCodec = other_number, .blockSize = 16};
    EXPECT_EQ(MakeCodec(forward, Direction::kForward)->Encode(Tensor())->text(), expected.text());
    const api::Boundary backward{.codec = other.codec, .gradientCodec = number, .blockSize = 16};
    EXPECT_EQ(MakeCodec(backward, Direction::kBackward)->Encode(Tensor())->text(), expected.text());
    const api::Boundary learned{.codec = api::BoundaryCodec::kAnchored,
                                .coefficients = number,
                                .gradientCodec = other_number,
                                .blockSize = 16};
    EXPECT_EQ(MakeCodec(learned, Direction::kForward)->Encode(Tensor())->text(), expected.text());
  }
}

TEST(MakeCodecTest, GradientsAreSentAsActivationsAreUnlessSaidOtherwise) {
  const api::Boundary boundary{.codec = api::BoundaryCodec::kInt8, .blockSize = 64};
  EXPECT_EQ(MakeCodec(boundary, Direction::kBackward)->EncodedBytes(128), 128u + 8u);
}

TEST(Float32CodecTest, CopiesNothing) {
  const auto codec = Make(api::BoundaryCodec::kNone);
  const at::Tensor x = at::ones({4, 4});
  const Bytes payload = *codec->Encode(x);
  EXPECT_EQ(payload.data(), x.const_data_ptr());
  EXPECT_EQ(codec->Decode(payload, {4, 4}, at::kCPU)->const_data_ptr(), x.const_data_ptr());
}

TEST(BFloat16CodecTest, WritesTheBytesOfTheKernelForDevices) {
  std::vector<float> values = cuda::AnyNumbers(100003, 1);  // all kinds but NaNs
  std::erase_if(values, [](float value) { return std::isnan(value); });
  std::vector<std::uint16_t> expected(values.size());
  std::ranges::transform(values, expected.begin(), cuda::ToBFloat16());
  const auto payload = Make(api::BoundaryCodec::kBF16)->Encode(at::tensor(values));
  ASSERT_TRUE(payload.ok());
  ASSERT_EQ(payload->size(), expected.size() * sizeof(std::uint16_t));
  EXPECT_EQ(std::memcmp(payload->data(), expected.data(), payload->size()), 0);
}

}  // namespace
}  // namespace swarm::codec
