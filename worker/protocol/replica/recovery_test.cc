// A replica while other workers depart or a trainer takes over: what it retains, closes, voids,
// hands over.
#include <gtest/gtest.h>

#include "worker/protocol/replica/testing/replica_under_test.h"

namespace swarm::protocol {
namespace {

class ReplicaRecoveryTest : public ReplicaTest {
 protected:
  /// The order to send the output of `source` to another worker, of the attempt 300.
  Resend ResendOf(const Forward& source) const {
    Resend resend{Term(1), source.key, source};
    resend.frame.key = At(source.key, 2, 300);
    resend.frame.hops[2] = {kOther, {Term(1), 300}};
    resend.frame.first = StageIndex(2);
    resend.frame.end = StageIndex(3);
    resend.frame.upstream = source.hops[1];
    return resend;
  }
  /// The order to return the input gradient of `source` to another worker, as that of attempt 300.
  Redirect RedirectOf(const Forward& source) const {
    return {Term(1), source.key, kOther, At(source.key, 0, 300)};
  }
  void ExpectResent(const Actions& actions, const Resend& resend) const {
    const auto send = Find<action::SendForward>(actions);
    ASSERT_TRUE(send);
    EXPECT_EQ(send->to, kOther);
    EXPECT_EQ(send->source, resend.source);
    EXPECT_EQ(send->message.key, resend.frame.key);
    EXPECT_EQ(send->message.hops, resend.frame.hops);
    EXPECT_EQ(send->message.first, resend.frame.first);
    EXPECT_EQ(send->message.end, resend.frame.end);
    EXPECT_EQ(send->message.upstream, resend.frame.upstream);
  }
  void ExpectRedirected(const Actions& actions, const Redirect& redirect) const {
    const auto send = Find<action::SendBackward>(actions);
    ASSERT_TRUE(send);
    EXPECT_EQ(send->to, kOther);
    EXPECT_EQ(send->source, redirect.source);
    EXPECT_EQ(send->message.key, redirect.target);
  }
  Void VoidOf(std::uint64_t n, std::uint64_t level = 0) const {
    return {.term = Term(1), .number = {Term(1), n}, .level = level};
  }
};

// ---- resend and redirect ----

TEST_F(ReplicaRecoveryTest, AnOutputIsSentAgainFromWhatIsRetained) {
  const Forward frame = Frame(0);
  (void)RunForward(frame);
  const Resend resend = ResendOf(frame);
  ExpectResent(replica().OnResend(resend), resend);
  (void)Backward(frame);
  (void)replica().OnBackwardDone(frame.key, {});
  ExpectResent(replica().OnResend(resend), resend);  // it is kept until the step is over
}

TEST_F(ReplicaRecoveryTest, AResendThatComesWhileTheForwardRunsDecidesWhereItsOutputGoes) {
  const Forward frame = Frame(0);
  (void)replica().OnForward(kBelow, frame);
  const Resend resend = ResendOf(frame);
  EXPECT_FALSE(Find<action::SendForward>(replica().OnResend(resend)));
  ExpectResent(replica().OnForwardDone(frame.key, 0, {}), resend);
  (void)Backward(frame);  // its own way back is what it was
  EXPECT_EQ(Find<action::SendBackward>(replica().OnBackwardDone(frame.key, {}))->to, kBelow);
}

TEST_F(ReplicaRecoveryTest, AResendThatComesBeforeTheTaskWaitsForIt) {
  Forward frame = Frame(0);
  frame.end = StageIndex(2);
  const Resend resend = ResendOf(frame);
  EXPECT_TRUE(replica().OnResend(resend).empty());
  ExpectResent(RunForward(frame), resend);
}

TEST_F(ReplicaRecoveryTest, WhatIsNotRetainedAnyMoreIsSaidToBeMissing) {
  ReplicaOptions options = DefaultOptions();
  options.retained_bytes_max = 10;
  Begin(options);
  const Forward frame = Frame(0);
  (void)RunForward(frame, 8);
  const Actions second = RunForward(Frame(1), 8);
  EXPECT_EQ(Find<action::ReleaseRetained>(second)->key, frame.key);
  EXPECT_LE(replica().retained_bytes(), 10u);
  const auto missing = Told<Missing>(replica().OnResend(ResendOf(frame)));
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->source, frame.key);
  EXPECT_FALSE(missing->gradient);
}

TEST_F(ReplicaRecoveryTest, AGradientIsReturnedAgainFromWhatIsRetained) {
  const Forward frame = Frame(0);
  (void)Run(frame);
  ExpectRedirected(replica().OnRedirect(RedirectOf(frame)), RedirectOf(frame));
}

TEST_F(ReplicaRecoveryTest, ARedirectThatComesBeforeTheGradientWaitsForIt) {
  const Forward early = Frame(0), late = Frame(1);
  EXPECT_TRUE(replica().OnRedirect(RedirectOf(early)).empty());  // before the task
  ExpectRedirected(Run(early), RedirectOf(early));
  (void)RunForward(late);
  EXPECT_TRUE(replica().OnRedirect(RedirectOf(late)).empty());  // before its backward
  (void)Backward(late);
  ExpectRedirected(replica().OnBackwardDone(late.key, {}), RedirectOf(late));
}

TEST_F(ReplicaRecoveryTest, AGradientThatIsGoneIsSaidToBeMissing) {
  ReplicaOptions options = DefaultOptions();
  options.retained_bytes_max = 0;
  Begin(options);
  const Forward frame = Frame(0);
  (void)Run(frame);
  const auto missing = Told<Missing>(replica().OnRedirect(RedirectOf(frame)));
  ASSERT_TRUE(missing);
  EXPECT_TRUE(missing->gradient);
}

TEST_F(ReplicaRecoveryTest, AGradientThatComesBeforeItsTaskWaitsForIt) {
  const Forward frame = Frame(0);
  EXPECT_EQ(Why(Backward(frame)), "accepted");
  EXPECT_TRUE(Find<action::RunBackward>(RunForward(frame)));
}

TEST_F(ReplicaRecoveryTest, WhatIsRetainedIsFreedAtTheCommit) {
  (void)Run(Frame(0));
  EXPECT_GT(replica().retained_bytes(), 0u);
  (void)Decide();
  EXPECT_EQ(replica().retained_bytes(), 0u);
  EXPECT_EQ(Why(replica().OnResend(ResendOf(Frame(0)))), "committed step");
}

// ---- revoke and void ----

TEST_F(ReplicaRecoveryTest, ARevokedAttemptIsClosedForGood) {
  const Forward frame = Frame(0);
  (void)RunForward(frame);
  (void)Backward(frame);
  const auto revoked = Told<Revoked>(replica().OnRevoke({Term(1), frame.key}));
  ASSERT_TRUE(revoked);
  EXPECT_EQ(revoked->key, frame.key);
  EXPECT_FALSE(revoked->folded);
  EXPECT_FALSE(Find<action::FoldGradients>(replica().OnBackwardDone(frame.key, {})));
  EXPECT_TRUE(Folded().empty());
}

TEST_F(ReplicaRecoveryTest, AnAttemptThatIsRevokedBeforeItComesIsRefusedWhenItComes) {
  EXPECT_FALSE(Told<Revoked>(replica().OnRevoke({Term(1), Frame(0, 3).key}))->folded);
  EXPECT_NE(Why(replica().OnForward(kBelow, Frame(0, 3))), "accepted");
  EXPECT_NE(Why(replica().OnForward(kBelow, Frame(0, 2))), "accepted");
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0, 4))), "accepted");
}

