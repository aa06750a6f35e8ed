// Audits: microbatches that other workers execute a second time.
#include "base/rng.h"
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

using Event = TaskReport::Event;

/// Two microbatches a step, all audited. Workers report digests, as functions of what they were
/// given; those in `wrong_` give something else backward, those in `wrong_forward_` forward.
class AuditsTest : public CoordinatorTest {
 protected:
  AuditsTest() {
    options_.exact = true;
    options_.audit_fraction = 1;
    options_.audit_seed = 3;
  }

  /// The executions for audits that were issued since the last Listen.
  std::vector<protocol::Forward> Runs() const {
    std::vector<protocol::Forward> runs;
    for (protocol::Forward& frame : Issued()) {
      if (!frame.hops.front().fold) runs.push_back(std::move(frame));
    }
    return runs;
  }
  /// The route's workers execute the microbatch from the first forward to the last backward.
  void Execute(const std::vector<Hop>& hops, std::uint64_t step, std::uint64_t m, Event last) {
    std::vector<std::uint64_t> inputs;
    std::uint64_t x = 100 + m;
    for (std::uint64_t s = 0; s < hops.size(); ++s) {
      inputs.push_back(x);
      x = MixAll(x, s, wrong_forward_.count(hops[s].worker.value));
      Tell(hops[s], step, m, s, Event::kForwarded, {inputs[s], x});
    }
    for (std::uint64_t s = hops.size(), g = x; s-- > 0;) {
      const std::uint64_t input = MixAll(inputs[s], g);
      g = MixAll(input, Errs(hops[s], step, m));
      Tell(hops[s], step, m, s, last, {input, g});
    }
  }
  void Execute(const protocol::Forward& run) {
    Execute(run.hops, run.key.step.value, run.key.microbatch.value, Event::kPropagated);
  }
  void ExecuteRuns() {
    const std::vector<protocol::Forward> runs = Runs();
    Listen();
    for (const protocol::Forward& run : runs) Execute(run);
  }
  /// The microbatch of the open step is folded by its owners.
  void FoldRow(std::uint64_t m) {
    std::vector<Hop> hops;
    for (std::uint64_t s = 0; s < options_.replicas.size(); ++s) {
      hops.push_back({WorkerId(Owner(m, s)), Key(m, s).attempt});
    }
    Execute(hops, step(), m, Event::kFolded);
  }
  void FoldRows() {
    for (std::uint64_t m = 0; m < options_.microbatches; ++m) FoldRow(m);
  }
  void Tell(const Hop& hop, std::uint64_t step, std::uint64_t m, std::uint64_t stage, Event event,
            const TaskDigests& digests) {
    const TaskKey key{coordinator().generation(), Step(step), Microbatch(m), StageIndex(stage),
                      hop.attempt};
    Say(hop.worker.value,
        Progress{{{.key = key, .event = event, .loss = 2, .seconds = 1, .digests = digests}}});
  }
  std::vector<std::string> Told(EventKind kind) const {
    std::vector<std::string> texts;
    for (const order::Event& event : All<order::Event>()) {
      if (event.kind == kind) texts.push_back(event.text);
    }
    return texts;
  }
  JobCounts Counts() { return coordinator().Status().counts; }
  bool IsMember(const std::string& name) {
    const auto members = coordinator().Members();
    return std::ranges::find(members, WorkerId(name)) != members.end();
  }

  /// Until the worker is no member any more.
  void ExecuteRunsUntilGone(const std::string& name) {
    for (int i = 0; i < 4 && IsMember(name); ++i) ExecuteRuns();
    ASSERT_FALSE(IsMember(name));
  }
  bool Errs(const Hop& hop, std::uint64_t step, std::uint64_t m) const {
    return wrong_.contains(hop.worker.value) && MixAll(step, m, errs_every_) % errs_every_ == 0;
  }

  std::set<std::string> wrong_, wrong_forward_;
  std::uint64_t errs_every_ = 1;  ///< those in wrong_: in one backward of so many
};

