#include "worker/data/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace swarm::data {
namespace {

TEST(Utf8Test, WellFormedTextOfAllLengthsPasses) {
  EXPECT_FALSE(FindInvalidUtf8(""));
  EXPECT_FALSE(FindInvalidUtf8("plain text, longer than a word"));
  EXPECT_FALSE(FindInvalidUtf8("é€𝄞\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));
}

TEST(Utf8Test, TheFirstBadByteIsFound) {
  const std::string start = "0123456789";
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                          "\xc3", "\xe2\x82", "\xc3(", "\xf0\x9d\x84"}) {
    EXPECT_EQ(FindInvalidUtf8(start + bad), start.size()) << bad;
  }
}

}  // namespace
}  // namespace swarm::data
