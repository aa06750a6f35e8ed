// A replica without departures: tasks, folds, reduces, commits, copies of its state.
#include "worker/protocol/replica/replica.h"

#include <gtest/gtest.h>

#include "worker/protocol/replica/testing/replica_under_test.h"

namespace swarm::protocol {
namespace {

using Event = TaskReport::Event;

// ---- execution ----

TEST_F(ReplicaTest, AMicrobatchGoesForwardAndBackwardAndIsFoldedOnce) {
  const Forward frame = Frame(0);
  EXPECT_TRUE(Find<action::RunForward>(replica().OnForward(kBelow, frame))->keep_graph);
  const Actions forwarded = replica().OnForwardDone(frame.key, 0, {});
  const auto send = Find<action::SendForward>(forwarded);
  ASSERT_TRUE(send);
  EXPECT_EQ(send->to, kAbove);
  EXPECT_EQ(send->message.key, At(frame.key, 2, 201));
  EXPECT_EQ(Reported(forwarded), Event::kForwarded);
  EXPECT_TRUE(Find<action::RunBackward>(Backward(frame)));
  const Actions done = replica().OnBackwardDone(frame.key, {});
  const auto back = Find<action::SendBackward>(done);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->to, kBelow);
  EXPECT_EQ(back->message.key, At(frame.key, 0, 101));
  EXPECT_EQ(Find<action::FoldGradients>(done)->key, frame.key);
  EXPECT_EQ(Reported(done), Event::kFolded);
  EXPECT_EQ(Folded(), std::vector{Microbatch(0)});
}

TEST_F(ReplicaTest, TheLastStageGoesBackwardAtOnceAndReportsTheLoss) {
  ReplicaOptions options = DefaultOptions();
  options.stages = 2;
  Begin(options);
  Forward frame = Frame(0);
  frame.hops.pop_back();
  (void)replica().OnForward(kBelow, frame);
  const Actions forwarded = replica().OnForwardDone(frame.key, 2.5, {});
  EXPECT_TRUE(Find<action::RunBackward>(forwarded));
  EXPECT_FALSE(Find<action::SendForward>(forwarded));
  const auto progress = Told<Progress>(replica().OnBackwardDone(frame.key, {}));
  EXPECT_EQ(progress->reports.at(0).loss, 2.5);
}

TEST_F(ReplicaTest, APassEndsWhereItsFrameSays) {
  Forward frame = Frame(0);
  frame.end = StageIndex(2);
  EXPECT_FALSE(Find<action::SendForward>(RunForward(frame)));
}

TEST_F(ReplicaTest, TheFirstStageOfAPassReturnsItsGradientToWhomTheFrameNames) {
  Forward frame = Frame(0);
  frame.first = StageIndex(1);
  frame.upstream = {kOther, {Term(1), 77}};
  const auto back = Find<action::SendBackward>(Run(frame));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->to, kOther);
  EXPECT_EQ(back->message.key, At(frame.key, 0, 77));
}

TEST_F(ReplicaTest, WhereNobodyWaitsForTheGradientNobodyGetsIt) {
  Forward frame = Frame(0);
  frame.first = StageIndex(1);
  const Actions done = Run(frame);
  EXPECT_FALSE(Find<action::SendBackward>(done));
  EXPECT_TRUE(Find<action::FoldGradients>(done));
}

TEST_F(ReplicaTest, BelowTheFirstStageOfAPassNothingIsKeptForABackward) {
  Forward frame = Again(0, 9);
  frame.first = StageIndex(2);
  EXPECT_FALSE(Find<action::RunForward>(replica().OnForward(kBelow, frame))->keep_graph);
  const Actions done = replica().OnForwardDone(frame.key, 0, {});
  EXPECT_EQ(Find<action::SendForward>(done)->to, kAbove);
  EXPECT_TRUE(Find<action::DropTask>(done));
  EXPECT_EQ(Why(Backward(frame)), "no such task");
}

TEST_F(ReplicaTest, APropagateOnlyTaskNeverFolds) {
  const Actions done = Run(Again(0, 9));
  EXPECT_TRUE(Find<action::SendBackward>(done));
  EXPECT_FALSE(Find<action::FoldGradients>(done));
  EXPECT_EQ(Reported(done), Event::kPropagated);
  EXPECT_TRUE(Folded().empty());
}