TEST_F(AuditsTest, WithoutAuditsNothingIsExecutedTwice) {
  options_.audit_fraction = 0;
  StartTraining({2, 2});
  EXPECT_TRUE(Runs().empty());
  FoldRows();
  Reduce();
  EXPECT_EQ(step(), 1u);
}

TEST_F(AuditsTest, OtherWorkersExecuteTheMicrobatchAndFoldNothing) {
  StartTraining({2, 2});
  Pass(milliseconds(100));
  ASSERT_EQ(Runs().size(), 2u);
  for (const protocol::Forward& run : Runs()) {
    for (std::uint64_t s = 0; s < 2; ++s) {
      EXPECT_FALSE(run.hops[s].fold);
      EXPECT_NE(run.hops[s].worker.value, Owner(run.key.microbatch.value, s));
    }
    EXPECT_EQ(run.end, StageIndex(2));
    EXPECT_EQ(run.first, StageIndex(0));
  }
}

TEST_F(AuditsTest, TheCommitWaitsForTheAuditsAndForNothingElse) {
  StartTraining({2, 2});
  Pass(milliseconds(100));
  FoldRows();
  Reduce();
  EXPECT_EQ(step(), 0u);
  ExecuteRuns();
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Counts().audits, 2u);
  EXPECT_EQ(Counts().audits_wrong, 0u);
  EXPECT_EQ(Counts().audits_undecided, 0u);
}

TEST_F(AuditsTest, AuditsThatAreDoneBeforeTheFoldsDelayNothing) {
  StartTraining({2, 2});
  Pass(milliseconds(100));
  ExecuteRuns();
  FoldRows();
  Reduce();
  EXPECT_EQ(step(), 1u);
}

TEST_F(AuditsTest, AThirdReplicaConvictsTheOneThatIsWrong) {
  StartTraining({1, 3});
  Pass(milliseconds(100));
  wrong_ = {Owner(0, 1)};
  FoldRow(0);
  ExecuteRuns();                 // two differ
  ASSERT_EQ(Runs().size(), 1u);  // so the third is asked
  EXPECT_TRUE(IsMember(*wrong_.begin()));
  ExecuteRuns();
  EXPECT_FALSE(IsMember(*wrong_.begin()));
  EXPECT_EQ(Counts().audits_wrong, 1u);
  ASSERT_EQ(CoordinatorTest::Told<Shutdown>(*wrong_.begin()).size(), 1u);
  EXPECT_FALSE(CoordinatorTest::Told<Shutdown>(*wrong_.begin())[0].rejoin);
}

TEST_F(AuditsTest, TheAuditorMayBeTheOneThatIsWrong) {
  StartTraining({1, 3});
  Pass(milliseconds(100));
  wrong_ = {Runs().front().hops[1].worker.value};
  const std::string wrong = *wrong_.begin();
  for (const protocol::Forward& run : Runs()) {
    if (run.key.microbatch == Microbatch(0)) Execute(run);
  }
  Listen();
  FoldRow(0);
  ASSERT_EQ(Runs().size(), 1u);
  ExecuteRuns();
  EXPECT_FALSE(IsMember(wrong));
  EXPECT_EQ(Counts().evictions, 1u);
}

TEST_F(AuditsTest, AConvictionBeginsTheOpenStepAgainWithTheOthers) {
  StartTraining({1, 3});
  Pass(milliseconds(100));
  wrong_ = {Owner(0, 1)};
  FoldRows();
  ExecuteRunsUntilGone(*wrong_.begin());
  EXPECT_TRUE(Happened("StepRepeated"));
  // What stage 0 has folded may follow from a wrong gradient, so it is void, too.
  EXPECT_TRUE(WhoWasTold<Void>().contains("a1"));
  for (const std::string name : {"a1", "b1", "b2", "b3"}) {
    if (IsMember(name)) AnswerVoids(name);
  }
  Pass(milliseconds(100));
  FoldRows();
  ExecuteRuns();
  Reduce();
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Counts().evictions, 1u);
}

