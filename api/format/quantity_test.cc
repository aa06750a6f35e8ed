#include "api/format/quantity.h"

#include <gtest/gtest.h>

#include <string>

namespace swarm::api {
namespace {

TEST(QuantityTest, IsReadAsKubernetesDoes) {
  EXPECT_EQ(ParseQuantity("0"), 0);
  EXPECT_EQ(ParseQuantity("8000000000"), 8e9);
  EXPECT_EQ(ParseQuantity("8e9"), 8e9);
  EXPECT_EQ(ParseQuantity("8G"), 8e9);
  EXPECT_EQ(ParseQuantity("24Mi"), 24 * 0x1p20);
  EXPECT_EQ(ParseQuantity("7.5Gi"), 7.5 * 0x1p30);
  EXPECT_EQ(ParseQuantity("128974848000m"), 128974848);
}

TEST(QuantityTest, AnythingElseIsNone) {
  for (const std::string text : {"", "Gi", "-1", "+1", "inf", "nan", " 1Gi", "1 Gi", "1gi", "1GiB",
                                 "1Gi ", "0x10", "1e999", "1,5Gi", "1.5.Gi", "6GB"}) {
    EXPECT_EQ(ParseQuantity(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace swarm::api