TEST_F(ReplicaRecoveryTest, WhatIsFoldedCannotBeRevoked) {
  const Forward frame = Frame(0);
  Fold(frame);
  EXPECT_TRUE(Told<Revoked>(replica().OnRevoke({Term(1), frame.key}))->folded);
  EXPECT_EQ(Folded(), std::vector{Microbatch(0)});
  (void)Decide();
  EXPECT_TRUE(Told<Revoked>(replica().OnRevoke({Term(1), frame.key}))->folded);
}

TEST_F(ReplicaRecoveryTest, AVoidDropsGradientsWhoseTasksHaveNotCome) {
  EXPECT_TRUE(replica().OnBackward(kAbove, {Frame(3, 9).key, {}}, 8).empty());
  EXPECT_EQ(replica().parked_bytes(), 8u);
  const Actions voided = replica().OnVoid(VoidOf(10));
  EXPECT_EQ(Find<action::DropTask>(voided)->key, Frame(3, 9).key);
  EXPECT_EQ(replica().parked_bytes(), 0u);
}

TEST_F(ReplicaRecoveryTest, AVoidEmptiesTheStepAndClosesItsAttempts) {
  Fold(Frame(0));
  const Forward open = Frame(1);
  (void)RunForward(open);
  (void)Backward(open);
  const Actions voided = replica().OnVoid(VoidOf(10));
  EXPECT_EQ(Find<action::ClearStep>(voided)->step, Step(0));
  EXPECT_EQ(Told<Voided>(voided)->number, (Attempt{Term(1), 10}));
  EXPECT_FALSE(Find<action::FoldGradients>(replica().OnBackwardDone(open.key, {})));
  EXPECT_TRUE(Folded().empty());
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(2, 9))), "closed attempt");  // issued before
  EXPECT_EQ(Why(replica().OnBackward(kAbove, {Frame(2, 9).key, {}}, 8)), "closed attempt");
  Fold(Frame(0, 11));
  EXPECT_EQ(Folded(), std::vector{Microbatch(0)});
}

