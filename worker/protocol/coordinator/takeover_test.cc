// A trainer that begins while workers hold a job's state: it asks them, and goes on from their
// answers.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorTakeoverTest : public CoordinatorTest {
 protected:
  CoordinatorTakeoverTest() {
    options_.term = Term(2);
    options_.take_over = true;
    options_.replicas = {1, 1};
    options_.checkpoint_uri = "folder";
  }
  static Member MemberOf(const std::string& name) {
    return {.id = WorkerId(name),
            .incarnation = Incarnation(1),
            .stage = StageIndex(static_cast<std::uint64_t>(name[0] - 'a'))};
  }
  Roster RosterOf(const std::vector<std::string>& names, std::uint64_t epoch = 7) const {
    Roster roster{Term(1), generation_, Epoch(epoch), {}, {}};
    for (const std::string& name : names) roster.members.Own().push_back(MemberOf(name));
    return roster;
  }
  void ComeServing(const std::string& name) {
    Hello hello = HelloOf(name);
    hello.serving = true;
    hello.term = Term(1);
    Say(name, hello);
  }
  /// The answer of a worker that knows that roster and holds the version; changed by `change`.
  Holding HoldingOf(const std::string& name, std::uint64_t version = 5) const {
    return {options_.term, generation_, MemberOf(name), Version(version), roster_, {}, {}};
  }
  static Contribution Folded(std::uint64_t m, double loss = 0) {
    return {Microbatch(m), {Term(1), 10 + m}, loss};
  }
  static CommitRecord RecordOf(std::uint64_t step) {
    return {.step = Step(step), .groups = {{GroupIndex(0), {Term(1), 99}, {3, 3}}}, .loss = 1.5};
  }

  Generation generation_;
  Roster roster_ = RosterOf({"a1", "b1"});
};

TEST_F(CoordinatorTakeoverTest, WhoServesIsAskedWhatItHolds) {
  Create();
  ComeServing("a1");
  EXPECT_EQ(state(), "TakingOver");
  EXPECT_EQ(Told<Takeover>("a1").at(0).term, Term(2));
  Say("a1", HoldingOf("a1"));
  EXPECT_EQ(state(), "TakingOver");  // b1 is in the roster, and has not spoken
  Say("b1", HoldingOf("b1"));
  EXPECT_EQ(state(), "Training");
  EXPECT_TRUE(Happened("TookOver"));
  EXPECT_EQ(step(), 5u);
}

TEST_F(CoordinatorTakeoverTest, WhoseAnswerIsDroppedForItsSilenceHearsOfIt) {
  Create();
  ComeServing("a1");
  Say("a1", HoldingOf("a1"));
  FallSilent("a1");
  // It may live, and it does not ask again: it would wait for a roster for ever.
  EXPECT_TRUE(Told<Shutdown>("a1").at(0).rejoin);
}

TEST_F(CoordinatorTakeoverTest, TheRosterIsANewEpochOfTheNewTerm) {
  Create();
  Say("a1", HoldingOf("a1"));
  Say("b1", HoldingOf("b1"));
  const Roster roster = Told<Roster>("a1").at(0);
  EXPECT_EQ(roster.term, Term(2));
  EXPECT_GT(roster.epoch, Epoch(7));
  EXPECT_EQ(roster.members.size(), 2u);
}

TEST_F(CoordinatorTakeoverTest, WhatIsFoldedCountsAndOnlyTheRestIsIssued) {
  Create();
  Holding a = HoldingOf("a1"), b = HoldingOf("b1");
  a.steps = {{Step(5), 0, {Folded(0)}, {}}};
  b.steps = {{Step(5), 0, {Folded(0, 1), Folded(1, 3)}, {}}};
  Say("a1", a);
  Say("b1", b);
  ASSERT_EQ(Issued().size(), 1u);
  EXPECT_EQ(Issued()[0].key.microbatch, Microbatch(1));
  EXPECT_EQ(Issued()[0].key.attempt.term, Term(2));
  EXPECT_EQ(Issued()[0].end, StageIndex(1));
  EXPECT_EQ(Told<Redirect>("b1").at(0).source.attempt, Folded(1).attempt);
  Fold(1, 0);
  Reduce();
  ASSERT_EQ(step(), 6u);
  EXPECT_EQ(Told<Commit>("a1").at(0).record.loss, 2);  // of (1 + 3) / 2
}

