#include "bench/wan/topology.h"

#include <gmock/gmock.h>

namespace swarm::wan {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNodes =
    R"("nodes": [{"name": "trainer", "region": "eu"}, {"name": "a", "region": "eu"},
                 {"name": "b", "region": "us"}])";

Result<Topology> Parse(const std::string& links) {
  return ParseTopology(std::string("{") + kNodes + R"(, "links": [)" + links + "]}");
}

TEST(TopologyTest, ALinkJoinsItsRegionsInBothDirections) {
  const auto topology = Parse(R"({"between": ["eu", "us"], "rateMbps": 200, "oneWayMs": 40})");
  ASSERT_TRUE(topology.ok()) << topology.status().ToString();
  const LinkOptions wide = {
      .bits_per_second = 200e6, .delay = std::chrono::milliseconds(40), .queue_bytes = 2'500'000};
  EXPECT_EQ(topology->links[1][2], wide);
  EXPECT_EQ(topology->links[2][0], wide);
  EXPECT_EQ(topology->links[0][1], LinkOptions()) << "none was given within a region";
}

TEST(TopologyTest, TheLastLinkThatFitsCounts) {
  const auto topology = Parse(R"({"between": ["*", "*"], "rateMbps": 500, "loss": 0.5},
                                 {"between": ["a", "us"], "rateMbps": 80, "queueBytes": 5})");
  ASSERT_TRUE(topology.ok()) << topology.status().ToString();
  EXPECT_EQ(topology->links[0][2].bits_per_second, 500e6);
  EXPECT_EQ(topology->links[0][2].loss, 0.5);
  EXPECT_EQ(topology->links[1][2].bits_per_second, 80e6);
  EXPECT_EQ(topology->links[1][2].loss, 0);
  EXPECT_EQ(topology->links[1][2].queue_bytes, 5u);
}

TEST(TopologyTest, WhatCannotBeMeantIsRefusedAndNamed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"between": ["eu", "mars"]})", "links[0].between"},
      {R"({"between": ["eu"]})", "links[0].between"},
      {R"({"between": ["eu", "us"], "rate": 1})", "links[0].rate"},
      {R"({"between": ["eu", "us"], "loss": 1.5})", "links[0].loss"},
      {R"({"between": ["eu", "us"], "oneWayMs": "40"})", "links[0].oneWayMs"},
      {R"(17)", "links[0]"}};
  for (const auto& [links, what] : bad) {
    const auto topology = Parse(links);
    ASSERT_FALSE(topology.ok()) << links;
    EXPECT_THAT(topology.status().message(), HasSubstr(what));
  }
}

TEST(TopologyTest, NodesHaveNamesOfTheirOwn) {
  for (const char* nodes : {R"([{"name": "a", "region": "eu"}, {"name": "a", "region": "us"}])",
                            R"([{"name": "a", "region": "eu"}, {"name": "../b", "region": "us"}])",
                            R"([{"name": "a", "region": "eu"}, {"region": "us"}])",
                            R"([{"name": "a", "region": "eu"}])", R"([])", R"({})"}) {
    EXPECT_FALSE(ParseTopology(std::string(R"({"nodes": )") + nodes + "}").ok()) << nodes;
  }
  EXPECT_FALSE(ParseTopology("{").ok());
}

}  // namespace
}  // namespace swarm::wan
