#include "api/prices.h"

#include <gtest/gtest.h>

namespace swarm::api {
namespace {

Pool PoolOf(const std::string& name, double price) {
  return {.name = name, .machine = Machine{.teraflops = 1, .dollarsPerHour = price}};
}

Spec SpecOf(std::vector<Pool> pools) {
  Spec spec;
  spec.workers.pools = std::move(pools);
  return spec;
}

TEST(PricesTest, AWorkerCostsWhatItsPoolSays) {
  const Spec spec = SpecOf({PoolOf("spot", 0.1), PoolOf("fast", 0.5), {.name = "free"}});
  EXPECT_EQ(WorkerPrice(spec, "fast"), 0.5);
  EXPECT_EQ(WorkerPrice(spec, "free"), 0);
  EXPECT_EQ(WorkerPrice(spec, "gone"), 0) << "the manifest has it no more";
}

TEST(PricesTest, AMachineThatJoinsCostsWhatItsPoolSaysOrNothing) {
  Spec spec = SpecOf({PoolOf("spot", 0.1)});
  spec.workers.machinePools = {{.name = "rented", .dollarsPerHour = 0.4}, {.name = "friends"}};
  EXPECT_EQ(WorkerPrice(spec, "rented"), 0.4);
  EXPECT_EQ(WorkerPrice(spec, "friends"), 0);
  EXPECT_EQ(WorkerPrices(spec), (DollarRange{0, 0.4}));
  spec.workers.pools = {{.name = "free"}};
  EXPECT_EQ(WorkerPrices(spec), std::nullopt);
}

TEST(PricesTest, AWorkerOfAnyPoolCostsFromTheCheapestToTheDearest) {
  EXPECT_EQ(WorkerPrices(SpecOf({PoolOf("a", 0.5), PoolOf("b", 0.1), PoolOf("c", 0.3)})),
            (DollarRange{0.1, 0.5}));
  EXPECT_EQ(WorkerPrices(SpecOf({PoolOf("a", 0.5)})), (DollarRange{0.5, 0.5}));
}

TEST(PricesTest, NobodyKnowsThePriceWhereAPoolHasNone) {
  EXPECT_EQ(WorkerPrices(Spec()), std::nullopt);
  EXPECT_EQ(WorkerPrices(SpecOf({PoolOf("a", 0.5), PoolOf("b", 0)})), std::nullopt);
  EXPECT_EQ(Times(WorkerPrices(Spec()), 4), std::nullopt);
}

TEST(PricesTest, OfThePricesOfAPairOfRegionsTheLastCounts) {
  Spec spec;
  EXPECT_EQ(TrafficDollarsPerByte(spec, "eu", "us"), 0);
  spec.workers.traffic = {{{"*", "*"}, 20}, {{"eu", "us"}, 80}, {{"asia", "*"}, 100}};
  EXPECT_DOUBLE_EQ(TrafficDollarsPerByte(spec, "us", "eu"), 80e-9) << "in either direction";
  EXPECT_DOUBLE_EQ(TrafficDollarsPerByte(spec, "eu", "asia"), 100e-9);
  EXPECT_DOUBLE_EQ(TrafficDollarsPerByte(spec, "eu", "south"), 20e-9);
}

TEST(PricesTest, SeveralWorkersCostSeveralTimesAsMuch) {
  const auto four = Times(DollarRange{0.25, 0.5}, 4);
  ASSERT_TRUE(four.has_value());
  EXPECT_EQ(DollarText(*four), "$1.00 to $2.00");
  EXPECT_EQ(DollarText(DollarRange{1.2, 1.2}), "$1.20");
}

}  // namespace
}  // namespace swarm::api