TEST_F(ReplicaRecoveryTest, AVoidEndsTheReduceOfWhatItEmptied) {
  Fold(Frame(0));
  ReduceAs(1, {1, 1});
  EXPECT_TRUE(Find<action::StopReduces>(replica().OnVoid(VoidOf(10))));
  Fold(Frame(0, 11));  // not frozen any more
}

TEST_F(ReplicaRecoveryTest, WhatAVoidedStepRetainedIsStillThereForOthers) {
  const Forward frame = Frame(0);
  Fold(frame);
  (void)replica().OnVoid(VoidOf(10));
  const Resend resend = ResendOf(frame);
  ExpectResent(replica().OnResend(resend), resend);
}

TEST_F(ReplicaRecoveryTest, AContributionThatDoesNotFitTheScaleIsNotFolded) {
  const Forward frame = Frame(0);
  (void)RunForward(frame);
  (void)Backward(frame);
  const Actions done = replica().OnBackwardDone(frame.key, {}, /*fits=*/false);
  EXPECT_FALSE(Find<action::FoldGradients>(done));
  EXPECT_EQ(Reported(done), TaskReport::Event::kOverflow);
  EXPECT_TRUE(Folded().empty());
}

TEST_F(ReplicaRecoveryTest, AReduceAtAnotherScaleIsRefused) {
  (void)replica().OnVoid(VoidOf(10, /*level=*/2));
  EXPECT_TRUE(Told<ReduceRefused>(replica().OnReduce(ReduceOf({}, 11))));
  Reduce reduce = ReduceOf({}, 12);
  reduce.level = 2;
  EXPECT_TRUE(Find<action::StartReduce>(replica().OnReduce(reduce)));
}

// ---- thaw ----

TEST_F(ReplicaRecoveryTest, AThawedStepTakesFoldsAndKeepsThoseItHad) {
  Fold(Frame(0));
  ReduceAs(1, {1, 1});
  EXPECT_TRUE(Find<action::StopReduces>(replica().OnThaw({Term(1), Generation(0), Step(0)})));
  Fold(Frame(1));
  EXPECT_EQ(Folded(), (std::vector{Microbatch(0), Microbatch(1)}));
  // The result of the sum that was given up counts no more.
  EXPECT_TRUE(replica().OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 1}, {1, 1}, {}).empty());
  ReduceAs(2, {2, 2});
}

