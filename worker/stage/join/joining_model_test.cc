// A worker that joins the replicas of a real stage ends with their state, bit for bit.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "worker/model/testing/models.h"
#include "worker/stage/join/donor.h"
#include "worker/stage/join/joining.h"

namespace swarm::stage {
namespace {

using checkpoint::PiecedBytes;
using model::testing::Batch;
using model::testing::Pipeline;
using protocol::GroupIndex;
using protocol::Step;
using protocol::Version;
using protocol::WorkerId;

/// A pipeline of two stages that trains; the replicas of its last stage, which shares the
/// embedding, as donors; and one that joins them.
class JoiningModelTest : public ::testing::TestWithParam<api::Accumulation> {
 protected:
  JoiningModelTest() : pipeline_(Options(), 2) {
    pipeline_.InitRandom(7);
    model::StageOptions options = Options();
    options.stage = 1;
    options.stage_count = 2;
    joiner_ = *model::Stage::Create(options);
    for (const char* name : {"ada", "bob"}) {
      donors_.try_emplace(
          WorkerId(name), &account_,
          [this](protocol::Generation, Step step, GroupIndex group, const protocol::Attempt&) {
            const auto found = gradients_.find({step, group});
            return found == gradients_.end() ? nullptr : found->second;
          });
    }
  }

  model::StageOptions Options() const {
    model::StageOptions options;
    options.config = model::testing::SmallConfig();
    options.config.tie_word_embeddings = true;
    options.step_mode = api::StepMode::kDelayed;
    options.accumulation = GetParam();
    return options;
  }

  model::Stage& replica() { return pipeline_.stage(1); }

  /// Trains one step of all, keeps its reduced gradients, and tells the record.
  protocol::CommitRecord TrainOneStep(std::uint64_t step, bool skip = false) {
    const Batch batch(2, 9, step, Options().config.vocab_size);
    pipeline_.Train(step, 0, Version(step == 0 ? 0 : step - 1), batch.tokens);
    protocol::CommitRecord record{
        .step = Step(step), .clip = 0.5, .learning_rate = 1e-2, .skip = skip};
    for (const auto& [group, sum] : pipeline_.Reduce(step)) {
      const auto pieced = std::make_shared<const PiecedBytes>(std::vector<Bytes>{sum});
      gradients_[{Step(step), GroupIndex(group)}] = pieced;
      record.groups.push_back({GroupIndex(group), {}, pieced->digest()});
    }
    pipeline_.Apply(step, record.clip, record.learning_rate, skip);
    return record;
  }

  SendFetch Sender() {
    return [this](const WorkerId& to, const protocol::Fetch& fetch) {
      asked_.emplace_back(to, fetch);
    };
  }
  template <typename Joining>
  void Run(Joining& fetch) {
    fetch.OnTick({});
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      const auto [to, request] = asked_[i];
      const Donor::Answer answer = donors_.at(to).OnFetch(request);
      fetch.OnFetched(to, answer.message, answer.payload, {});
    }
    asked_.clear();
  }

  void Join(Version version) {
    auto cut = checkpoint::CutState(replica().Snapshot());
    ASSERT_TRUE(cut.ok()) << cut.status().ToString();
    const auto state = std::make_shared<const PiecedBytes>(*std::move(cut));
    ASSERT_EQ(state->digest(), replica().StateDigest());
    protocol::Welcome welcome{.version = version};
    welcome.state = state->digest();
    for (auto& [id, donor] : donors_) {
      donor.Pin({}, version, state);
      welcome.donors.emplace_back().id = id;
    }
    Status loaded = Unavailable("not fetched");
    StateFetch fetch(welcome, Sender(), [&](Result<checkpoint::TensorLookup> tensors) {
      loaded = tensors.ok() ? joiner_->Load(*tensors, version, true) : tensors.status();
    });
    Run(fetch);
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  }

  void Replay(const protocol::CommitRecord& record) {
    std::vector<GradientFetch::Group> groups;
    const std::uint64_t element_bytes = GetParam() == api::Accumulation::kExact ? 8 : 4;
    for (const model::ParameterGroup& group : joiner_->groups()) {
      groups.push_back({group.index, group.count * element_bytes});
    }
    Status applied = Unavailable("not fetched");
    GradientFetch fetch(record, groups, {WorkerId("ada"), WorkerId("bob")}, Sender(),
                        [&](Result<std::vector<Bytes>> gradients) {
                          applied = gradients.status();
                          if (!applied.ok()) return;
                          applied = joiner_->Apply(*gradients, record.clip, record.learning_rate,
                                                   record.skip);
                        });
    Run(fetch);
    ASSERT_TRUE(applied.ok()) << applied.ToString();
  }

  Pipeline pipeline_;
  std::unique_ptr<model::Stage> joiner_;
  MemoryAccount account_;
  std::map<WorkerId, Donor> donors_;
  std::map<std::pair<Step, GroupIndex>, std::shared_ptr<const PiecedBytes>> gradients_;
  std::vector<std::pair<WorkerId, protocol::Fetch>> asked_;
};

TEST_P(JoiningModelTest, TheFetchedStateIsThatOfTheReplicas) {
  TrainOneStep(0);
  TrainOneStep(1);
  Join(Version(2));
  EXPECT_EQ(joiner_->version(), Version(2));
  EXPECT_EQ(joiner_->StateDigest(), replica().StateDigest());
}

TEST_P(JoiningModelTest, ReplayedGradientsCatchUpWithTheOthers) {
  TrainOneStep(0);
  TrainOneStep(1);
  Join(Version(2));
  std::vector<protocol::CommitRecord> meantime;
  meantime.push_back(TrainOneStep(2));
  meantime.push_back(TrainOneStep(3, /*skip=*/true));
  meantime.push_back(TrainOneStep(4));
  EXPECT_NE(joiner_->StateDigest(), replica().StateDigest());
  for (const protocol::CommitRecord& record : meantime) Replay(record);
  EXPECT_EQ(joiner_->version(), Version(5));
  EXPECT_EQ(joiner_->StateDigest(), replica().StateDigest());
}

TEST_P(JoiningModelTest, AJoinerCanBeginAtTheInitialWeights) {
  Join(Version(0));
  Replay(TrainOneStep(0));
  EXPECT_EQ(joiner_->StateDigest(), replica().StateDigest());
}

INSTANTIATE_TEST_SUITE_P(Accumulations, JoiningModelTest,
                         ::testing::Values(api::Accumulation::kFloat, api::Accumulation::kExact));

}  // namespace
}  // namespace swarm::stage
