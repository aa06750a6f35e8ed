#include "planner/link_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/model/decoder_config.h"
#include "api/validate.h"
#include "planner/stage_memory.h"

namespace swarm::planner {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kMegabyte = 1e6;

/// Two machines. What is not left open stays for the test to say.
Request TwoMachines() {
  Request request;
  api::SwarmJob& job = request.job;
  job.name = "studied";
  job.spec.data.uri = "corpus.txt";
  api::DecoderConfig& config = job.spec.model.config;
  config.hidden_size = 1024;
  config.num_hidden_layers = 12;
  config.num_attention_heads = config.num_key_value_heads = 8;
  config.head_dim = 128;
  config.intermediate_size = 4096;
  config.vocab_size = 256;
  job.spec.training.maxSteps = 10;
  job.spec.training.globalBatchSize = 64;
  job.spec.training.sequenceLength = 512;
  job.spec.workers.replicas = job.spec.workers.minReplicas = 2;
  EXPECT_EQ(api::ToString(api::Validate(job)), "");
  request.fleet.groups = {{.name = "t", .count = 2, .flops = 1e13, .disk = 0}};
  request.open.codec = request.open.microbatch = request.open.replicas = false;
  return request;
}

/// The manifest says how many stages.
Request Staged(std::uint64_t stages) {
  Request request = TwoMachines();
  request.open.stages = false;
  request.job.spec.pipeline.stages = stages;
  return request;
}

std::vector<Manner> MannersOf(const LinkStudy& study) {
  std::vector<Manner> manners;
  for (const MannerCurve& curve : study.curves) manners.push_back(curve.manner);
  return manners;
}

const MannerCurve& CurveOf(const LinkStudy& study, Manner manner) {
  return *std::ranges::find(study.curves, manner, &MannerCurve::manner);
}

std::string ReasonOf(const LinkStudy& study, Manner manner) {
  const auto left = std::ranges::find(study.left_out, manner, &LeftOut::manner);
  return left == study.left_out.end() ? "" : left->reason;
}

/// Of two manners, in order.
std::vector<Overtaking> Between(const LinkStudy& study, Manner a, Manner b) {
  std::vector<Overtaking> found;
  for (const Overtaking& at : study.overtakings) {
    const Manner slower = study.curves[at.slower].manner, faster = study.curves[at.faster].manner;
    if ((slower == a && faster == b) || (slower == b && faster == a)) found.push_back(at);
  }
  return found;
}

/// Tokens a second in Sync, with so many stages.
double SyncSpeed(Request request, std::uint64_t stages, double rate) {
  request.open.step_mode = request.open.stages = false;
  request.job.spec.pipeline.stages = stages;
  request.fleet = WithLines(request.fleet, rate);
  return FindPlans(request, 1).plans.front().prediction.tokens_per_second;
}

TEST(LinkStudy, AllLinesHaveTheRateAndConnectionsNoOther) {
  Fleet fleet{.groups = {{.name = "a", .count = 1, .upload = 1, .download = 2}, {.name = "b"}},
              .links = {{"*", "*", 0.08, 5, 1e-9}},
              .trainer_region = "eu"};
  fleet = WithLines(fleet, 1e6);
  for (const Machines& group : fleet.groups) {
    EXPECT_EQ(group.upload, 1e6);
    EXPECT_EQ(group.download, 1e6);
  }
  EXPECT_EQ(fleet.links[0].rate, 0);
  EXPECT_EQ(fleet.links[0].round_trip_seconds, 0.08);
  EXPECT_EQ(fleet.links[0].dollars_per_byte, 1e-9);
}

TEST(LinkStudy, CurvesCrossWhereTheirFormulasDo) {
  // Sync adds the sum of S bytes to W seconds of work; Delayed takes the longer of the two. So they
  // are within a hundredth of each other where the one is a hundredth of the other.
  const Request request = Staged(1);
  const ModelCosts model(request.job.spec);
  const double work = 64 * 512 * model.Flops({0, 12}) / 2e13;
  const double sum = 4.0 * static_cast<double>(model.ParametersOf({0, 12}).trained);
  const double even = sum / work;
  const std::vector<double> rates = {even / 1e3, even, even * 1e3};
  const LinkStudy study = StudyLinks(request, rates);
  const auto found = Between(study, Manner::kSyncReplicas, Manner::kDelayedReplicas);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(study.curves[found[0].faster].manner, Manner::kDelayedReplicas);
  EXPECT_FALSE(found[0].equal);
  // In Delayed two steps also take a round, so half of a microbatch is left beside the sum.
  const double microbatch = 2 * work / 64;
  EXPECT_NEAR(sum / found[0].rate, 99 * (work - microbatch / 2 / 0.99), work);
  EXPECT_EQ(study.curves[found[1].faster].manner, Manner::kSyncReplicas);
  EXPECT_TRUE(found[1].equal);
  EXPECT_NEAR(found[1].rate / even, 99, 0.3);
}

TEST(LinkStudy, AnOvertakingIsWhereAPlanOvertakes) {
  Request request = TwoMachines();
  request.fleet.links = {{"*", "*", 0.02}};
  const std::vector<double> rates = {kMegabyte, 1e3 * kMegabyte, 1e6 * kMegabyte};
  const LinkStudy study = StudyLinks(request, rates);
  const auto found = Between(study, Manner::kSyncReplicas, Manner::kSyncPipeline);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(study.curves[found[0].faster].manner, Manner::kSyncReplicas);
  EXPECT_GT(found[0].rate, rates.front());
  EXPECT_LT(found[0].rate, rates.back());
  const double before = found[0].rate / 1.003, after = found[0].rate;
  EXPECT_LT(SyncSpeed(request, 1, before), 0.99 * SyncSpeed(request, 2, before));
  EXPECT_GE(SyncSpeed(request, 1, after), 0.99 * SyncSpeed(request, 2, after));
}

TEST(LinkStudy, TheLeaderIsThePlainestOfTheBest) {
  const std::vector<double> rates = {kMegabyte, 1e3 * kMegabyte, 1e6 * kMegabyte};
  const LinkStudy study = StudyLinks(TwoMachines(), rates);
  ASSERT_FALSE(study.leads.empty());
  EXPECT_EQ(study.leads.front().rate, kMegabyte);
  EXPECT_EQ(study.curves[study.leads.front().curve].manner, Manner::kLocal) << "lines are slow";
  EXPECT_EQ(study.curves[study.leads.back().curve].manner, Manner::kSyncReplicas)
      << "they are fast";
  for (std::size_t i = 0; i < study.leads.size(); ++i) {
    EXPECT_EQ(study.leads[i].curve, LeaderAt(study, study.leads[i].rate));
    if (i > 0) {
      EXPECT_GT(study.leads[i].rate, study.leads[i - 1].rate);
      EXPECT_NE(study.leads[i].curve, study.leads[i - 1].curve);
    }
  }
}

TEST(LinkStudy, RatesFarApartAreLookedAtBetween) {
  const std::vector<double> rates = {kMegabyte, 100 * kMegabyte};
  const LinkStudy study = StudyLinks(Staged(1), rates);
  const auto& plans = study.curves.front().plans;
  EXPECT_EQ(plans.begin()->first, rates.front());
  EXPECT_EQ(plans.rbegin()->first, rates.back());
  for (auto from = plans.begin(), to = std::next(from); to != plans.end(); from = to, ++to) {
    EXPECT_LE(to->first / from->first, 1.61);
  }
}

TEST(LinkStudy, ARoundOfLocalIsAsManyStepsOfAllMachines) {
  const std::vector<double> rates = {kMegabyte};
  const LinkStudy study = StudyLinks(TwoMachines(), rates);
  const api::Training local =
      CurveOf(study, Manner::kLocal).plans.begin()->second.way.spec.training;
  EXPECT_EQ(local.stepMode, api::StepMode::kLocal);
  EXPECT_EQ(local.local.innerSteps, 50u);
  EXPECT_EQ(local.local.microbatches, 32u);
  EXPECT_EQ(local.globalBatchSize, 50 * 64u);
}

TEST(LinkStudy, AStepBesideRoundsOfAManifestIsAnInnerOne) {
  Request request = TwoMachines();
  request.job.spec.training.stepMode = api::StepMode::kLocal;
  request.job.spec.training.local = {.innerSteps = 8, .microbatches = 4};
  const std::vector<double> rates = {kMegabyte};
  const LinkStudy study = StudyLinks(request, rates);
  const auto training = [&](Manner manner) {
    return CurveOf(study, manner).plans.begin()->second.way.spec.training;
  };
  EXPECT_EQ(training(Manner::kLocal).globalBatchSize, 64u);
  EXPECT_EQ(training(Manner::kLocal).local.innerSteps, 8u);
  EXPECT_EQ(training(Manner::kSyncReplicas).globalBatchSize, 8u);
  EXPECT_EQ(training(Manner::kSyncReplicas).local, api::LocalSteps());
}

TEST(LinkStudy, StagesOfTheManifestLeaveOutTheOthers) {
  const std::vector<double> rates = {kMegabyte};
  const LinkStudy one = StudyLinks(Staged(1), rates), two = StudyLinks(Staged(2), rates);
  EXPECT_THAT(MannersOf(one),
              ElementsAre(Manner::kSyncReplicas, Manner::kDelayedReplicas, Manner::kLocal));
  EXPECT_EQ(ReasonOf(one, Manner::kSyncPipeline), "the manifest has 1 stage");
  EXPECT_THAT(MannersOf(two),
              ElementsAre(Manner::kSyncPipeline, Manner::kDelayedPipeline, Manner::kLocal));
  EXPECT_EQ(ReasonOf(two, Manner::kDelayedReplicas), "the manifest has 2 stages");
}

TEST(LinkStudy, WhatIsNoJobIsLeftOutWithItsError) {
  Request request = TwoMachines();
  request.job.spec.training.accumulation = api::Accumulation::kExact;
  const std::vector<double> rates = {kMegabyte};
  EXPECT_THAT(ReasonOf(StudyLinks(request, rates), Manner::kLocal),
              HasSubstr("spec.training.accumulation"));
}

TEST(LinkStudy, StagesOfLocalDoNotShareAnEmbedding) {
  Request request = TwoMachines();
  request.job.spec.model.config.tie_word_embeddings = true;
  const std::vector<double> rates = {kMegabyte};
  const LinkStudy study = StudyLinks(request, rates);
  EXPECT_EQ(CurveOf(study, Manner::kLocal).plans.begin()->second.way.runs.size(), 1u);
  request.open.stages = false;
  request.job.spec.pipeline.stages = 2;
  EXPECT_THAT(ReasonOf(StudyLinks(request, rates), Manner::kLocal),
              HasSubstr("tie_word_embeddings"));
}

TEST(LinkStudy, WhatDoesNotFitIsLeftOutWithWhatWouldHelp) {
  Request request = TwoMachines();
  const ModelCosts model(request.job.spec);
  Machines& group = request.fleet.groups[0];
  group.memory_bytes = 0.9 * LeastMemory(request.job.spec, model, group, {0, 12}, false);
  const std::vector<double> rates = {kMegabyte};
  const LinkStudy study = StudyLinks(request, rates);
  EXPECT_THAT(MannersOf(study), Contains(Manner::kSyncPipeline));
  EXPECT_THAT(study.left_out, Contains(Field(&LeftOut::manner, Manner::kSyncReplicas)));
  EXPECT_THAT(ReasonOf(study, Manner::kSyncReplicas),
              AllOf(HasSubstr("it does not fit; it would with "), HasSubstr(", or memory of ")));
  // With a disk it does.
  group.disk = 1e9;
  const Plan swapped =
      CurveOf(StudyLinks(request, rates), Manner::kSyncReplicas).plans.begin()->second;
  EXPECT_EQ(swapped.way.spec.pipeline.residency, api::Residency::kSwap);
}

TEST(LinkStudy, WhereNothingFitsThereAreNoCurves) {
  Request request = TwoMachines();
  request.fleet.groups[0].memory_bytes = 1e6;
  const std::vector<double> rates = {kMegabyte, 2 * kMegabyte};
  const LinkStudy study = StudyLinks(request, rates);
  EXPECT_THAT(study.curves, IsEmpty());
  EXPECT_THAT(study.leads, IsEmpty());
  EXPECT_EQ(study.left_out.size(), 5u);
}

}  // namespace
}  // namespace swarm::planner