TEST_F(ReplicaTest, WhoHasFoldedMayStillRecompute) {
  Fold(Frame(0));
  EXPECT_EQ(Reported(Run(Again(0, 9))), Event::kPropagated);
  EXPECT_EQ(Folded(), std::vector{Microbatch(0)});
}

TEST_F(ReplicaTest, DuplicatesAndSecondAttemptsOfAFoldedMicrobatchAreRefused) {
  const Forward frame = Frame(0);
  (void)RunForward(frame);
  EXPECT_EQ(Why(replica().OnForward(kBelow, frame)), "duplicate");
  (void)Backward(frame);
  EXPECT_EQ(Why(Backward(frame)), "duplicate");
  (void)replica().OnBackwardDone(frame.key, {});
  EXPECT_EQ(Why(replica().OnForward(kBelow, frame)), "duplicate");
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0, 9))), "folded already");
}

TEST_F(ReplicaTest, ALaterAttemptClosesTheEarlierOne) {
  const Forward one = Frame(0, 1), two = Frame(0, 2);
  (void)RunForward(one);
  (void)Backward(one);
  EXPECT_EQ(Find<action::DropTask>(replica().OnForward(kBelow, two))->key, one.key);
  EXPECT_FALSE(Find<action::FoldGradients>(replica().OnBackwardDone(one.key, {})));
  (void)replica().OnForwardDone(two.key, 0, {});
  (void)Backward(two);
  EXPECT_TRUE(Find<action::FoldGradients>(replica().OnBackwardDone(two.key, {})));
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(1, 2))), "accepted");
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(1, 1))), "closed attempt");
}

TEST_F(ReplicaTest, AForwardWhoseWeightsAreGoneIsClosedOnce) {
  const Forward frame = Frame(0);
  (void)replica().OnForward(kBelow, frame);
  EXPECT_EQ(replica().queued(), 1u);
  EXPECT_TRUE(Find<action::DropTask>(replica().OnForwardGone(frame.key)));
  EXPECT_EQ(replica().queued(), 0u);
  EXPECT_TRUE(replica().OnForwardGone(frame.key).empty());
  EXPECT_EQ(Why(Backward(frame)), "no such task");
}

TEST_F(ReplicaTest, FramesForOthersAndOfOtherGenerationsAreRefused) {
  Forward other = Frame(0);
  other.hops[1].worker = kAbove;
  EXPECT_EQ(Why(replica().OnForward(kBelow, other)), "addressee");
  Forward attempt = Frame(0);
  attempt.hops[1].attempt.n = 5;
  EXPECT_EQ(Why(replica().OnForward(kBelow, attempt)), "addressee");
  Forward old = Frame(0);
  old.key.generation = Generation(7);
  EXPECT_EQ(Why(replica().OnForward(kBelow, old)), "generation");
  EXPECT_EQ(Why(Backward(old)), "generation");
}

TEST_F(ReplicaTest, WhatAnEvictedWorkerStillSendsIsRefused) {
  const Forward frame = Frame(0);
  (void)RunForward(frame);
  (void)replica().OnRoster(RosterOf(1, {kBelow, kSelf, kAbove}));
  (void)replica().OnRoster(RosterOf(2, {kSelf, kOther}));
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(1))), "evicted sender");
  EXPECT_EQ(Why(Backward(frame)), "evicted sender");
  EXPECT_EQ(Why(replica().OnForward(kOther, Frame(1))), "accepted");
  (void)replica().OnRoster(RosterOf(3, {kBelow, kSelf, kOther}));  // it came back
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(2))), "accepted");
}

TEST_F(ReplicaTest, AChangeOfTheRosterEvictsAndReadmitsAsAWholeOneDoes) {
  (void)replica().OnRoster(RosterOf(1, {kBelow, kSelf, kAbove}));
  (void)replica().OnRosterChange(
      {.term = Term(1), .epoch = Epoch(2), .came = {{.id = kOther}}, .gone = {kBelow}});
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0))), "evicted sender");
  EXPECT_EQ(Why(replica().OnForward(kOther, Frame(0))), "accepted");
  (void)replica().OnRosterChange({.term = Term(1), .epoch = Epoch(3), .came = {{.id = kBelow}}});
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(1))), "accepted");
}