TEST_F(CoordinatorTakeoverTest, WithAuditsWhatIsFoldedIsClearedAndIssuedAgain) {
  options_.exact = true;
  options_.audit_fraction = 0.01;
  Create();
  Holding a = HoldingOf("a1"), b = HoldingOf("b1");
  a.steps = {{Step(5), 0, {Folded(0), Folded(1)}, {}}};
  b.steps = {{Step(5), 0, {Folded(1)}, {}}};
  Say("a1", a);
  Say("b1", b);
  EXPECT_EQ(WhoWasTold<Void>(), (std::set<std::string>{"a1", "b1"}));
  EXPECT_TRUE(Issued().empty());
  AnswerVoids("a1");
  AnswerVoids("b1");
  Pass(milliseconds(100));
  EXPECT_EQ(Issued().size(), 2u);
  FoldAll();
  Reduce();
  EXPECT_EQ(step(), 6u);
}

TEST_F(CoordinatorTakeoverTest, AFrozenStepIsThawedAndSummedUnderANumberOfTheNewTerm) {
  Create();
  Holding a = HoldingOf("a1"), b = HoldingOf("b1");
  const HeldReduce frozen{GroupIndex(0), {Term(1), 77}, {WorkerId("a1")}};
  a.steps = {{Step(5), 0, {Folded(0), Folded(1)}, {frozen}}};
  b.steps = {{Step(5), 0, {Folded(0), Folded(1)}, {}}};
  Say("a1", a);
  Say("b1", b);
  EXPECT_EQ(WhoWasTold<Thaw>(), std::set<std::string>{"a1"});
  EXPECT_TRUE(Issued().empty());
  EXPECT_EQ(Asked("a1", 0).k.term, Term(2));
  Reduce();
  EXPECT_EQ(step(), 6u);
}

TEST_F(CoordinatorTakeoverTest, TheStepsThatWorkersRememberAreAccountedForOnceAndInOrder) {
  Create();
  Holding a = HoldingOf("a1", 6), b = HoldingOf("b1", 6);
  a.records = b.records = {RecordOf(5)};
  a.past = {RecordOf(2), RecordOf(3), RecordOf(4)};
  b.past = {RecordOf(1), RecordOf(2), RecordOf(3), RecordOf(4)};
  Say("a1", a);
  Say("b1", b);
  std::vector<std::uint64_t> steps;
  for (const auto& done : All<order::StepDone>()) steps.push_back(done.record.step.value);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(Told<Commit>("b1").size(), 1u) << "what all have applied is not decided again";
  EXPECT_EQ(step(), 6u);
}

TEST_F(CoordinatorTakeoverTest, TheLastRecordNamesTheHoldersOfParts) {
  options_.replicas = {2, 1};
  options_.part_sizes = {{5, 5}, {}};
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  CommitRecord record = RecordOf(5);
  record.groups[0].holders = {{WorkerId("a1"), WorkerId("a2")}, {WorkerId("a2"), WorkerId("a1")}};
  for (const std::string name : {"a1", "a2", "b1"}) {
    Holding holding = HoldingOf(name, 6);
    holding.records = {record};
    holding.holds = true;
    Say(name, holding);
  }
  EXPECT_EQ(state(), "Training") << "no part is lost";
  FoldAll();
  EXPECT_EQ(Asked("a1", 0).holders, record.groups[0].holders);
}

TEST_F(CoordinatorTakeoverTest, TheRecordThatSomeHaveAppliedIsToldToAllAsItWas) {
  Create();
  Holding a = HoldingOf("a1", 6), b = HoldingOf("b1", 5);
  a.records = {RecordOf(5)};
  b.steps = {{Step(5), 0, {Folded(0), Folded(1)}, {}}};
  Say("a1", a);
  Say("b1", b);
  EXPECT_EQ(step(), 6u);
  const Commit commit = Told<Commit>("b1").at(0);
  EXPECT_EQ(commit.term, Term(2));
  EXPECT_EQ(commit.record, RecordOf(5));
  EXPECT_EQ(commit.keep_from, Step(5));
  EXPECT_EQ(All<order::StepDone>().at(0).record, RecordOf(5));  // its line may be missing
  EXPECT_TRUE(Told<Thaw>("b1").empty());
  EXPECT_EQ(Issued().at(0).key.step, Step(6));
}

TEST_F(CoordinatorTakeoverTest, ARecordThatWasOnlyHeardOfIsADecisionToo) {
  Create();
  Holding b = HoldingOf("b1", 5);
  b.records = {RecordOf(5)};
  Say("a1", HoldingOf("a1", 5));
  Say("b1", b);
  EXPECT_EQ(step(), 6u);
  EXPECT_EQ(Told<Commit>("a1").at(0).record, RecordOf(5));
}

