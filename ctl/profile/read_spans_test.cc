#include "ctl/profile/read_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "ctl/profile/testing/recorded_spans.h"

namespace swarm::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReadSpansTest : public testing::Test {
 protected:
  void Write(const std::string& worker, const std::string& text) {
    ASSERT_TRUE(WriteFile(folder_.path() / worker, text).ok());
  }
  const TemporaryFolder folder_;
};

TEST_F(ReadSpansTest, AreThoseThatWorkersWrote) {
  const Span layer = OfLayer(3, During(SpanKind::kLayerBackward, 5, 9));
  const Span sum{
      .kind = SpanKind::kSum, .stage = 2, .step = 1, .bytes = 64, .begin = At(7), .end = At(8)};
  Spans spans(2);
  for (const Span& span : {sum, layer, layer}) spans.Record(span);
  Write("worker-1", ToJsonLines(spans));
  Write("worker-0", ToJsonLines(Spans(1)));
  const auto read = ReadSpans(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 1u) << "worker-0 has nothing";
  EXPECT_EQ((*read)[0].worker, "worker-1");
  EXPECT_THAT((*read)[0].spans, ElementsAre(layer, sum));
  EXPECT_EQ((*read)[0].dropped, 1u);
}

TEST_F(ReadSpansTest, WhatIsDamagedIsNamedByItsLine) {
  Write("worker-0", "{\"dropped\":0}\n{\"kind\":\"nap\",\"stage\":0}\n");
  const auto read = ReadSpans(folder_.path());
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(read.status().message(), HasSubstr("worker-0:2: "));
}

TEST_F(ReadSpansTest, OfNobodyThereAreNone) {
  EXPECT_EQ(ReadSpans(folder_.path()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadSpans(folder_.path() / "missing").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace swarm::ctl