TEST_F(ReplicaTest, AChangeThatDoesNotFollowTheKnownRosterIsRefused) {
  (void)replica().OnRoster(RosterOf(5, {kBelow, kSelf}));
  for (const std::uint64_t epoch : {4, 5, 7}) {
    const RosterChange change{.term = Term(1), .epoch = Epoch(epoch), .gone = {kBelow}};
    EXPECT_EQ(Why(replica().OnRosterChange(change)), "epoch") << epoch;
  }
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0))), "accepted");
}

TEST_F(ReplicaTest, AReplicaThatIsGoneFromTheRosterComesBackAnew) {
  (void)replica().OnRoster(RosterOf(1, {kBelow, kSelf}));
  const Actions actions =
      replica().OnRosterChange({.term = Term(1), .epoch = Epoch(2), .gone = {kSelf}});
  EXPECT_TRUE(Find<action::Rejoin>(actions));
}

TEST_F(ReplicaTest, AnEarlierRosterChangesNothing) {
  (void)replica().OnRoster(RosterOf(5, {kBelow, kSelf}));
  (void)replica().OnRoster(RosterOf(4, {kSelf}));
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0))), "accepted");
}

TEST_F(ReplicaTest, WhoIsNotInTheRosterAnyMoreLeaves) {
  (void)replica().OnRoster(RosterOf(1, {kBelow, kSelf}));
  EXPECT_TRUE(Find<action::Rejoin>(replica().OnRoster(RosterOf(2, {kBelow}))));
}

TEST_F(ReplicaTest, AnEvaluationKeepsNothingAndContributesNothing) {
  Forward frame = Frame(0);
  frame.kind = TaskKind::kEvaluate;
  EXPECT_FALSE(Find<action::RunForward>(replica().OnForward(kBelow, frame))->keep_graph);
  const Actions done = replica().OnForwardDone(frame.key, 0, {0, 8});
  EXPECT_TRUE(Find<action::SendForward>(done));
  EXPECT_TRUE(Find<action::DropTask>(done));
  EXPECT_EQ(replica().retained_bytes(), 0u);
}

TEST_F(ReplicaTest, AnEvaluationThatWasIssuedTwiceIsClosedWhenTheCommitHasOvertakenIt) {
  Forward frame = Frame(0);
  frame.kind = TaskKind::kEvaluate;
  (void)replica().OnForward(kBelow, frame);
  // Elsewhere its second attempt is done, so the trainer decides the commit. Commits overtake
  // tasks.
  EXPECT_FALSE(Find<action::DropTask>(Decide()));
  EXPECT_EQ(replica().queued(), 1u);
  EXPECT_TRUE(Find<action::DropTask>(replica().OnForwardGone(frame.key)));
  EXPECT_EQ(replica().queued(), 0u);
}

TEST_F(ReplicaTest, FramesThatWaitAreBounded) {
  ReplicaOptions options = DefaultOptions();
  options.parked_max = 2;
  Begin(options);
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0, 1, 1))), "accepted");
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(1, 1, 1))), "accepted");
  EXPECT_EQ(replica().parked(), 2u);
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(2, 1, 1))), "too many parked");
}

TEST_F(ReplicaTest, TheBytesOfFramesThatWaitAreBounded) {
  constexpr std::uint64_t kBoundary = 2048ull * 4096 * sizeof(float);  // 2048 tokens of width 4096
  ReplicaOptions options = DefaultOptions();
  options.parked_bytes_max = 1ull << 30;
  Begin(options);
  for (std::uint64_t m = 0; m < 31; ++m) {
    EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(m, 1, 1), kBoundary)), "accepted");
  }
  // A gradient that comes before its task waits, too.
  const Forward early = Frame(31);
  EXPECT_EQ(Why(replica().OnBackward(kAbove, {early.key, early.version}, kBoundary)), "accepted");
  EXPECT_EQ(replica().parked_bytes(), 1ull << 30);
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(32, 1, 1), kBoundary)), "too many parked");
  EXPECT_EQ(Why(replica().OnBackward(kAbove, {Frame(33).key, {}}, kBoundary)), "too many parked");
  // What can run at once needs no room: so the step ends, and with it the wait.
  EXPECT_EQ(Why(replica().OnForward(kBelow, early, kBoundary)), "accepted");
  EXPECT_TRUE(Find<action::RunBackward>(replica().OnForwardDone(early.key, 0, {0, 8})));
  EXPECT_EQ(replica().parked_bytes(), 31 * kBoundary);
  ASSERT_TRUE(Find<action::FoldGradients>(replica().OnBackwardDone(early.key, {0, 8})));
  EXPECT_TRUE(Find<action::RunForward>(Decide()));
  EXPECT_EQ(replica().parked_bytes(), 0u);
}

