#include "worker/protocol/routing/link_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace swarm::protocol {
namespace {

const WorkerId kA("a"), kB("b"), kC("c");
std::uint64_t NoneBroken(std::uint64_t, const Place&, const Place&) { return 0; }

TEST(LinkTableTest, ALinkIsTheMeanOfWhatWorkersReport) {
  LinkTable links;
  links.Update(kA, "eu", "us", {0.1, 1e6});
  links.Update(kB, "eu", "us", {0.2, 0});
  EXPECT_EQ(links.Find("eu", "us"), (Link{(0.1 + 0.2) / 2, 1e6})) << "b has not filled its link";
  links.Update(kB, "eu", "us", {0.1, 3e6});
  EXPECT_EQ(links.Find("eu", "us"), (Link{0.1, 2e6})) << "the last word counts";
  EXPECT_EQ(links.Find("us", "eu"), (Link{0.1, 2e6})) << "for want of a report";
  links.Keep([](const WorkerId& worker) { return worker != kA; }, {"eu", "us"});
  EXPECT_EQ(links.Find("eu", "us"), (Link{0.1, 3e6}));
  links.Keep([](const WorkerId&) { return true; }, {"eu"});
  EXPECT_TRUE(links.empty());
}

TEST(LinkTableTest, TheRoundTripOfAWorkerIsTheMeanOfItsOwnReports) {
  LinkTable links;
  links.Update(kA, "eu", "us", {0.25, 0});
  links.Update(kA, "eu", "eu", {0.75, 0});
  links.Update(kB, "us", "eu", {0.125, 0});
  EXPECT_EQ(links.RoundTrips(), (std::map<WorkerId, double>{{kA, 0.5}, {kB, 0.125}}));
}

TEST(LinkTableTest, TheSlowerDirectionIsTheLimitOfALink) {
  LinkTable links;
  links.Update(kA, "eu", "us", {0.1, 4e6});
  links.Update(kB, "us", "eu", {0.1, 1e6});
  const FlowGraph graph =
      BuildGraph({{{kA, "eu", 0.5}}, {{kB, "us", 0.25}}}, links, {{1e6, 2e6}}, NoneBroken);
  EXPECT_EQ(graph.stages[0].at("eu").rate, 2);
  EXPECT_EQ(graph.stages[1].at("us").rate, 4);
  const Passage& link = graph.cuts[0].at({"eu", "us"});
  EXPECT_EQ(link.rate, 0.5) << "two million bytes of gradients at a million a second";
  EXPECT_DOUBLE_EQ(link.seconds, 0.1 + 0.25 + 2);
}

TEST(LinkTableTest, AnUnfilledLinkHasNoLimitAndAnUnmeasuredOneTheMeanRoundTrip) {
  LinkTable links;
  links.Update(kA, "eu", "eu", {0.01, 0});
  links.Update(kB, "us", "eu", {0.09, 0});
  const FlowGraph graph = BuildGraph({{{kA, "eu", 1}}, {{kB, "us", 1}, {kC, "asia", 1}}}, links,
                                     {{1e6, 1e6}}, NoneBroken);
  EXPECT_TRUE(std::isinf(graph.cuts[0].at({"eu", "us"}).rate));
  EXPECT_DOUBLE_EQ(graph.cuts[0].at({"eu", "us"}).seconds, 0.09);
  EXPECT_DOUBLE_EQ(graph.cuts[0].at({"eu", "asia"}).seconds, 0.05);
  const Flow flow = SolveFlow(graph);
  EXPECT_NEAR(flow.rate, 1, 1e-4) << "links without a limit are no trouble for the solver";
}

TEST(LinkTableTest, PlacesHaveNoLinkWhereAllTheirPairsAreBroken) {
  const auto one_broken = [](std::uint64_t, const Place&, const Place& to) {
    return std::uint64_t{to == "us"};
  };
  const std::vector<std::vector<PlacedWorker>> stages{
      {{kA, "eu", 1}}, {{kB, "us", 1}, {kC, "eu", 1}, {WorkerId("d"), "eu", 0.5}}};
  LinkTable links;
  links.Update(kA, "eu", "eu", {0.01, 1e6});
  const FlowGraph graph = BuildGraph(stages, links, {{1e6, 1e6}}, one_broken);
  EXPECT_FALSE(graph.cuts[0].contains({"eu", "us"}));
  EXPECT_EQ(graph.cuts[0].at({"eu", "eu"}).rate, 2) << "one to each of two workers";
  EXPECT_EQ(graph.stages[1].at("eu").rate, 3);
}

}  // namespace
}  // namespace swarm::protocol
