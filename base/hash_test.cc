#include "base/hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace swarm {
namespace {

std::span<const std::byte> Of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(HashTest, Crc32cHasTheCheckValueOfTheStandard) {
  EXPECT_EQ(Crc32c(Of("123456789")), 0xe3069283u);  // RFC 3720, appendix B.4
}

TEST(HashTest, Crc32cOverPiecesEqualsCrc32cOverTheWhole) {
  EXPECT_EQ(Crc32c(Of("6789"), Crc32c(Of("12345"))), Crc32c(Of("123456789")));
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(HashTest, ADigestOfPiecesIsTheDigestOfTheWhole) {
  const std::vector<Bytes> pieces = {Bytes::Copy("12345"), Bytes(), Bytes::Copy("6789")};
  EXPECT_EQ(ComputeDigest(pieces), ComputeDigest(Of("123456789")));
}

TEST(HashTest, DigestsTellContentsApart) {
  EXPECT_EQ(ComputeDigest(Of("a")), ComputeDigest(Of("a")));
  EXPECT_NE(ComputeDigest(Of("a")), ComputeDigest(Of("b")));
  EXPECT_EQ(ComputeDigest(Of("")).Hex(),
            "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing
}

}  // namespace
}  // namespace swarm
