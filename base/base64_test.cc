#include "base/base64.h"

#include <gtest/gtest.h>

namespace swarm {
namespace {

TEST(Base64Test, SpeaksTheWordsOfTheStandard) {
  const std::pair<std::string, std::string> kPairs[] = {{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : kPairs) {
    EXPECT_EQ(EncodeBase64(plain), text);
    EXPECT_EQ(DecodeBase64(text), plain);
  }
}

TEST(Base64Test, KeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (int drop = 0; drop < 3; ++drop) {
    EXPECT_EQ(DecodeBase64(EncodeBase64(bytes)), bytes);
    bytes.pop_back();
  }
}

TEST(Base64Test, PassesOverLineBreaksAndRefusesTheRest) {
  EXPECT_EQ(DecodeBase64("Zm9v\nYmFy\n"), "foobar");
  for (const char* wrong : {"Z", "Zm9v!", "Zg==Zg==", "Zg=", "Zm9vY==="}) {
    EXPECT_EQ(DecodeBase64(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace swarm