TEST_F(AuditsTest, AWrongForwardBlamesNobodyBehindIt) {
  StartTraining({3, 3});
  Pass(milliseconds(100));
  wrong_forward_ = {Owner(0, 0)};
  FoldRow(0);
  ExecuteRunsUntilGone(*wrong_forward_.begin());
  EXPECT_EQ(Counts().evictions, 1u);
}

TEST_F(AuditsTest, AConvictHasNoPlaceInTheJobAgain) {
  StartTraining({1, 3});
  Pass(milliseconds(100));
  wrong_ = {Owner(0, 1)};
  FoldRow(0);
  ExecuteRunsUntilGone(*wrong_.begin());
  Listen();
  Come(*wrong_.begin(), 2);
  EXPECT_FALSE(IsMember(*wrong_.begin()));
  EXPECT_TRUE(Happened("WorkerRefused"));
}

TEST_F(AuditsTest, TheEventSaysSinceWhichStepTheConvictIsSuspect) {
  options_.microbatches = 6;
  StartTraining({1, 3});
  FoldRows();
  for (int i = 0; i < 3; ++i) ExecuteRuns();
  Reduce();
  Apply();
  ASSERT_EQ(step(), 1u);
  wrong_ = {Owner(0, 1)};
  FoldRows();
  ExecuteRunsUntilGone(*wrong_.begin());
  const std::string text = Told(EventKind::kAuditDiffers).back();
  EXPECT_TRUE(text.starts_with(*wrong_.begin() + ": an audit found its backward of microbatch "));
  EXPECT_TRUE(
      text.ends_with(" of step 1 at stage 1 to be wrong; what it has computed since step 0"
                     " is suspect"))
      << text;
}

TEST_F(AuditsTest, AWorkerThatErrsNowAndThenIsFoundAsSoonAsTheFractionPredicts) {
  options_.microbatches = 20;
  options_.in_flight = {.most = 1000, .least = 1000};
  options_.audit_fraction = 0.1;
  errs_every_ = 10;
  // Of 20 microbatches a step, 2 are audited. Of these a worker of three computes 2/3 first, and
  // 2/3 again; one in ten of its results is wrong. With 0.13 a step 95 % are found in 22 steps.
  constexpr std::uint64_t kSteps = 23, kSeeds = 20;
  std::uint64_t found = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    options_.audit_seed = seed;
    StartTraining({3});
    wrong_ = {"a2"};
    while (step() < kSteps && IsMember("a2")) {
      const std::uint64_t now = step();
      FoldRows();
      for (int i = 0; i < 3; ++i) ExecuteRuns();
      if (!IsMember("a2")) break;
      Reduce();
      ASSERT_EQ(step(), now + 1);
      Apply();
    }
    found += IsMember("a2") ? 0 : 1;
    EXPECT_TRUE(IsMember("a1") && IsMember("a3"));
    EXPECT_EQ(Counts().evictions, IsMember("a2") ? 0u : 1u);
    Listen();
  }
  EXPECT_GE(found, 16u);  // 19 are expected, with a standard deviation of 1
}

TEST_F(AuditsTest, BetweenTwoReplicasNobodyIsEvictedAndTheStepGoesOn) {
  StartTraining({1, 2});
  Pass(milliseconds(100));
  wrong_ = {Owner(0, 1)};
  FoldRows();
  ExecuteRuns();
  EXPECT_TRUE(Happened("AuditDiffers"));
  Reduce();
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Counts().evictions, 0u);
  EXPECT_GT(Counts().audits_undecided, 0u);
}

TEST_F(AuditsTest, SuspicionRaisesAWorkersShare) {
  options_.microbatches = 200;
  options_.in_flight = {.most = 1000, .least = 1000};
  options_.audit_fraction = 0.02;
  StartTraining({2});
  Pass(milliseconds(100));
  const std::size_t before = Runs().size();
  EXPECT_LT(before, 20u);
  ASSERT_GT(before, 0u);
  wrong_ = {"a1"};
  FoldRows();
  ExecuteRuns();
  Listen();
  Reduce();
  Apply();
  Pass(milliseconds(100));
  ASSERT_EQ(step(), 1u);
  EXPECT_GT(Runs().size(), 3 * before);
}