TEST_F(CoordinatorTakeoverTest, WhatAWorkerAppliesWhileOthersHaveYetToAnswerIsKnown) {
  Create();
  Holding a = HoldingOf("a1", 6), b = HoldingOf("b1", 5);
  a.records = b.records = {RecordOf(5)};
  Say("b1", b);
  Apply("b1", 5, {6, 7});
  Say("a1", a);
  ASSERT_EQ(step(), 6u);
  FoldAll();
  Reduce();
  EXPECT_EQ(step(), 7u);
}

TEST_F(CoordinatorTakeoverTest, TheSilentAreEvictedAfterTheDeadline) {
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  Say("a1", HoldingOf("a1"));
  Say("b1", HoldingOf("b1"));
  EXPECT_EQ(state(), "TakingOver");
  Pass(options_.patience.takeover);
  EXPECT_EQ(state(), "Training");
  EXPECT_EQ(Told<Roster>("a1").at(0).members.size(), 2u);
  Listen();
  Say("a2", HoldingOf("a2"));  // too late
  EXPECT_TRUE(Told<Shutdown>("a2").at(0).rejoin);
  ComeServing("a2");
  EXPECT_TRUE(Told<Takeover>("a2").empty());
}

TEST_F(CoordinatorTakeoverTest, ATrainerThatWasStoppedLeavesItsWorkersToTheNext) {
  options_.patience.stopped = Patience().stopped;
  options_.take_over = false;
  StartTraining({1, 1});
  Listen();
  now_ += options_.patience.stopped;
  Lose("a1");  // the workers have given up their connections
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->superseded);
  EXPECT_TRUE(Finished()->was_stopped);
  EXPECT_TRUE(WhoWasTold<Shutdown>().empty());
  EXPECT_FALSE(Happened("StageLost"));
}

TEST_F(CoordinatorTakeoverTest, ATrainerThatIsShortlyStoppedGoesOn) {
  options_.patience.stopped = Patience().stopped;
  options_.take_over = false;
  StartTraining({1, 1});
  Pass(options_.patience.stopped / 2);
  CompleteStep();
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorTakeoverTest, WhoWasEvictedBeforeDoesNotComeBackThroughTheNewTrainer) {
  Create();
  Holding evicted = HoldingOf("a2");
  evicted.roster = RosterOf({"a1", "a2", "b1"}, 6);  // it has not heard of epoch 7
  evicted.steps = {{Step(5), 0, {Folded(0), Folded(1)}, {}}};
  Say("a2", evicted);
  Say("a1", HoldingOf("a1"));
  Say("b1", HoldingOf("b1"));
  EXPECT_EQ(state(), "Training");
  EXPECT_TRUE(Told<Shutdown>("a2").at(0).rejoin);
  EXPECT_EQ(Told<Roster>("a1").at(0).members.size(), 2u);
  EXPECT_EQ(Issued().size(), 2u);  // what it has folded counts for nothing
}

TEST_F(CoordinatorTakeoverTest, TheRosterOfTheNewestEpochIsTheRosterWhoeverReportsIt) {
  Create();
  Holding behind = HoldingOf("b1");
  behind.roster = RosterOf({"a1", "a2", "b1"}, 6);
  Say("b1", behind);
  Say("a1", HoldingOf("a1"));
  EXPECT_EQ(state(), "Training");  // a2 is not waited for
}

TEST_F(CoordinatorTakeoverTest, WhatTwoHaveFoldedIsVoidedAtOneOfThem) {
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  for (const char* name : {"a1", "a2", "b1"}) {
    Holding holding = HoldingOf(name);
    holding.steps = {{Step(5), 0, {Folded(0)}, {}}};
    Say(name, holding);
  }
  EXPECT_EQ(WhoWasTold<Void>(), std::set<std::string>{"a2"});
  AnswerVoids("a2");
  FoldAll();
  Reduce();
  EXPECT_EQ(step(), 6u);
}