TEST_F(ReplicaTest, AnOlderGradientWithoutATaskMakesRoomForANewerOne) {
  ReplicaOptions options = DefaultOptions();
  options.parked_bytes_max = 1000;
  Begin(options);
  const Forward older = Frame(0, 1), newer = Frame(0, 2);
  EXPECT_EQ(Why(replica().OnBackward(kAbove, {older.key, {}}, 1000)), "accepted");
  const Actions actions = replica().OnBackward(kAbove, {newer.key, {}}, 1000);
  EXPECT_EQ(Find<action::DropTask>(actions)->key, older.key);
  EXPECT_EQ(replica().parked_bytes(), 1000u);
  EXPECT_EQ(Why(replica().OnBackward(kAbove, {older.key, {}}, 1000)), "too many parked");
}

TEST_F(ReplicaTest, OneFrameMayWaitHoweverLargeItIs) {
  ReplicaOptions options = DefaultOptions();
  options.parked_bytes_max = 1;
  Begin(options);
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0, 1, 1), 1000)), "accepted");
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(1, 1, 1), 1000)), "too many parked");
}

TEST_F(ReplicaTest, AGradientWhoseTaskIsRevokedBeforeItComesGivesItsRoomBack) {
  const Forward frame = Frame(0);
  EXPECT_EQ(Why(replica().OnBackward(kAbove, {frame.key, frame.version}, 1000)), "accepted");
  const Actions revoked = replica().OnRevoke({Term(1), frame.key});
  EXPECT_EQ(Find<action::DropTask>(revoked)->key, frame.key);
  EXPECT_EQ(replica().parked_bytes(), 0u);
}

// ---- versions ----

TEST_F(ReplicaTest, AFrameOfAVersionToComeWaitsForIt) {
  EXPECT_FALSE(Find<action::RunForward>(replica().OnForward(kBelow, Frame(0, 1, 1))));
  const auto run = Find<action::RunForward>(Decide());
  ASSERT_TRUE(run);
  EXPECT_EQ(run->version, Version(1));
  EXPECT_EQ(replica().parked(), 0u);
  Forward old = Frame(1, 1, 1);
  old.version = Version(0);
  EXPECT_EQ(Why(replica().OnForward(kBelow, old)), "version gone");
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(1))), "committed step");
}

TEST_F(ReplicaTest, InDelayedModeThePreviousVersionCanStillBeRead) {
  ReplicaOptions options = DefaultOptions();
  options.keeps_previous_version = true;
  Begin(options);
  (void)Decide();
  Forward frame = Frame(0, 1, 1);
  frame.version = Version(0);
  EXPECT_TRUE(Find<action::RunForward>(replica().OnForward(kBelow, frame)));
}

// ---- reduce and commit ----

TEST_F(ReplicaTest, AReduceWithOtherClaimsIsRefusedWithTheTruthAndFreezesNothing) {
  Fold(Frame(0));
  const auto refused =
      Told<ReduceRefused>(replica().OnReduce(ReduceOf({Microbatch(0), Microbatch(1)})));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->folded, (ClaimSet{StageIndex(1), {Microbatch(0)}}));
  EXPECT_TRUE(Told<ReduceRefused>(replica().OnReduce(ReduceOf({}, 2))));
  Fold(Frame(1));
  EXPECT_TRUE(
      Find<action::StartReduce>(replica().OnReduce(ReduceOf({Microbatch(0), Microbatch(1)}, 3))));
}

TEST_F(ReplicaTest, AReduceThatDoesNotNameThisWorkerIsRefused) {
  Reduce reduce = ReduceOf({});
  reduce.participants[0] = kOther;
  EXPECT_TRUE(Told<ReduceRefused>(replica().OnReduce(reduce)));
}

