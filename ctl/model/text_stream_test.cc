#include "ctl/model/text_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace swarm::ctl {
namespace {

// What is printed while the text grows byte by byte.
std::vector<std::string> Stream(const std::string& text) {
  TextStream stream;
  std::vector<std::string> printed;
  for (std::size_t size = 1; size <= text.size(); ++size) {
    printed.push_back(stream.Advance(std::string_view(text).substr(0, size), false));
  }
  printed.push_back(stream.Advance(text, true));
  return printed;
}

using Parts = std::vector<std::string>;

TEST(TextStreamTest, PrintsCharactersWhenTheyAreWhole) {
  EXPECT_EQ(Stream("aé€😀b"), (Parts{"a", "", "é", "", "", "€", "", "", "", "😀", "b", ""}));
}

TEST(TextStreamTest, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(Stream("a\xff"
                   "b\x80"),
            (Parts{"a", "",
                   "\xef\xbf\xbd"
                   "b",
                   "\xef\xbf\xbd", ""}));
}

TEST(TextStreamTest, WhatIsNeverFinishedComesAtTheEnd) {
  EXPECT_EQ(Stream("a\xe2\x82"), (Parts{"a", "", "", "\xef\xbf\xbd\xef\xbf\xbd"}));
}

TEST(TextStreamTest, WaitsForWhatATokenizerShowsAsUnfinished) {
  TextStream stream;
  EXPECT_EQ(stream.Advance("x\xef\xbf\xbd", false), "x");
  EXPECT_EQ(stream.Advance("x\xef\xbf\xbd\xef\xbf\xbd", false), "");
  EXPECT_EQ(stream.Advance("x€", false), "€");
}

}  // namespace
}  // namespace swarm::ctl
