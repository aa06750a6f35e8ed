#include "worker/page/state/account.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/chained_line.h"

namespace swarm::page {
namespace {

using nlohmann::json;

json ToJson(const StepAccount& account) { return json::parse(AccountJson(account, 8, 3)); }

TEST(PageAccountTest, TheLineIsTheTrainersOwn) {
  const std::string first = ChainLine(R"({"step":0,"groups":[]})", "");
  const std::string second = ChainLine(R"({"step":1,"groups":[]})", ChainDigest(first));
  const json shown = ToJson({second, std::string(ChainDigest(first)), 0, 1});
  EXPECT_EQ(shown.at("line"), json::parse(second));
  EXPECT_EQ(shown.at("chain"), "holds");
  EXPECT_EQ(shown.at("microbatches"), 8);
  EXPECT_EQ(shown.at("stages"), 3);
  EXPECT_EQ(shown.at("last"), 1);
}

TEST(PageAccountTest, ALineThatWasAlteredShows) {
  std::string line = ChainLine(R"({"step":0,"groups":[0]})", "");
  line[line.find("[0]") + 1] = '1';
  EXPECT_EQ(ToJson({line, "", 0, 0}).at("chain"), "broken");
  EXPECT_EQ(ToJson({R"({"step":0})", "", 0, 0}).at("chain"), "none") << "of an older program";
}

TEST(PageAccountTest, WhatIsNoJsonIsNotShown) {
  const json shown = ToJson({R"({"step":0,)", "", 0, 0});
  EXPECT_TRUE(shown.at("line").is_null());
  EXPECT_TRUE(ToJson({}).at("line").is_null());
  EXPECT_TRUE(ToJson({}).at("last").is_null());
}

}  // namespace
}  // namespace swarm::page