TEST_F(CoordinatorTakeoverTest, AStepThatWasScaledDownStaysSo) {
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  for (const char* name : {"a1", "a2", "b1"}) {
    Holding holding = HoldingOf(name);
    if (std::string(name) == "a1") holding.steps = {{Step(5), 2, {Folded(0)}, {}}};
    Say(name, holding);
  }
  EXPECT_EQ(WhoWasTold<Void>(), std::set<std::string>{"a2"});
  EXPECT_EQ(Told<Void>("a2").at(0).level, 2u);
  AnswerVoids("a2");
  FoldAll();
  EXPECT_EQ(Asked("a1", 0).level, 2u);
}

TEST_F(CoordinatorTakeoverTest, InDelayedModeBothStepsInProgressAreAdopted) {
  options_.delayed = true;
  Create();
  for (const char* name : {"a1", "b1"}) {
    Holding holding = HoldingOf(name);
    holding.steps = {{Step(5), 0, {Folded(0), Folded(1)}, {}}, {Step(6), 0, {Folded(0)}, {}}};
    Say(name, holding);
  }
  ASSERT_EQ(Issued().size(), 1u);
  EXPECT_EQ(Issued()[0].key.step, Step(6));
  EXPECT_EQ(Issued()[0].key.microbatch, Microbatch(1));
}

TEST_F(CoordinatorTakeoverTest, WhileWorkersComeOthersAreOnTheirWay) {
  const std::vector<std::string> names = {"a1", "a2", "a3", "b1", "b2", "b3"};
  roster_ = RosterOf(names);
  Create();
  for (const std::string& name : names) {
    Pass(std::chrono::milliseconds(1500));
    EXPECT_EQ(state(), "TakingOver");
    Say(name, HoldingOf(name));
  }
  EXPECT_EQ(state(), "Training");
  EXPECT_EQ(Told<Roster>("a1").at(0).members.size(), 6u);
}

TEST_F(CoordinatorTakeoverTest, ThoseThatComeDoNotHoldUpTheJobForEver) {
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  for (const char* name : {"a1", "b1"}) Say(name, HoldingOf(name));
  const Timepoint begin = now_;
  for (int i = 0; state() == "TakingOver"; ++i) {  // strangers to the roster
    ASSERT_LT(i, 100);
    ComeServing("x" + std::to_string(i));
    Pass(std::chrono::seconds(1));
  }
  EXPECT_GE(now_ - begin, options_.patience.takeover_last);
}

TEST_F(CoordinatorTakeoverTest, WhereAStageDidNotAnswerTheJobGoesBack) {
  options_.checkpoint_interval_steps = 1;
  Create();
  Say("a1", HoldingOf("a1"));
  Pass(options_.patience.takeover);
  EXPECT_EQ(state(), "TakingOver") << "the only one of a stage is worth a longer wait";
  Pass(options_.patience.takeover_last);
  EXPECT_TRUE(Happened("StageLost"));
  EXPECT_TRUE(WhoWasTold<WriteCheckpoint>().empty());
  Come("b1", 2);
  EXPECT_EQ(All<order::BeginGeneration>().at(0).generation, Generation(1));
}

TEST_F(CoordinatorTakeoverTest, WhereNobodyHoldsAnythingTheJobBeginsAtItsLastCheckpoint) {
  Create();
  Come("a1");
  Come("b1");
  EXPECT_TRUE(All<order::BeginGeneration>().empty());
  Pass(options_.patience.takeover_last);
  EXPECT_EQ(All<order::BeginGeneration>().size(), 1u);
  BeginGeneration(1, 3);
  Load("a1");
  Load("b1");
  EXPECT_EQ(step(), 3u);
  CompleteStep();
}

TEST_F(CoordinatorTakeoverTest, AGenerationThatWasBegunIsNotGoneBackBehind) {
  options_.generation = Generation(2);  // durable; the trainer before was lost while all loaded
  Create();
  generation_ = Generation(1);
  roster_ = RosterOf({"a1", "b1"});
  for (const char* name : {"a1", "b1"}) Say(name, HoldingOf(name));
  Pass(options_.patience.takeover_last);
  EXPECT_NE(state(), "Training");
  EXPECT_TRUE(WhoWasTold<Roster>().empty());
  for (const char* name : {"a1", "b1"}) EXPECT_TRUE(Told<Shutdown>(name).at(0).rejoin);
}

TEST_F(CoordinatorTakeoverTest, WhereAllAreBehindTheLastCheckpointTheJobBeginsThere) {
  options_.first_version = Version(6);  // its writer is gone, and with it the record of step 5
  Create();
  for (const char* name : {"a1", "b1"}) Say(name, HoldingOf(name, 5));
  EXPECT_NE(state(), "Training");
  for (const char* name : {"a1", "b1"}) EXPECT_TRUE(Told<Shutdown>(name).at(0).rejoin);
  for (const char* name : {"a1", "b1"}) Come(name, 2);
  EXPECT_EQ(All<order::BeginGeneration>().size(), 1u);
  BeginGeneration(1, 6);
  Load("a1");
  Load("b1");
  EXPECT_EQ(step(), 6u);
  CompleteStep();
}