TEST_F(ReplicaRecoveryTest, ARepairThatComesBeforeTheThawWaitsForIt) {
  ReduceAs(1, {1, 1});
  const Actions early = replica().OnForward(kBelow, Frame(0));
  EXPECT_EQ(Why(early), "accepted");
  EXPECT_FALSE(Find<action::RunForward>(early));
  EXPECT_TRUE(Find<action::RunForward>(replica().OnThaw({Term(1), Generation(0), Step(0)})));
}

TEST_F(ReplicaRecoveryTest, AFrozenStepStillRecomputesForOthers) {
  ReduceAs(1, {1, 1});
  EXPECT_EQ(Reported(Run(Again(0, 9))), TaskReport::Event::kPropagated);
}

// ---- leaving ----

TEST_F(ReplicaRecoveryTest, WhoHandsOverSendsItsSumsAndFoldsNothingMore) {
  Fold(Frame(0));
  const Forward open = Frame(1);
  (void)RunForward(open);
  (void)Backward(open);
  const auto parcel =
      Find<action::SendParcel>(replica().OnHandOver({Term(1), Generation(0), Step(0), kOther}));
  ASSERT_TRUE(parcel);
  EXPECT_EQ(parcel->to, kOther);
  ASSERT_EQ(parcel->contributions.size(), 1u);
  EXPECT_EQ(parcel->contributions[0].microbatch, Microbatch(0));
  EXPECT_FALSE(Find<action::FoldGradients>(replica().OnBackwardDone(open.key, {})));
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(2))), "closed attempt");
}

TEST_F(ReplicaRecoveryTest, AParcelCountsFromTheRosterThatSaysSo) {
  Fold(Frame(0));
  const std::vector<Contribution> sums{{Microbatch(1), {Term(1), 5}, 0}};
  const Actions held = replica().OnParcel(kOther, Step(0), Generation(0), 0, sums);
  EXPECT_EQ(Told<ParcelHeld>(held)->contributions, sums);
  EXPECT_FALSE(Find<action::AdoptParcel>(held));
  EXPECT_EQ(Folded(), std::vector{Microbatch(0)});
  const Actions adopted =
      replica().OnRoster(RosterOf(1, {kBelow, kSelf}, {{kOther, kSelf, Step(0)}}));
  EXPECT_EQ(Find<action::AdoptParcel>(adopted)->donor, kOther);
  EXPECT_EQ(Folded(), (std::vector{Microbatch(0), Microbatch(1)}));
}

TEST_F(ReplicaRecoveryTest, AnAdoptionCountsOnce) {
  (void)replica().OnParcel(kOther, Step(0), Generation(0), 0, {{Microbatch(1), {Term(1), 5}, 0}});
  const Roster roster = RosterOf(1, {kSelf}, {{kOther, kSelf, Step(0)}});
  EXPECT_TRUE(Find<action::AdoptParcel>(replica().OnRoster(roster)));
  EXPECT_FALSE(Find<action::AdoptParcel>(replica().OnRoster(roster)));
}

TEST_F(ReplicaRecoveryTest, AParcelOfAnEvictedDonorOrOfAnotherScaleIsDropped) {
  (void)replica().OnRoster(RosterOf(1, {kOther, kSelf}));
  EXPECT_TRUE(Find<action::DropParcel>(replica().OnParcel(kOther, Step(0), Generation(0), 3, {})));
  (void)replica().OnRoster(RosterOf(2, {kSelf}));
  EXPECT_TRUE(Find<action::DropParcel>(replica().OnParcel(kOther, Step(0), Generation(0), 0, {})));
}