TEST_F(ReplicaTest, AFrozenStepTakesNoMoreFolds) {
  Fold(Frame(0));
  const Forward late = Frame(1);
  (void)RunForward(late);
  (void)Backward(late);
  ASSERT_TRUE(Find<action::StartReduce>(replica().OnReduce(ReduceOf({Microbatch(0)}))));
  EXPECT_FALSE(Find<action::FoldGradients>(replica().OnBackwardDone(late.key, {})));
  EXPECT_EQ(Folded(), std::vector{Microbatch(0)});
}

TEST_F(ReplicaTest, AReduceAttemptIsNeverTakenBack) {
  ReduceAs(5, {1, 1});
  EXPECT_EQ(Why(replica().OnReduce(ReduceOf({}, 5))), "reduce attempt");
  EXPECT_EQ(Why(replica().OnReduce(ReduceOf({}, 4))), "reduce attempt");
  EXPECT_TRUE(Find<action::StartReduce>(replica().OnReduce(ReduceOf({}, 6))));
}

TEST_F(ReplicaTest, OnlyTheResultThatTheCommitNamesIsApplied) {
  const auto reduce_twice = [&] {
    Begin(DefaultOptions());
    (void)replica().OnReduce(ReduceOf({}, 1));
    (void)replica().OnReduce(ReduceOf({}, 2));
    // The first attempt's result comes late: the trainer has asked for another attempt since.
    EXPECT_TRUE(replica().OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 1}, {1, 1}, {}).empty());
    (void)replica().OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 2}, {2, 2}, {});
  };
  for (const Commit& other : {CommitOf({1, 1}, 2), CommitOf({2, 2}, 1)}) {
    reduce_twice();
    const Actions actions = replica().OnCommit(other);
    EXPECT_FALSE(Find<action::ApplyCommit>(actions));
    EXPECT_TRUE(Find<action::FetchGradients>(actions));  // from replicas that hold them
  }
  reduce_twice();
  EXPECT_TRUE(Find<action::ApplyCommit>(replica().OnCommit(CommitOf({2, 2}, 2))));
  EXPECT_FALSE(Find<action::ApplyCommit>(replica().OnCommit(CommitOf({2, 2}, 2))));
}

TEST_F(ReplicaTest, AfterItsApplicationACommitIsKnownAndAReduceIsRefused) {
  const Actions applied = Decide();
  EXPECT_TRUE(Find<action::ReleaseStep>(applied));
  EXPECT_FALSE(Find<action::ApplyCommit>(replica().OnCommit(CommitOf({1, 1}))));
  EXPECT_EQ(Why(replica().OnReduce(ReduceOf({}, 9))), "committed step");
  EXPECT_EQ(replica().version(), Version(1));
}

TEST_F(ReplicaTest, NothingWaitsForTheDigestOfTheStateWhichIsReportedWhenItIsKnown) {
  (void)replica().OnForward(kBelow, Frame(0, 1, 1));
  const Actions applied = Decide();
  EXPECT_FALSE(Told<Committed>(applied));
  EXPECT_TRUE(Find<action::RunForward>(applied));
  const auto told = Told<Committed>(replica().OnStateRead(Step(0), {5, 6}));
  EXPECT_EQ(told->step, Step(0));
  EXPECT_EQ(told->state, (Digest{5, 6}));
}

TEST_F(ReplicaTest, ASkipIsAppliedWhateverIsHeld) {
  Commit commit = CommitOf({1, 1});
  commit.record.skip = true;
  EXPECT_TRUE(Find<action::ApplyCommit>(replica().OnCommit(commit)));
}

TEST_F(ReplicaTest, WhoTookNoPartFetchesTheGradientsAndAppliesInOrder) {
  EXPECT_TRUE(Find<action::FetchGradients>(replica().OnCommit(CommitOf({1, 1}, 1, 0))));
  EXPECT_TRUE(Find<action::FetchGradients>(replica().OnCommit(CommitOf({1, 1}, 2, 1))));
  EXPECT_FALSE(Find<action::ApplyCommit>(replica().OnGradientsFetched(Step(1))));
  EXPECT_EQ(Find<action::ApplyCommit>(replica().OnGradientsFetched(Step(0)))->record.step, Step(0));
  EXPECT_EQ(Find<action::ApplyCommit>(replica().OnApplied(Step(0)))->record.step, Step(1));
}