TEST_F(CoordinatorTakeoverTest, AnAnswerToATakeoverOfAnotherTermIsNone) {
  Create();
  for (const char* name : {"a1", "b1"}) {
    Holding holding = HoldingOf(name);
    holding.term = Term(1);
    Say(name, holding);
  }
  EXPECT_EQ(state(), "TakingOver");
}

TEST_F(CoordinatorTakeoverTest, ATrainerOfALowerTermThanTheWorkersPromisedEnds) {
  Create();
  Hello hello = HelloOf("a1");
  hello.serving = true;
  hello.term = Term(3);
  Say("a1", hello);
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->superseded);
}

TEST_F(CoordinatorTakeoverTest, WhoIsLostAfterItsAnswerIsNotAdopted) {
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  Say("a2", HoldingOf("a2"));
  Lose("a2");
  Say("a1", HoldingOf("a1"));
  Say("b1", HoldingOf("b1"));
  Pass(options_.patience.takeover);
  EXPECT_EQ(Told<Roster>("a1").at(0).members.size(), 2u);
}

TEST_F(CoordinatorTakeoverTest, WhoIsStartedAgainMeanwhileIsNotWhatItWas) {
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  Say("a2", HoldingOf("a2"));
  Come("a2", 2);
  Say("a1", HoldingOf("a1"));
  Say("b1", HoldingOf("b1"));
  Pass(options_.patience.takeover);
  EXPECT_EQ(state(), "Training");
  EXPECT_EQ(Told<Roster>("a1").at(0).members.size(), 2u);
}

TEST_F(CoordinatorTakeoverTest, AnExactJobKeepsItsNumericClass) {
  options_.exact = true;
  Create();
  ComeServing("a1");
  ComeServing("b1");
  Say("a1", HoldingOf("a1"));
  Say("b1", HoldingOf("b1"));
  Hello hello = HelloOf("new");
  hello.numeric_class = "nearly so";
  Say("new", hello);
  EXPECT_TRUE(Happened("WorkerRefused"));
}

TEST_F(CoordinatorTakeoverTest, ANewcomerDoesNotDecideTheNumericClassOfThoseWhoServe) {
  options_.exact = true;
  Create();
  Hello hello = HelloOf("new");
  hello.numeric_class = "nearly so";
  Say("new", hello);
  ComeServing("a1");
  ComeServing("b1");
  EXPECT_EQ(WhoWasTold<Takeover>(), (std::set<std::string>{"a1", "b1"}));
}

TEST_F(CoordinatorTakeoverTest, NorOfThoseOfWhomNobodyHasSpokenYet) {
  options_.exact = true;
  Create();
  ComeServing("a1");
  Hello hello = HelloOf("new");
  hello.numeric_class = "nearly so";
  Say("new", hello);
  EXPECT_TRUE(Happened("WorkerRefused"));
}

TEST_F(CoordinatorTakeoverTest, WhoIsFarBehindCatchesUpBeforeItServes) {
  roster_ = RosterOf({"a1", "a2", "b1"});
  Create();
  Holding a = HoldingOf("a1", 8), slow = HoldingOf("a2", 5);
  a.records = {RecordOf(7)};
  slow.records = {RecordOf(5), RecordOf(6)};
  Say("a1", a);
  Say("a2", slow);
  Say("b1", HoldingOf("b1", 8));
  EXPECT_EQ(step(), 8u);
  EXPECT_EQ(Told<Commit>("a2").size(), 3u);
  for (const protocol::Forward& frame : Issued()) EXPECT_EQ(frame.hops[0].worker.value, "a1");
}

TEST_F(CoordinatorTakeoverTest, WhatWasDueWhenTheTrainerWasLostIsDoneByItsSuccessor) {
  options_.checkpoint_interval_steps = 5;
  Create();
  Say("a1", HoldingOf("a1"));
  Say("b1", HoldingOf("b1"));
  EXPECT_EQ(WhoWasTold<WriteCheckpoint>(), (std::set<std::string>{"a1", "b1"}));
}

}  // namespace
}  // namespace swarm::protocol