TEST_F(AuditsTest, WhereAStageHasOneReplicaAloneNothingIsAudited) {
  StartTraining({1, 1});
  Pass(milliseconds(100));
  EXPECT_TRUE(Runs().empty());
  FoldRows();
  Reduce();
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Counts().audits, 0u);
}

TEST_F(AuditsTest, AnExecutionThatIsLostWithItsWorkerIsIssuedAgain) {
  options_.microbatches = 1;
  StartTraining({1, 3});
  Pass(milliseconds(100));
  FoldRow(0);
  ASSERT_EQ(Runs().size(), 1u);
  const std::string auditor = Runs().front().hops[1].worker.value;
  Listen();
  Lose(auditor);
  Pass(milliseconds(100));
  ASSERT_EQ(Runs().size(), 1u);
  EXPECT_NE(Runs().front().hops[1].worker.value, auditor);
  EXPECT_NE(Runs().front().hops[1].worker.value, Owner(0, 1));
}

TEST_F(AuditsTest, AnExecutionThatMakesNoProgressIsGivenUpAndNoStepWaitsForEver) {
  StartTraining({1, 2});
  Pass(milliseconds(100));
  FoldRows();
  Reduce();
  for (int i = 0; i < 20 && step() == 0; ++i) Pass(seconds(200));
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Counts().audits_undecided, 2u);
}

TEST_F(AuditsTest, TheOwnerMayVanishDuringItsAudit) {
  StartTraining({1, 3});
  Pass(milliseconds(100));
  Lose(Owner(0, 1));
  Pass(milliseconds(100));
  FoldRows();
  for (int i = 0; i < 4; ++i) {
    ExecuteRuns();
    Pass(milliseconds(100));
  }
  Reduce();
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Counts().audits_wrong, 0u);
}

TEST_F(AuditsTest, WhatIsComputedAgainAfterItsAuditIsComparedWithWhatOthersHadBefore) {
  options_.microbatches = 1;
  StartTraining({1, 4});
  Pass(milliseconds(100));
  FoldRow(0);
  ExecuteRuns();  // the audit agrees
  ASSERT_EQ(Counts().audits, 1u);
  Lose(Owner(0, 1));
  Pass(milliseconds(100));
  wrong_ = {Owner(0, 1)};
  FoldRow(0);
  EXPECT_EQ(Counts().audits_wrong, 1u);
  EXPECT_FALSE(IsMember(*wrong_.begin()));
  EXPECT_TRUE(Happened("StepRepeated"));
}

TEST_F(AuditsTest, AnAuditThatHasEndedIsCountedOnceAndHoldsNoCommit) {
  options_.microbatches = 1;
  StartTraining({1, 4});
  Pass(milliseconds(100));
  FoldRow(0);
  ExecuteRuns();
  Lose(Owner(0, 1));
  Pass(milliseconds(100));
  FoldRow(0);  // by another, which agrees
  Reduce();
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Counts().audits, 1u);
  EXPECT_EQ(Counts().audits_undecided, 0u);
}

TEST_F(AuditsTest, AConvictThatIsGoneAlreadyStillBeginsTheStepAgain) {
  options_.microbatches = 1;
  StartTraining({1, 3});
  Pass(milliseconds(100));
  wrong_ = {Owner(0, 1)};
  FoldRow(0);
  Lose(*wrong_.begin());
  FoldRow(0);  // by another
  for (int i = 0; i < 3 && WhoWasTold<Void>().empty(); ++i) {
    ExecuteRuns();
    Pass(milliseconds(100));
  }
  EXPECT_FALSE(WhoWasTold<Void>().empty());
  EXPECT_EQ(Counts().audits_wrong, 1u);
}

}  // namespace
}  // namespace swarm::protocol