TEST_F(ReplicaTest, AHolderThatCameWhenTheTiedHeadWasSummedFetchesItAndKeepsItsParts) {
  for (const bool takes_part : {true, false}) {
    ReplicaOptions options = DefaultOptions();
    options.groups = {GroupIndex(1), GroupIndex(3)};
    Begin(options);
    if (takes_part) {
      Reduce reduce = ReduceOf({}, 2);
      reduce.holders = {{kSelf, kOther}};
      (void)replica().OnReduce(reduce);
      (void)replica().OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 2}, {}, {},
                                     {{{GroupIndex(1), 0}, {1, 1}}});
    }
    Commit commit = CommitOf({5, 5}, 2);
    commit.record.groups[0].holders = {{kSelf, kOther}};
    commit.record.groups.push_back({GroupIndex(3), {Term(1), 1}, {3, 3}});
    EXPECT_TRUE(Find<action::FetchGradients>(replica().OnCommit(commit)));
    EXPECT_EQ(Find<action::ApplyCommit>(replica().OnGradientsFetched(Step(0)))->holds, takes_part);
  }
}

TEST_F(ReplicaTest, WhoMissesARecordLeavesInsteadOfGuessing) {
  EXPECT_TRUE(Find<action::Rejoin>(replica().OnCommit(CommitOf({1, 1}, 1, 1))));
}

TEST_F(ReplicaTest, AReduceOfAVersionToComeWaitsUntilWhatIsDecidedIsApplied) {
  (void)replica().OnCommit(CommitOf({1, 1}, 1, 0));
  (void)replica().OnCommit(CommitOf({1, 1}, 2, 1));
  EXPECT_FALSE(Find<action::StartReduce>(replica().OnReduce(ReduceOf({}, 3, 2))));
  (void)replica().OnGradientsFetched(Step(0));
  (void)replica().OnGradientsFetched(Step(1));
  EXPECT_FALSE(Find<action::StartReduce>(replica().OnApplied(Step(0))));
  EXPECT_TRUE(Find<action::StartReduce>(replica().OnApplied(Step(1))));
}

TEST_F(ReplicaTest, SumsThatNobodyNeedsAnyMoreAreReleased) {
  const auto release = Find<action::ReleaseSums>(replica().OnCommit(CommitOf({1, 1})));
  ASSERT_TRUE(release);
  EXPECT_EQ(release->below, Step(0));
}

TEST_F(ReplicaTest, OfTheSumsThatAJoinerMayAskForTheOldestGoWhereThereIsNoRoom) {
  ReplicaOptions options = DefaultOptions();
  options.kept_steps_max = 5;
  Begin(options);
  for (std::uint64_t step = 0; step < 20; ++step) {
    ReduceAs(1, {1, 1}, step);
    Commit commit = CommitOf({1, 1}, 1, step);
    commit.keep_from = Step(0);  // a joiner has copied version 0
    EXPECT_TRUE(Find<action::ApplyCommit>(replica().OnCommit(commit)));
    const auto release = Find<action::ReleaseSums>(replica().OnApplied(Step(step)));
    EXPECT_EQ(release->below, Step(step < 5 ? 0 : step - 4));
    EXPECT_EQ(Told<Committed>(replica().OnStateRead(Step(step), {}))->kept_from, release->below);
  }
}

TEST_F(ReplicaTest, ItSaysSinceWhichStepItHasReducedGradients) {
  ReplicaOptions options = DefaultOptions();
  options.version = Version(7);
  Begin(options);
  const auto said = [&](std::uint64_t step) {
    return Told<Committed>(replica().OnStateRead(Step(step), {}))->kept_from;
  };
  EXPECT_EQ(said(6), Step(7)) << "of earlier ones it has none";
  for (std::uint64_t step = 7; step < 12; ++step) {
    ReduceAs(1, {1, 1}, step);
    Commit commit = CommitOf({1, 1}, 1, step);
    commit.keep_from = Step(step < 10 ? 3 : 9);
    (void)replica().OnCommit(commit);
    (void)replica().OnApplied(Step(step));
    EXPECT_EQ(said(step), Step(step < 10 ? 7 : 9));
  }
}