TEST_F(ReplicaRecoveryTest, AParcelThatNobodyAdoptedIsDroppedAtTheCommit) {
  (void)replica().OnParcel(kOther, Step(0), Generation(0), 0, {{Microbatch(1), {Term(1), 5}, 0}});
  EXPECT_TRUE(Find<action::DropParcel>(Decide()));
}

TEST_F(ReplicaRecoveryTest, SumsThatAreFrozenAreNotHandedOver) {
  Fold(Frame(0));
  ReduceAs(1, {1, 1});
  EXPECT_TRUE(replica().OnHandOver({Term(1), Generation(0), Step(0), kOther}).empty());
}

TEST_F(ReplicaRecoveryTest, AParcelThatOverlapsWithTheFoldsOfItsHeirIsDropped) {
  Fold(Frame(0));
  (void)replica().OnParcel(kOther, Step(0), Generation(0), 0, {{Microbatch(0), {Term(1), 5}, 0}});
  const Actions actions = replica().OnRoster(RosterOf(1, {kSelf}, {{kOther, kSelf, Step(0)}}));
  EXPECT_FALSE(Find<action::AdoptParcel>(actions));
  EXPECT_TRUE(Find<action::DropParcel>(actions));
}

TEST_F(ReplicaRecoveryTest, WhoseHeirIsLostFoldsAgainWhenItIsThawed) {
  (void)replica().OnHandOver({Term(1), Generation(0), Step(0), kOther});
  (void)replica().OnThaw({Term(1), Generation(0), Step(0)});
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0))), "accepted");
}

TEST_F(ReplicaRecoveryTest, WhoseSumsAreVoidAfterItHasHandedThemOverFoldsAgain) {
  (void)replica().OnHandOver({Term(1), Generation(0), Step(0), kOther});
  (void)replica().OnVoid({Term(1), Generation(0), Step(0), Attempt{Term(1), 1}, 0});
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(0, 9))), "accepted");
}

TEST_F(ReplicaRecoveryTest, AReduceThatWaitsForItsVersionIsOffWithItsStep) {
  const auto starts_after = [&](const auto& call_off) {
    Begin(DefaultOptions());
    (void)replica().OnCommit(CommitOf({1, 1}));
    (void)replica().OnReduce(ReduceOf({}, 3, 1));
    call_off();
    (void)replica().OnGradientsFetched(Step(0));
    return Find<action::StartReduce>(replica().OnApplied(Step(0))).has_value();
  };
  EXPECT_TRUE(starts_after([] {}));
  EXPECT_FALSE(starts_after([&] { replica().OnThaw({Term(1), Generation(0), Step(1)}); }));
  EXPECT_FALSE(starts_after(
      [&] { replica().OnVoid({Term(1), Generation(0), Step(1), Attempt{Term(1), 4}, 0}); }));
}

// ---- takeover ----

TEST_F(ReplicaRecoveryTest, WhoWasHandingOverWorksForTheNewTrainer) {
  (void)replica().OnHandOver({Term(1), Generation(0), Step(0), kOther});
  (void)replica().OnTakeover({Term(2)});
  Forward frame = Frame(0);
  frame.key.attempt = frame.hops[1].attempt = {Term(2), 1};
  EXPECT_EQ(Why(replica().OnForward(kBelow, frame)), "accepted");
}

TEST_F(ReplicaRecoveryTest, ATakeoverClosesWhatIsOpenAndTellsWhatIsHeld) {
  (void)replica().OnRoster(RosterOf(4, {kBelow, kSelf, kAbove}));
  Fold(Frame(0));
  const Forward open = Frame(1);
  (void)RunForward(open);
  (void)Backward(open);
  const auto holding = Told<Holding>(replica().OnTakeover({Term(2)}));
  ASSERT_TRUE(holding);
  EXPECT_EQ(holding->term, Term(2));
  EXPECT_EQ(holding->self.id, kSelf);
  EXPECT_EQ(holding->roster.epoch, Epoch(4));
  ASSERT_EQ(holding->steps.size(), 1u);
  EXPECT_EQ(holding->steps[0].folded.at(0).microbatch, Microbatch(0));
  EXPECT_EQ(holding->steps[0].folded.size(), 1u);
  EXPECT_FALSE(Find<action::FoldGradients>(replica().OnBackwardDone(open.key, {})));
  EXPECT_EQ(Why(replica().OnForward(kBelow, Frame(2))), "closed attempt");
  EXPECT_EQ(Why(replica().OnThaw({Term(1), Generation(0), Step(0)})), "term");
}

