// The losses of a swarm are those of the same job in one process: invariant 2 of the design, for
// every number of stages and replicas, in both step modes.
#include <map>

#include "api/format/enum_names.h"
#include "tests/swarm/local_swarm.h"

namespace swarm::tests {
namespace {

struct Layout {
  std::vector<std::uint64_t> replicas;
  std::string Name() const {
    std::string name;
    for (const auto n : replicas) name += (name.empty() ? "" : "x") + std::to_string(n);
    return name;
  }
};

class EqualityTest : public ::testing::TestWithParam<api::StepMode> {
 protected:
  api::SwarmJob Job(std::uint64_t steps = 16) {
    api::SwarmJob job = TinyJob(folder_);
    job.spec.training.stepMode = GetParam();
    job.spec.training.maxSteps = steps;
    return job;
  }
  void ExpectEqualLosses(const api::SwarmJob& job, const Layout& layout,
                         const std::vector<double>& expected) {
    SCOPED_TRACE(layout.Name());
    const std::string out = folder_ / layout.Name();
    const auto outcome = RunSwarm(job, layout.replicas, out);
    ASSERT_TRUE(outcome.succeeded) << outcome.reason;
    const std::vector<double> losses = Losses(out);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t t = 0; t < losses.size(); ++t) {
      ASSERT_NEAR(losses[t], expected[t], 1e-5 * expected[t]) << "step " << t;
    }
  }
  /// The last loss is below `learned` of the first.
  std::vector<double> ReferenceLosses(const api::SwarmJob& job, double learned = 0.9) {
    const std::string out = folder_ / "reference";
    const Status status = trainer::TrainReference({.job = job, .out_dir = out});
    EXPECT_TRUE(status.ok()) << status.ToString();
    const auto losses = Losses(out);
    EXPECT_EQ(losses.size(), job.spec.training.maxSteps);
    EXPECT_LT(losses.back(), learned * losses.front()) << "nothing was learned";
    return losses;
  }
  TemporaryFolder folder_;
};

// S in {1, 2, 4, 7}, R in {1, 2, 3}, even and uneven.
const std::vector<Layout> kLayouts{{{1}},          {{3}},          {{1, 1}},
                                   {{3, 1}},       {{1, 2}},       {{1, 1, 1, 1}},
                                   {{2, 2, 2, 2}}, {{3, 1, 2, 1}}, {{1, 2, 1, 3, 1, 1, 2}}};

TEST_P(EqualityTest, EveryLayoutGivesTheLossesOfOneProcess) {
  const auto expected = ReferenceLosses(Job());
  for (const Layout& layout : kLayouts) ExpectEqualLosses(Job(), layout, expected);
}

/// Errors grow from step to step, so this trains for long. What a switch breaks shows in the first
/// steps.
class LongEqualityTest : public EqualityTest {};

TEST_P(LongEqualityTest, EveryLayoutGivesTheLossesOfOneProcess) {
  const api::SwarmJob job = Job(50);
  const auto expected = ReferenceLosses(job, 0.8);
  for (const Layout& layout : kLayouts) ExpectEqualLosses(job, layout, expected);
}

TEST_P(EqualityTest, ATiedHeadIsSummedOverTheFirstAndTheLastStage) {
  api::SwarmJob job = Job();
  job.spec.model.config.tie_word_embeddings = true;
  const auto expected = ReferenceLosses(job);
  for (const Layout& layout : {Layout{{2}}, Layout{{2, 1, 3}}}) {
    ExpectEqualLosses(job, layout, expected);
  }
}

TEST_P(EqualityTest, EveryFamilyGivesTheLossesOfOneProcess) {
  using api::ModelFamily;
  for (const ModelFamily family :
       {ModelFamily::kMistral, ModelFamily::kQwen2, ModelFamily::kQwen3, ModelFamily::kSmolLM3,
        ModelFamily::kGemma2, ModelFamily::kGemma3}) {
    SCOPED_TRACE(NameOf(family));
    api::SwarmJob job = Job();
    MakeFamily(family, job.spec.model.config);
    job.spec.model.config.tie_word_embeddings = family == ModelFamily::kQwen2;
    if (family == ModelFamily::kQwen3) {
      job.spec.model.config.rope = {.type = api::RopeType::kYarn,
                                    .factor = 4,
                                    .original_max_position_embeddings = 16,
                                    .attention_factor = 1.1};
    }
    ExpectEqualLosses(job, Layout{{2, 1, 3}}, ReferenceLosses(job));
  }
}

TEST_P(EqualityTest, EverySwitchGivesTheLossesOfOneProcess) {
  const std::map<std::string, void (*)(api::Spec&)> switches{
      {"z-loss, no decay of embeddings",
       [](api::Spec& spec) {
         spec.training.zLoss = 1e-3;
         spec.optimizer.decayEmbeddings = false;
       }},
      {"WSD",
       [](api::Spec& spec) {
         spec.schedule.type = api::ScheduleType::kWSD;
         spec.schedule.decaySteps = 8;
       }},
      {"Muon", [](api::Spec& spec) { spec.optimizer.type = api::OptimizerType::kMuon; }},
      {"Muon, exact, tied", [](api::Spec& spec) {
         spec.optimizer.type = api::OptimizerType::kMuon;
         spec.training.accumulation = api::Accumulation::kExact;
         spec.model.config.tie_word_embeddings = true;
         spec.pipeline.stages = 3;
       }}};
  for (const auto& [name, turn_on] : switches) {
    SCOPED_TRACE(name);
    api::SwarmJob job = Job();
    turn_on(job.spec);
    ExpectEqualLosses(job, Layout{{2, 1, 3}}, ReferenceLosses(job));
  }
}

TEST_P(EqualityTest, ExamplesGiveTheLossesOfOneProcessHoweverTheyAreSplit) {
  api::SwarmJob job = Job();
  MakeFamily(api::ModelFamily::kMistral, job.spec.model.config);
  std::string lines;
  for (int i = 0; i < 300; ++i) {
    const std::string word(static_cast<std::size_t>(i * i % 7 + 1), static_cast<char>('a' + i % 5));
    lines += "{\"prompt\": \"" + word + " is\", \"completion\": \" " + std::to_string(word.size()) +
             "\"}\n";
  }
  job.spec.data.uri = folder_.Put("examples.jsonl", lines);
  job.spec.data.format = api::DataFormat::kPromptCompletion;
  job.spec.data.documents = api::DocumentView::kSeparate;
  const auto expected = ReferenceLosses(job);
  for (const Layout& layout : {Layout{{2}}, Layout{{2, 1, 3}}}) {
    ExpectEqualLosses(job, layout, expected);
  }
  // The mean is over the labels of the step that count: it is the same whatever a microbatch has.
  job.spec.training.microbatchSize = job.spec.training.globalBatchSize;
  ExpectEqualLosses(job, Layout{{1, 1}}, expected);
}

TEST_P(EqualityTest, AdaptersAloneAreTrainedOverFrozenWeights) {
  for (const bool exact : {false, true}) {
    SCOPED_TRACE(exact ? "exact" : "floats");
    api::SwarmJob job = Job();
    job.spec.model.config.tie_word_embeddings = true;
    // Adapters of random weights learn little: larger ones learn more.
    job.spec.model.config.initializer_range = 0.2;
    job.spec.model.lora = {.rank = 4, .alpha = 16};
    job.spec.optimizer.learningRate = 5e-3;
    if (exact) {
      job.spec.training.accumulation = api::Accumulation::kExact;
      job.spec.pipeline.stages = 3;
    }
    const auto expected = ReferenceLosses(job);
    for (const Layout& layout : {Layout{{2, 1, 3}}, Layout{{1, 2, 1}}}) {
      ExpectEqualLosses(job, layout, expected);
    }
  }
}

TEST_P(EqualityTest, WhereTwoReplicasUpdateEachTensorTheLossesAreThoseOfOneProcess) {
  const std::map<std::string, void (*)(api::Spec&)> kinds{
      {"all weights", [](api::Spec&) {}},
      {"LAMB",
       [](api::Spec& spec) {
         spec.optimizer.type = api::OptimizerType::kLAMB;
         spec.optimizer.learningRate = 0.03;
       }},
      {"Muon, tied",
       [](api::Spec& spec) {
         spec.optimizer.type = api::OptimizerType::kMuon;
         spec.model.config.tie_word_embeddings = true;
       }},
      {"adapters", [](api::Spec& spec) {
         spec.model.config.initializer_range = 0.2;
         spec.model.lora = {.rank = 4, .alpha = 16};
         spec.optimizer.learningRate = 5e-3;
       }}};
  for (const auto& [name, choose] : kinds) {
    SCOPED_TRACE(name);
    api::SwarmJob job = Job();
    choose(job.spec);
    const auto expected = ReferenceLosses(job);
    job.spec.pipeline.shardUpdate = api::ShardUpdate::kMoments;
    for (const Layout& layout : {Layout{{4}}, Layout{{3, 1, 2}}}) {
      ExpectEqualLosses(job, layout, expected);
    }
  }
}

TEST_P(EqualityTest, RecomputingChangesNoLoss) {
  const auto expected = ReferenceLosses(Job());
  for (const auto recompute : {api::Recompute::kLayers, api::Recompute::kFull}) {
    SCOPED_TRACE(NameOf(recompute));
    api::SwarmJob job = Job();
    job.spec.pipeline.recompute = recompute;
    ExpectEqualLosses(job, Layout{{2, 1, 3}}, expected);
  }
}

const auto kStepModes = ::testing::Values(api::StepMode::kSync, api::StepMode::kDelayed);

std::string NameOfMode(const ::testing::TestParamInfo<api::StepMode>& info) {
  return info.param == api::StepMode::kSync ? "Sync" : "Delayed";
}

INSTANTIATE_TEST_SUITE_P(StepModes, EqualityTest, kStepModes, NameOfMode);
// make test-heavy
INSTANTIATE_TEST_SUITE_P(Long, LongEqualityTest, kStepModes, NameOfMode);

}  // namespace
}  // namespace swarm::tests
