#include "ctl/plan/link_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "ctl/plan/links_plot.h"

namespace swarm::ctl {
namespace {

using planner::Manner;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

planner::Plan PlanOf(std::uint64_t stages, double tokens_per_second) {
  planner::Plan plan;
  plan.way.spec.pipeline.stages = stages;
  plan.way.runs.resize(stages);
  plan.way.machines.resize(stages);
  plan.prediction.tokens_per_second = tokens_per_second;
  plan.prediction.stages.resize(stages);
  for (planner::StagePrediction& stage : plan.prediction.stages) stage.machines = 2;
  return plan;
}

/// Local is overtaken by a pipeline between the two rates, of 10 and 100 Mb/s.
class LinkRatesTest : public testing::Test {
 protected:
  LinkRatesTest() {
    planner::MannerCurve pipeline{
        Manner::kSyncPipeline,
        {{rates_[0], PlanOf(3, 100)}, {crossing_, PlanOf(3, 500)}, {rates_[1], PlanOf(3, 900)}}};
    for (auto& [rate, plan] : pipeline.plans) {
      plan.way.spec.pipeline.boundary.codec = api::BoundaryCodec::kInt8;
    }
    planner::MannerCurve local{
        Manner::kLocal,
        {{rates_[0], PlanOf(1, 400)}, {crossing_, PlanOf(1, 499)}, {rates_[1], PlanOf(1, 600)}}};
    for (auto& [rate, plan] : local.plans) {
      plan.way.spec.training.globalBatchSize = 6400;
      plan.way.spec.training.local.microbatches = 8;
      plan.way.spec.pipeline.residency = api::Residency::kSwap;
    }
    study_.curves = {pipeline, local};
    study_.leads = {{rates_[0], 1}, {crossing_, 0}};
    study_.overtakings = {{crossing_, 1, 0, false}};
    study_.left_out = {{Manner::kDelayedPipeline, "no reason"}};
  }

  const std::vector<double> rates_ = {1.25e6, 12.5e6};
  const double crossing_ = 4.2e6;
  planner::LinkStudy study_;
};

TEST_F(LinkRatesTest, RatesAreReadAndSorted) {
  EXPECT_THAT(*ParseLinkRates("80,10,0.8,10"), ElementsAre(1e5, 1.25e6, 1e7));
  EXPECT_THAT(*ParseLinkRates("8"), ElementsAre(1e6));
  EXPECT_EQ(ParseLinkRates(kDefaultLinkRates)->size(), 7u);
}

TEST_F(LinkRatesTest, WhatIsNoRateIsRefusedInWords) {
  for (const char* word : {"0", "-5", "ten", "", "10Mb/s", "nan", "inf", "1e7"}) {
    const auto rates = ParseLinkRates("10," + std::string(word) + ",50");
    ASSERT_FALSE(rates.ok()) << word;
    EXPECT_THAT(rates.status().message(),
                HasSubstr("--link-rates: '" + std::string(word) + "' is no rate of a line; give "));
  }
  std::string many = "1";
  for (int i = 2; i <= 65; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(ParseLinkRates(many).status().message(),
              HasSubstr("65 rates are too many; give at most 64"));
}

TEST_F(LinkRatesTest, TheTableMarksTheFastestAndSaysWhereCurvesCross) {
  std::ostringstream out;
  PrintLinks(study_, rates_, out);
  EXPECT_THAT(out.str(), HasSubstr("    Mb/s    Sync pipeline              Local  \n"
                                   "      10              100        400 swapped *\n"
                                   "     100              900 *      600 swapped  \n"));
  EXPECT_THAT(out.str(), HasSubstr("from 10 Mb/s on Local (2 machines, swapped)\n"
                                   "  from 33.6 Mb/s on Sync pipeline (6 machines in 3 stages, "
                                   "Int8)\n"));
  EXPECT_THAT(out.str(), HasSubstr("from 33.6 Mb/s on Sync pipeline (6 machines in 3 stages, Int8) "
                                   "is faster than Local (2 machines, swapped)\n"));
  EXPECT_THAT(out.str(),
              HasSubstr("Local: rounds of 6400 sequences. A replica takes 50 steps, each "
                        "with 8 microbatches. "));
  EXPECT_THAT(out.str(), HasSubstr("left out: Delayed pipeline: no reason\n"));
  study_.overtakings[0].equal = true;
  PrintLinks(study_, rates_, out);
  EXPECT_THAT(out.str(), HasSubstr(" is as fast as Local"));
}

TEST_F(LinkRatesTest, TheSameIsThereAsData) {
  planner::Request request;
  const nlohmann::json data = LinksJson(study_, rates_, request);
  EXPECT_EQ(data["linkRates"].size(), 2u);
  EXPECT_EQ(data["linkRates"][0]["mbps"], 10);
  EXPECT_EQ(data["linkRates"][0]["fastest"], "Local");
  EXPECT_EQ(data["linkRates"][1]["plans"]["SyncPipeline"]["tokensPerSecond"], 900);
  EXPECT_EQ(
      data["overtakings"][0],
      nlohmann::json(
          {{"mbps", 33.6}, {"faster", "SyncPipeline"}, {"slower", "Local"}, {"equal", false}}));
  EXPECT_EQ(data["leads"][1], nlohmann::json({{"mbps", 33.6}, {"manner", "SyncPipeline"}}));
  EXPECT_EQ(data["leftOut"][0]["manner"], "DelayedPipeline");
  EXPECT_EQ(data["local"]["innerSteps"], 50);
}

TEST_F(LinkRatesTest, ThePictureNamesEachCurveAtItsEnd) {
  const std::string svg = PlotLinks(study_, rates_, "llama");
  EXPECT_THAT(svg, HasSubstr(">llama</text>"));
  EXPECT_THAT(svg, HasSubstr(">Sync pipeline</text>"));
  EXPECT_THAT(svg, HasSubstr(">6 machines in 3 stages, Int8</text>"));
  EXPECT_THAT(svg, HasSubstr(">33.6 Mb/s</text>"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"9 5\" d=\"M")) << "what is swapped is dashed";
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  // It loads nothing: the only address is the name of the format.
  const std::string space = "xmlns=\"http://www.w3.org/2000/svg\"";
  const std::size_t at = svg.find(space);
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(svg.substr(at + space.size()), Not(HasSubstr("http")));
}

TEST_F(LinkRatesTest, NamesOfCurvesThatEndTogetherAreApart) {
  for (planner::MannerCurve& curve : study_.curves) {
    curve.plans.at(rates_[1]).prediction.tokens_per_second = 900;
  }
  const std::string svg = PlotLinks(study_, rates_, "llama");
  const auto height = [&](const std::string& name) {
    const std::size_t end = svg.find("\">" + name + "</text>");
    const std::size_t begin = svg.rfind("y=\"", end) + 3;
    return std::stod(svg.substr(begin, end - begin));
  };
  EXPECT_GT(height("Local"), height("Sync pipeline") + 30);
}

TEST_F(LinkRatesTest, OneRateIsAPictureToo) {
  for (planner::MannerCurve& curve : study_.curves) {
    curve.plans = {{rates_[0], curve.plans.at(rates_[0])}};
  }
  study_.leads = {{rates_[0], 1}};
  const std::vector<double> rates = {rates_[0]};
  EXPECT_THAT(PlotLinks(study_, rates, "llama"), HasSubstr("<circle"));
}

}  // namespace
}  // namespace swarm::ctl