TEST_F(ReplicaRecoveryTest, TheNewTrainersAttemptsAreAccepted) {
  (void)RunForward(Frame(0));
  (void)replica().OnTakeover({Term(2)});
  Forward frame = Frame(0);
  frame.key.attempt.term = Term(2);
  for (Hop& hop : frame.hops) hop.attempt.term = Term(2);
  EXPECT_EQ(Why(replica().OnForward(kBelow, frame)), "accepted");
}

TEST_F(ReplicaRecoveryTest, ATakeoverFindsTheFrozenReduceAndTheRecordOfTheLastStep) {
  (void)Decide(0);
  Fold(Frame(0, 1, 1));
  ReduceAs(7, {7, 7}, 1);
  const auto holding = Told<Holding>(replica().OnTakeover({Term(2)}));
  ASSERT_TRUE(holding);
  EXPECT_EQ(holding->version, Version(1));
  ASSERT_EQ(holding->records.size(), 1u);
  EXPECT_EQ(holding->records[0], CommitOf({1, 1}).record);
  ASSERT_EQ(holding->steps.size(), 1u);
  ASSERT_EQ(holding->steps[0].reduces.size(), 1u);
  EXPECT_EQ(holding->steps[0].reduces[0], (HeldReduce{GroupIndex(1), {Term(1), 7}, {kSelf}}));
}

TEST_F(ReplicaRecoveryTest, ATakeoverFindsTheLastStepsThatWereAppliedForTheAccountOfLosses) {
  for (const std::uint64_t step : {0, 1, 2}) {
    Fold(Frame(0, 10 * step + 1, step));
    (void)Decide(step);
  }
  const auto holding = Told<Holding>(replica().OnTakeover({Term(2)}));
  ASSERT_TRUE(holding);
  EXPECT_EQ(holding->records, std::vector{CommitOf({1, 1}, 1, 2).record});
  EXPECT_EQ(holding->past,
            (std::vector{CommitOf({1, 1}, 1, 0).record, CommitOf({1, 1}, 1, 1).record}));
}

TEST_F(ReplicaRecoveryTest, ARecordThatWasHeardAndNotAppliedIsToldToTheNewTrainer) {
  ReduceAs(1, {1, 1});
  (void)replica().OnCommit(CommitOf({1, 1}));
  const auto holding = Told<Holding>(replica().OnTakeover({Term(2)}));
  EXPECT_EQ(holding->version, Version(0));
  ASSERT_EQ(holding->records.size(), 1u);
  EXPECT_EQ(holding->records[0].step, Step(0));
}

TEST_F(ReplicaRecoveryTest, AParcelInTransitDoesNotOutliveTheTrainerThatOrderedIt) {
  (void)replica().OnParcel(kOther, Step(0), Generation(0), 0, {{Microbatch(1), {Term(1), 5}, 0}});
  EXPECT_TRUE(Find<action::DropParcel>(replica().OnTakeover({Term(2)})));
}

// ---- rollback ----

TEST_F(ReplicaRecoveryTest, ARollbackBeginsAnewInALaterGenerationOnly) {
  const auto roll = [&](std::uint64_t generation) {
    return replica().OnRollback({.term = Term(1), .generation = Generation(generation)});
  };
  EXPECT_EQ(Why(roll(0)), "generation");
  EXPECT_TRUE(Find<action::BeginAnew>(roll(1)));
}

}  // namespace
}  // namespace swarm::protocol