TEST_F(ReplicaTest, TheSumsThatMembersMayLackAreKeptWhateverTheRoom) {
  ReplicaOptions options = DefaultOptions();
  options.kept_steps_max = 0;
  Begin(options);
  Actions applied;
  for (std::uint64_t step = 0; step < 10; ++step) {
    ReduceAs(1, {1, 1}, step);
    Commit commit = CommitOf({1, 1}, 1, step);
    commit.keep_from = Step(0);
    (void)replica().OnCommit(commit);
    applied = replica().OnApplied(Step(step));
  }
  EXPECT_EQ(Find<action::ReleaseSums>(applied)->below, Step(10 - kKeptStepsMin));
}

TEST_F(ReplicaTest, AGradientOfAnAttemptThatATakeoverClosedTakesNoRoom) {
  (void)replica().OnTakeover({Term(2)});
  EXPECT_EQ(Why(replica().OnBackward(kAbove, {Frame(0).key, {}}, 8)), "closed attempt");
  EXPECT_EQ(replica().parked_bytes(), 0u);
}

TEST_F(ReplicaTest, ControlOfALowerTermIsRefused) {
  Reduce newer = ReduceOf({}, 1);
  newer.term = Term(2);
  (void)replica().OnReduce(newer);
  EXPECT_EQ(replica().term(), Term(2));
  EXPECT_EQ(Why(replica().OnReduce(ReduceOf({}, 5))), "term");
  EXPECT_EQ(Why(replica().OnCommit(CommitOf({1, 1}))), "term");
  EXPECT_EQ(Why(replica().OnRoster(RosterOf(1, {}))), "term");
  EXPECT_EQ(Why(replica().OnRevoke({Term(1), Frame(0).key})), "term");
  EXPECT_EQ(Why(replica().OnVoid({.term = Term(1)})), "term");
  EXPECT_EQ(Why(replica().OnThaw({.term = Term(1)})), "term");
  EXPECT_EQ(Why(replica().OnHandOver({.term = Term(1)})), "term");
  EXPECT_EQ(Why(replica().OnTakeover({Term(1)})), "term");
  EXPECT_EQ(Why(replica().OnRollback({.term = Term(1), .generation = Generation(5)})), "term");
}

TEST_F(ReplicaTest, WhatTheTrainerSaysIsHeardWhateverItIs) {
  EXPECT_TRUE(Find<action::StartReduce>(replica().OnControl(ReduceOf({}))));
  EXPECT_TRUE(replica().OnControl(RosterOf(1, {kSelf, kBelow})).empty());
  EXPECT_EQ(replica().roster().epoch, Epoch(1));
  EXPECT_TRUE(Told<Holding>(replica().OnControl(Takeover{Term(2)})));
  EXPECT_EQ(Why(replica().OnControl(Thaw{.term = Term(1)})), "term");
  EXPECT_TRUE(replica().OnControl(Heartbeat{}).empty());
}

// ---- copies of the state ----

TEST_F(ReplicaTest, ACheckpointIsTakenAtItsVersionAndOfNoOther) {
  const auto write = [&](std::uint64_t version) {
    return replica().OnWriteCheckpoint({Term(1), Generation(0), Version(version), "uri"});
  };
  EXPECT_TRUE(Find<action::TakeCheckpoint>(write(0)));
  EXPECT_TRUE(write(1).empty());
  EXPECT_TRUE(Find<action::TakeCheckpoint>(Decide()));
  EXPECT_FALSE(Told<CheckpointWritten>(write(0))->error.empty());
}

TEST_F(ReplicaTest, AStateIsPinnedAtItsVersionBeforeAnythingChangesIt) {
  const auto pin = [&](std::uint64_t version) {
    return replica().OnPinState({Term(1), Generation(0), Version(version)});
  };
  EXPECT_TRUE(Find<action::PinCopy>(pin(0)));
  EXPECT_TRUE(pin(1).empty());
  ReduceAs(1, {1, 1});
  (void)replica().OnCommit(CommitOf({1, 1}));
  (void)replica().OnCommit(CommitOf({1, 1}, 2, 1));
  const Actions applied = replica().OnApplied(Step(0));
  EXPECT_EQ(Find<action::PinCopy>(applied)->request.version, Version(1));
  EXPECT_FALSE(Told<StatePinned>(pin(0))->error.empty());
  EXPECT_EQ(Find<action::UnpinCopy>(replica().OnUnpinState({Term(1), Generation(0), Version(1)}))
                ->version,
            Version(1));
}

}  // namespace
}  // namespace swarm::protocol
