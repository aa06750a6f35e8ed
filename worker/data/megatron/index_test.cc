#include "worker/data/megatron/index.h"

#include <gmock/gmock.h>

#include "base/testing/temporary_folder.h"
#include "worker/data/corpus.h"

namespace swarm::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename... Numbers>
std::string Pack(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return bytes;
}

// Two documents of 2 and 3 tokens.
std::string Index(std::uint8_t type, std::int64_t width, std::uint64_t version = 1) {
  return std::string("MMIDIDX\0\0", 9) + Pack(version, type) +
         Pack(std::uint64_t{2}, std::uint64_t{3}) + Pack(std::int32_t{2}, std::int32_t{3}) +
         Pack(std::int64_t{0}, std::int64_t{2} * width) +
         Pack(std::int64_t{0}, std::int64_t{1}, std::int64_t{2});
}

class MegatronTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string wide_ = Pack(std::int32_t{7}, std::int32_t{2}, std::int32_t{70000},
                                 std::int32_t{9}, std::int32_t{2});

  Result<std::unique_ptr<Corpus>> Open(const std::string& uri) {
    return Corpus::Open({.uri = uri, .vocab_size = 70001, .tokens_per_sequence = 3});
  }
  Status Error(const std::string& bin, const std::string& idx) {
    folder_.Put("a.idx", idx);
    return Open(folder_.Put("a.bin", bin)).status();
  }
};

TEST_F(MegatronTest, TheIndexSaysHowWideTheIdsAre) {
  folder_.Put("a.bin", wide_);
  folder_.Put("a.idx", Index(4, 4));
  folder_.Put("b.bin", Pack(std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{3}, std::uint16_t{4},
                            std::uint16_t{65535}));
  folder_.Put("b.idx", Index(8, 2));
  folder_.Put("c.bin", Pack(std::uint16_t{5}));  // ours: as data.tokenType says
  const auto corpus = Open(folder_.path().string());
  ASSERT_TRUE(corpus.ok()) << corpus.status().ToString();
  EXPECT_THAT(*(*corpus)->Read(0, 11), ElementsAre(7, 2, 70000, 9, 2, 1, 2, 3, 4, 65535, 5));
  const auto one = Open(folder_ / "a.bin");
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_EQ((*one)->token_count(), 5u);
}

TEST_F(MegatronTest, FilesThatAreCutOffAreRefusedByName) {
  EXPECT_THAT(Error(wide_.substr(0, 16), Index(4, 4)).message(),
              AllOf(HasSubstr("a.bin has 16 bytes, and its index tells of 20")));
  const std::string whole = Index(4, 4);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(Error(wide_, whole.substr(0, size)).message(), HasSubstr("a.idx")) << size;
  }
  EXPECT_THAT(Error(wide_, whole.substr(0, 40)).message(), HasSubstr("a.idx is cut off"));
}

TEST_F(MegatronTest, OtherIndexesAreRefused) {
  EXPECT_THAT(Error(wide_, "PK something else that is longer than a header").message(),
              HasSubstr("is no index of Megatron's"));
  EXPECT_THAT(Error(wide_, Index(7, 4)).message(), HasSubstr("type 7, which is no integer"));
  EXPECT_THAT(Error(wide_, Index(4, 4, 2)).message(), HasSubstr("version 2"));
}

TEST_F(MegatronTest, ANegativeIdIsOutsideTheVocabulary) {
  EXPECT_THAT(Error(Pack(std::int32_t{7}, std::int32_t{-1}, std::int32_t{0}, std::int32_t{0},
                         std::int32_t{0}),
                    Index(4, 4))
                  .message(),
              HasSubstr("id 4294967295 at position 1"));
}

}  // namespace
}  // namespace swarm::data
