#include "worker/data/documents/decompress.h"

#include <gmock/gmock.h>

#include "worker/data/testing/compress.h"

namespace swarm::data {
namespace {

using testing::HasSubstr;

class DecompressTest : public testing::TestWithParam<Compression> {
 protected:
  Status Read(std::string_view content) {
    text_.clear();
    return Decompress(GetParam(), content, [this](std::string_view piece) {
      text_ += piece;
      largest_ = std::max(largest_, piece.size());
      return Status();
    });
  }

  std::string text_;
  std::size_t largest_ = 0;
};

std::string LongText() {
  std::string text;
  for (std::uint64_t i = 0; i < 400000; ++i) text += std::to_string(i * 7919) + "\n";
  return text;
}

TEST_P(DecompressTest, AFileIsReadInPieces) {
  const std::string text = LongText();
  ASSERT_TRUE(Read(Compress(GetParam(), text)).ok());
  EXPECT_EQ(text_, text);
  EXPECT_LE(largest_, std::size_t{1} << 20);
  ASSERT_TRUE(Read(Compress(GetParam(), "")).ok());
  EXPECT_EQ(text_, "");
}

TEST_P(DecompressTest, AFileMayHaveSeveralParts) {
  ASSERT_TRUE(Read(Compress(GetParam(), "one ") + Compress(GetParam(), "two")).ok());
  EXPECT_EQ(text_, "one two");
}

TEST_P(DecompressTest, AFileThatIsCutOffAnywhereIsRefused) {
  const std::string content = Compress(GetParam(), LongText().substr(0, 600));
  for (std::size_t size = 0; size < content.size(); ++size) {
    const Status status = Read(std::string_view(content).substr(0, size));
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << size;
    ASSERT_THAT(status.message(), HasSubstr("cut off")) << size;
  }
}

TEST_P(DecompressTest, WhatIsNoSuchFileIsRefused) {
  EXPECT_THAT(Read("plain text of some length, not compressed").message(), HasSubstr("damaged"));
  std::string content = Compress(GetParam(), LongText());
  for (std::size_t i = 100; i < content.size(); i += 1000) content[i] ^= 0x55;
  EXPECT_EQ(Read(content).code(), StatusCode::kDataLoss);
  EXPECT_EQ(Read(Compress(GetParam(), "x") + "behind it").code(), StatusCode::kDataLoss);
}

TEST_P(DecompressTest, AnErrorOfTheReaderEndsIt) {
  int calls = 0;
  const Status status = Decompress(GetParam(), Compress(GetParam(), LongText()),
                                   [&](std::string_view) { return ++calls, Cancelled("enough"); });
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(calls, 1);
}

INSTANTIATE_TEST_SUITE_P(, DecompressTest, testing::Values(Compression::kGzip, Compression::kZstd),
                         [](const auto& info) {
                           return info.param == Compression::kGzip ? "Gzip" : "Zstd";
                         });

}  // namespace
}  // namespace swarm::data
