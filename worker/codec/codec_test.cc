// What every codec promises, and the error of each.
#include "worker/codec/codec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

namespace swarm::codec {
namespace {

struct Case {
  api::BoundaryCodec codec;
  double error;  ///< of an element, relative to it
};

class CodecTest : public ::testing::TestWithParam<Case> {
 protected:
  const std::unique_ptr<Codec> codec_ = MakeCodec(GetParam().codec);
  const std::vector<std::int64_t> shape_{3, 5, 7};

  at::Tensor Tensor() const { return at::linspace(-4, 9, 105).view(shape_).sin(); }
  at::Tensor Decode(const Bytes& payload) const {
    auto tensor = codec_->Decode(payload, shape_, at::kCPU);
    EXPECT_TRUE(tensor.ok()) << tensor.status().ToString();
    return *tensor;
  }
};

TEST_P(CodecTest, GivesTheTensorBackWithinItsError) {
  const at::Tensor x = Tensor();
  const at::Tensor y = Decode(codec_->Encode(x));
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_TRUE(((x - y).abs() <= GetParam().error * x.abs()).all().item<bool>());
}

TEST_P(CodecTest, EncodesAViewAsItsElements) {
  const at::Tensor x = Tensor();
  const at::Tensor turned = x.transpose(0, 2).contiguous().transpose(0, 2);
  EXPECT_EQ(codec_->Encode(turned).text(), codec_->Encode(x).text());
}

TEST_P(CodecTest, KeepsWhatIsNotFinite) {
  at::Tensor x = Tensor();
  x.view(-1)[0] = std::numeric_limits<float>::infinity();
  x.view(-1)[1] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y = Decode(codec_->Encode(x)).view(-1);
  EXPECT_TRUE(std::isinf(y[0].item<float>()));
  EXPECT_TRUE(std::isnan(y[1].item<float>()));
}

TEST_P(CodecTest, EncodesAsManyBytesAsItSays) {
  EXPECT_EQ(codec_->Encode(Tensor()).size(), codec_->EncodedBytes(105));
}

TEST_P(CodecTest, RefusesAPayloadOfAnotherSize) {
  const Bytes payload = codec_->Encode(Tensor());
  for (const Bytes& wrong : {payload.Slice(0, payload.size() - 1), Bytes(),
                             Bytes::Copy(std::string(payload.text()) + "x")}) {
    EXPECT_EQ(codec_->Decode(wrong, shape_, at::kCPU).status().code(), StatusCode::kDataLoss);
  }
}

TEST_P(CodecTest, ReadsAPayloadThatIsNotAligned) {
  const Bytes payload = codec_->Encode(Tensor());
  const Bytes shifted = Bytes::Copy("." + std::string(payload.text())).Slice(1, payload.size());
  EXPECT_TRUE(Decode(shifted).equal(Decode(payload)));
}

TEST_P(CodecTest, PayloadOutlivesTheTensorAndTensorThePayload) {
  Bytes payload = codec_->Encode(Tensor().clone());
  const at::Tensor y = Decode(payload);
  payload = Bytes();
  EXPECT_TRUE(y.equal(Decode(codec_->Encode(Tensor()))));
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecTest,
                         ::testing::Values(Case{api::BoundaryCodec::kNone, 0},
                                           Case{api::BoundaryCodec::kBF16, 0x1p-8}));

TEST(Float32CodecTest, CopiesNothing) {
  const auto codec = MakeCodec(api::BoundaryCodec::kNone);
  const at::Tensor x = at::ones({4, 4});
  const Bytes payload = codec->Encode(x);
  EXPECT_EQ(payload.data(), x.const_data_ptr());
  EXPECT_EQ(codec->Decode(payload, {4, 4}, at::kCPU)->const_data_ptr(), x.const_data_ptr());
}

}  // namespace
}  // namespace swarm::codec
