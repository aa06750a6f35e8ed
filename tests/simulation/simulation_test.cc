// The protocol under faults. Stories name what must hold; sweeps run them over many seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/simulation/sweep.h"

namespace swarm::simulation {
namespace {

constexpr unsigned kThreads = 2;

void ExpectNoFailure(const SweepOptions& options) {
  const SweepResult result = Sweep(options);
  for (const SeedFailure& failure : result.failures) {
    ADD_FAILURE() << "seed " << failure.seed << ": " << Describe(failure, options.wishes);
  }
}

TEST(SimulationTest, SeedsThatOnceFailedDoNot) {
  std::ifstream file(std::string(SWARM_SOURCE_DIR) + "/tests/simulation/regressions.txt");
  ASSERT_TRUE(file) << "the list of regressions is missing";
  std::string line;
  int seeds = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    SweepOptions options;
    std::string kind;
    ASSERT_TRUE(words >> options.first) << line;
    words >> kind;
    for (std::uint64_t i = 0; i < kFaultKinds; ++i) {
      if (NameOf(static_cast<FaultKind>(i)) == kind) {
        options.wishes.only = static_cast<FaultKind>(i);
      }
    }
    options.wishes.audits = options.wishes.only == FaultKind::kFlipGradient;  // they notice it
    ExpectNoFailure(options);
    ++seeds;
  }
  EXPECT_GT(seeds, 0);
}

TEST(SimulationTest, AnUndisturbedJobIsThatOfThePlainLoops) {
  SweepOptions options{.count = 500, .threads = kThreads};
  options.wishes.faults = 0;
  const SweepResult result = Sweep(options);
  for (const SeedFailure& failure : result.failures) {
    ADD_FAILURE() << "seed " << failure.seed << ": " << Describe(failure, options.wishes);
  }
  EXPECT_EQ(result.rollbacks, 0u);
  EXPECT_EQ(result.takeovers, 0u);
}

TEST(SimulationTest, ASeedIsTheSameRunEachTime) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome first = RunSeed(seed, {}, {}, false), second = RunSeed(seed, {}, {}, false);
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
    EXPECT_EQ(first.seconds, second.seconds) << "seed " << seed;
    EXPECT_EQ(first.fingerprint, second.fingerprint) << "seed " << seed;
  }
}

TEST(SimulationTest, AnotherDecisionIsAnotherFingerprint) {
  SweepOptions options{.count = 50, .threads = kThreads, .failures_max = 50};
  const std::uint64_t as_it_is = Sweep(options).fingerprint;
  EXPECT_EQ(Sweep(options).fingerprint, as_it_is) << "seeds may run in any order";
  options.mutations.coordinator.revoke_before_reissue = false;
  EXPECT_NE(Sweep(options).fingerprint, as_it_is);
}

/// A job on that many replicas, with one fault of that kind and nothing else in its way.
Scenario OneFault(std::uint64_t seed, std::vector<std::uint64_t> replicas, FaultKind kind) {
  Scenario scenario = DrawScenario(seed);
  scenario.job = {.replicas = std::move(replicas), .microbatches = 8, .steps = 20};
  scenario.network = {};
  scenario.faults = 1;
  scenario.kinds = {kind};
  scenario.resend_probability = scenario.corrupt_probability = scenario.slow_probability = 0;
  scenario.checkpoint_error_probability = 0;
  scenario.balance = protocol::BalancePolicy::kNone;
  scenario.spares = 0;
  scenario.retained_bytes_max = 1 << 20;
  scenario.parked_bytes_max = Scenario().parked_bytes_max;
  scenario.kept_steps_max = Scenario().kept_steps_max;
  scenario.join_lag_max = Scenario().join_lag_max;
  return scenario;
}

/// Runs it, and expects that no invariant is violated.
Outcome RunWell(const Scenario& scenario) {
  const Outcome outcome = Simulation(scenario, {}, false).Run();
  EXPECT_FALSE(outcome.violation) << Describe(scenario) << ": " << outcome.violation->text;
  return outcome;
}

TEST(SimulationTest, OneBrokenPairCostsNoWorkerAndSeconds) {
  for (const auto& replicas : {std::vector<std::uint64_t>{16}, {8, 8}, {2, 1}, {1, 1, 1}}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Outcome outcome = RunWell(OneFault(seed, replicas, FaultKind::kCutPair));
      EXPECT_EQ(outcome.departures, 0u) << "seed " << seed;
      EXPECT_LT(outcome.seconds, 10) << "seed " << seed << ", " << replicas.size() << " stages";
    }
  }
}

/// One stage of that many, whose sums go over a grid.
Scenario OneFaultInAGrid(std::uint64_t seed, std::uint64_t replicas, FaultKind kind) {
  Scenario scenario = OneFault(seed, {replicas}, kind);
  scenario.flat_reduce_max = 3;
  return scenario;
}

TEST(SimulationTest, InAGridOneBrokenPairCostsNoWorkerAndSecondsToo) {
  for (const std::uint64_t replicas : {4, 5, 9, 16}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Outcome outcome = RunWell(OneFaultInAGrid(seed, replicas, FaultKind::kCutPair));
      EXPECT_EQ(outcome.departures, 0u) << "seed " << seed;
      EXPECT_LT(outcome.seconds, 10) << "seed " << seed << ", " << replicas << " replicas";
    }
  }
}

TEST(SimulationTest, InAGridALossCostsOneWorkerWhereverTheSumIs) {
  for (const std::uint64_t replicas : {4, 5, 9}) {
    for (const FaultKind kind :
         {FaultKind::kKillWorker, FaultKind::kCrashWorker, FaultKind::kHangDevice,
          FaultKind::kPauseWorker, FaultKind::kIsolate, FaultKind::kFlipSum}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Outcome outcome = RunWell(OneFaultInAGrid(seed, replicas, kind));
        EXPECT_LE(outcome.departures, 1u) << NameOf(kind) << ", seed " << seed;
        EXPECT_EQ(outcome.generations, 1u) << NameOf(kind) << ", seed " << seed;
      }
    }
  }
}

TEST(SimulationTest, AWorkerThatIsCutOffForHoursCostsNoOtherAnything) {
  for (const auto& replicas : {std::vector<std::uint64_t>{16}, {3, 3}, {2, 2, 2}}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Outcome outcome = RunWell(OneFault(seed, replicas, FaultKind::kIsolate));
      EXPECT_LE(outcome.departures, 1u) << "seed " << seed;
      EXPECT_EQ(outcome.generations, 1u) << "seed " << seed;
    }
  }
}

TEST(SimulationTest, AWorkerThatWasAwayForSomeStepsComesBackWithItsStateAndCopiesNothing) {
  for (const bool delayed : {false, true}) {
    std::uint64_t returns = 0, declined = 0;
    for (const auto& replicas : {std::vector<std::uint64_t>{3, 3}, {2, 2, 2}}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Scenario scenario = OneFault(seed, replicas, FaultKind::kAway);
        scenario.job.steps = 60;
        scenario.job.delayed = delayed;
        scenario.keeps_states = true;
        const Outcome outcome = RunWell(scenario);
        EXPECT_EQ(outcome.generations, 1u) << "seed " << seed;
        returns += outcome.returns;
        declined += outcome.declined;
      }
    }
    EXPECT_GT(returns, 30u);
    EXPECT_EQ(declined, 0u);
  }
}

TEST(SimulationTest, ADiskThatHangsOrIsSlowKeepsNoJobFromItsEnd) {
  for (const FaultKind kind : {FaultKind::kSlowDisk, FaultKind::kHangDisk}) {
    for (const auto& replicas : {std::vector<std::uint64_t>{1}, {2, 1}, {3, 3}}) {
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        Scenario scenario = OneFault(seed, replicas, kind);
        scenario.job.checkpoints = true;
        scenario.job.checkpoint_interval = 3;
        EXPECT_EQ(RunWell(scenario).departures, 0u) << "seed " << seed;
      }
    }
  }
}

TEST(SimulationTest, AWrongDigestOfAStateCostsOneWorkerWhereOthersKnowBetter) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome majority = RunWell(OneFault(seed, {3, 3}, FaultKind::kFlipDigest));
    EXPECT_LE(majority.departures, 1u) << "seed " << seed;
    EXPECT_EQ(majority.generations, 1u) << "seed " << seed;
    EXPECT_LE(RunWell(OneFault(seed, {2, 1}, FaultKind::kFlipDigest)).generations, 2u);
  }
}

TEST(SimulationTest, WhatWasComputedWithWrongWeightsCountsNowhere) {
  std::uint64_t found = 0;  // some jobs end before the fault
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Outcome majority = RunWell(OneFault(seed, {3, 3}, FaultKind::kFlipWeights));
    EXPECT_LE(majority.departures, 1u) << "seed " << seed;
    EXPECT_EQ(majority.generations, 1u) << "seed " << seed;
    found += majority.departures;
    EXPECT_LE(RunWell(OneFault(seed, {2, 1}, FaultKind::kFlipWeights)).generations, 2u);
  }
  EXPECT_GT(found, 20u);
}

TEST(SimulationTest, AFlippedBitOfASumIsNoticedAndTheSumMadeAgain) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_LE(RunWell(OneFault(seed, {3, 3}, FaultKind::kFlipSum)).departures, 1u);
    EXPECT_EQ(RunWell(OneFault(seed, {2, 2}, FaultKind::kFlipSum)).departures, 0u);
  }
}

TEST(SimulationTest, AWorkerWhoseGradientIsWrongByABitIsFoundAndOnlyIt) {
  for (const bool delayed : {false, true}) {
    std::uint64_t found = 0;  // some jobs end before the fault
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Scenario scenario = OneFault(seed, {3, 3}, FaultKind::kFlipGradient);
      scenario.audit_fraction = 1;
      scenario.job.delayed = delayed;
      const Outcome outcome = RunWell(scenario);
      EXPECT_LE(outcome.departures, 1u) << "seed " << seed;
      EXPECT_EQ(outcome.generations, 1u) << "seed " << seed;
      found += outcome.departures;
    }
    EXPECT_GT(found, 20u);
  }
}

TEST(SimulationTest, SumsOfALowerScaleAreHandedOverToo) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Scenario scenario = OneFault(seed, {3, 2}, FaultKind::kDrain);
    scenario.job.overflows = true;
    scenario.faults = 4;
    scenario.fault_gap = std::chrono::milliseconds(5);
    RunWell(scenario);
  }
}

/// The parameters are a kind and the number of seeds.
class FaultTest : public ::testing::TestWithParam<std::tuple<std::uint64_t, std::uint64_t>> {};

TEST_P(FaultTest, OfOneKindNeverChangesTheLosses) {
  const auto [kind, seeds] = GetParam();
  SweepOptions options{.count = seeds, .threads = kThreads};
  options.wishes.only = static_cast<FaultKind>(kind);
  ExpectNoFailure(options);
}

std::string NameOfKind(const ::testing::TestParamInfo<FaultTest::ParamType>& info) {
  std::string name(NameOf(static_cast<FaultKind>(std::get<0>(info.param))));
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(BriefKinds, FaultTest,
                         ::testing::Combine(::testing::Range<std::uint64_t>(0, kFaultKinds),
                                            ::testing::Values(100)),
                         NameOfKind);
// make test-heavy
INSTANTIATE_TEST_SUITE_P(LongKinds, FaultTest,
                         ::testing::Combine(::testing::Range<std::uint64_t>(0, kFaultKinds),
                                            ::testing::Values(2'000)),
                         NameOfKind);

/// One stage of that many, in two regions as their names have it.
Scenario OneFaultInTwoRegions(std::uint64_t seed, std::uint64_t replicas, FaultKind kind) {
  Scenario scenario = OneFault(seed, {replicas}, kind);
  scenario.regions = 2;
  return scenario;
}

TEST(SimulationTest, OverRegionsALossCostsOneWorkerWhereverTheSumIs) {
  for (const std::uint64_t replicas : {4, 5, 9}) {
    for (const FaultKind kind : {FaultKind::kKillWorker, FaultKind::kCrashWorker,
                                 FaultKind::kHangDevice, FaultKind::kPauseWorker}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Outcome outcome = RunWell(OneFaultInTwoRegions(seed, replicas, kind));
        EXPECT_LE(outcome.departures, 1u) << NameOf(kind) << ", seed " << seed;
        EXPECT_EQ(outcome.generations, 1u) << NameOf(kind) << ", seed " << seed;
      }
    }
  }
}

TEST(SimulationTest, OverRegionsOneBrokenPairCostsNoWorkerAndSecondsToo) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome outcome = RunWell(OneFaultInTwoRegions(seed, 6, FaultKind::kCutPair));
    EXPECT_EQ(outcome.departures, 0u) << "seed " << seed;
    EXPECT_LT(outcome.seconds, 10) << "seed " << seed;
  }
}

TEST(SimulationTest, TheLossOfARegionTakesNoStageThatWasInTwo) {
  int held = 0, lost = 0;
  for (const auto& replicas : {std::vector<std::uint64_t>{4, 4}, {3, 5}, {3, 3, 3}, {2, 6}}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Scenario scenario = OneFaultInTwoRegions(seed, 1, FaultKind::kLoseRegion);
      scenario.job.replicas = replicas;
      scenario.job.steps = 60;
      scenario.fault_gap = std::chrono::seconds(1);
      scenario.survive_region_loss = true;
      scenario.balance = protocol::BalancePolicy::kEvent;
      scenario.pods = 0;
      const Outcome outcome = RunWell(scenario);
      if (!outcome.held_apart) continue;
      ++lost;
      if (!*outcome.held_apart) continue;
      ++held;
      EXPECT_EQ(outcome.generations, 1u) << "seed " << seed << ", " << replicas.size() << " stages";
    }
  }
  EXPECT_GT(held, lost / 2) << "of " << lost;
}

/// One stage of that many, whose replicas divide its update.
Scenario OneFaultAmongHolders(std::uint64_t seed, std::uint64_t replicas, FaultKind kind) {
  Scenario scenario = OneFault(seed, {replicas}, kind);
  scenario.job.divided = true;
  return scenario;
}

TEST(SimulationTest, ALossAmongHoldersCostsOneWorkerAndNoRollback) {
  for (const std::uint64_t replicas : {2, 3, 5, 8}) {
    for (const FaultKind kind :
         {FaultKind::kKillWorker, FaultKind::kCrashWorker, FaultKind::kHangDevice,
          FaultKind::kPauseWorker, FaultKind::kIsolate, FaultKind::kDrain, FaultKind::kJoin}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Outcome outcome = RunWell(OneFaultAmongHolders(seed, replicas, kind));
        EXPECT_LE(outcome.departures, 1u) << NameOf(kind) << ", seed " << seed;
        EXPECT_EQ(outcome.generations, 1u) << NameOf(kind) << ", seed " << seed;
      }
    }
  }
}

TEST(SimulationTest, WrongWeightsOfAHolderTakeTheJobBackAndCountNowhere) {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Outcome outcome = RunWell(OneFaultAmongHolders(seed, 4, FaultKind::kFlipWeights));
    EXPECT_LE(outcome.generations, 2u) << "seed " << seed;
    found += outcome.departures;
    EXPECT_LE(RunWell(OneFaultAmongHolders(seed, 4, FaultKind::kFlipDigest)).departures, 1u);
    EXPECT_LE(RunWell(OneFaultAmongHolders(seed, 4, FaultKind::kFlipSum)).departures, 1u);
  }
  EXPECT_GT(found, 20u);
}

/// The parameter is the number of seeds.
class SweepTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SweepTest, AllFaultsTogetherKeepTheInvariants) {
  ExpectNoFailure({.count = GetParam(), .threads = kThreads});
}

TEST_P(SweepTest, AuditsKeepTheInvariants) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  options.wishes.audits = true;
  ExpectNoFailure(options);
}

TEST_P(SweepTest, RoutesThatFollowLinksKeepTheInvariants) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  const std::uint64_t plain = Sweep(options).fingerprint;
  options.wishes.unlike_links = true;
  ExpectNoFailure(options);
  EXPECT_NE(Sweep(options).fingerprint, plain);
}

TEST_P(SweepTest, SumsOverGridsKeepTheInvariants) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  options.wishes.grids = true;
  ExpectNoFailure(options);
}

TEST_P(SweepTest, SumsOverRegionsKeepTheInvariants) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  options.wishes.regions = true;
  ExpectNoFailure(options);
}

TEST_P(SweepTest, StagesAreInTwoRegionsAsFarAsWorkersAllow) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  options.wishes.survive = true;
  ExpectNoFailure(options);
}

TEST_P(SweepTest, ASparseMeshKeepsTheInvariants) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  const std::uint64_t all_pairs = Sweep(options).fingerprint;
  options.wishes.sparse = true;
  ExpectNoFailure(options);
  EXPECT_NE(Sweep(options).fingerprint, all_pairs);
  options.count = 1;
  // A worker was blamed for a state of the stage that it had left.
  options.first = 5264;
  ExpectNoFailure(options);
  // A gradient was computed again and again by the one replica that another could not send to.
  options.first = 5020;
  ExpectNoFailure(options);
}

TEST_P(SweepTest, UpdatesThatReplicasDivideKeepTheInvariants) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  options.wishes.divided = true;
  ExpectNoFailure(options);
}

TEST_P(SweepTest, StepsOfReplicasKeepTheInvariants) {
  SweepOptions options{.count = GetParam(), .threads = kThreads};
  options.wishes.order_sensitive = true;
  const std::uint64_t of_the_job_alone = Sweep(options).fingerprint;
  options.wishes.local = true;
  ExpectNoFailure(options);
  EXPECT_NE(Sweep(options).fingerprint, of_the_job_alone);
}

INSTANTIATE_TEST_SUITE_P(Brief, SweepTest, ::testing::Values(300));
// make test-heavy
INSTANTIATE_TEST_SUITE_P(Long, SweepTest, ::testing::Values(10'000));

/// Rules that are broken together, and the invariant that must notice.
struct MutationCase {
  std::string name;
  std::vector<std::string> mutations;
  std::string invariant;
  std::uint64_t seeds_max = 6000;
  Wishes wishes = {};
};

class MutationTest : public ::testing::TestWithParam<MutationCase> {};

TEST_P(MutationTest, IsNoticed) {
  const MutationCase& mutation = GetParam();
  // One thread, so that it is always the same seed which notices first.
  SweepOptions options{.count = mutation.seeds_max, .wishes = mutation.wishes};
  for (const std::string& name : mutation.mutations) {
    ASSERT_TRUE(Mutate(name, &options.mutations)) << name;
  }
  // A seed may show another harm first.
  while (options.first < mutation.seeds_max) {
    options.count = mutation.seeds_max - options.first;
    const SweepResult result = Sweep(options);
    if (result.failures.empty()) break;
    if (result.failures.front().violation.invariant == mutation.invariant) return;
    options.first = result.failures.front().seed + 1;
  }
  ADD_FAILURE() << mutation.invariant << " did not notice it in " << mutation.seeds_max << " seeds";
}

// Claim equality hides most double folds, so most cases switch it off, too.
INSTANTIATE_TEST_SUITE_P(
    Rules, MutationTest,
    ::testing::Values(
        MutationCase{"ReissueWithoutRevoke", {"reissue", "claims"}, "ExactlyOnce"},
        MutationCase{"RevokeKeepsTheAttemptOpen", {"revoke-keeps-open", "claims"}, "ExactlyOnce"},
        MutationCase{"UnlistedAttempts", {"unlisted", "claims"}, "ExactlyOnce"},
        MutationCase{"ReissueOfLocalStepsWithoutRevoke",
                     {"reissue", "claims"},
                     "ExactlyOnce",
                     6000,
                     {.local = true}},
        MutationCase{"UnlistedAttemptsOfLocalSteps",
                     {"unlisted", "claims"},
                     "ExactlyOnce",
                     6000,
                     {.local = true}},
        MutationCase{"LocalStepsCommitAfterTheFirstReduced",
                     {"first-reduced"},
                     "AllOrNothing",
                     6000,
                     {.local = true}},
        MutationCase{
            "MovesThatNoStepCountsAreKept", {"keep-cleared"}, "AtMostOnce", 6000, {.local = true}},
        // The floor of a welcome closes most of what an earlier generation has sent out, too.
        MutationCase{"NoGeneration", {"generation", "claims"}, "ExactlyOnce", 10000},
        MutationCase{"TermPromise", {"promise"}, "Fencing"},
        MutationCase{"CommitAfterTheFirstReduced", {"first-reduced"}, "AllOrNothing"},
        MutationCase{"PropagateFolds", {"propagate-folds"}, "Progress"},
        MutationCase{"ParcelCountsEarly", {"early-parcel"}, "Progress"},
        MutationCase{"TakeoverForgetsTheRecord", {"takeover-record"}, "NothingLost"},
        MutationCase{"OverwrittenVersion", {"overwrite-early"}, "SameTrajectory"},
        MutationCase{"MixedVersionsForAJoiner", {"mixed-join"}, "SameTrajectory"},
        MutationCase{"AdmissionWaitsForBytes", {"admission-bytes"}, "Progress"},
        MutationCase{"AnyOfferIsBelieved",
                     {"any-offer"},
                     "SameTrajectory",
                     6000,
                     {.only = FaultKind::kFlipWeights}},
        MutationCase{"AnyHolderIsBelieved",
                     {"any-part"},
                     "SameTrajectory",
                     6000,
                     {.only = FaultKind::kFlipWeights, .divided = true}},
        MutationCase{"ACommitTrusts",
                     {"trusting"},
                     "SameTrajectory",
                     6000,
                     {.only = FaultKind::kFlipWeights}},
        MutationCase{"ACommitDoesNotAwaitAudits",
                     {"hasty"},
                     "SameTrajectory",
                     6000,
                     {.only = FaultKind::kFlipGradient, .audits = true}},
        MutationCase{
            "ARegionsSumLacksARow", {"half-region"}, "ExactlyOnce", 6000, {.regions = true}},
        MutationCase{"RegionsDoNotCount", {"one-region"}, "TwoRegions", 6000, {.survive = true}},
        MutationCase{
            "BlindToBrokenPairs", {"blind"}, "Progress", 6000, {.only = FaultKind::kCutPair}}),
    [](const auto& info) { return info.param.name; });

/// A second rule catches what breaking the first alone would let through. An invariant notices when
/// both are off.
INSTANTIATE_TEST_SUITE_P(HiddenRules, MutationTest,
                         ::testing::Values(MutationCase{"AnyKAfterATakeoverOfEvicted",
                                                        {"any-k", "takeover-roster"},
                                                        "AllOrNothing",
                                                        20'000,
                                                        {.order_sensitive = true}}),
                         [](const auto& info) { return info.param.name; });

TEST(MutationTest, ClaimEqualityAloneStopsWhatIsFoldedTwice) {
  SweepOptions options{.count = 300, .threads = kThreads, .failures_max = 300};
  Mutate("reissue", &options.mutations);
  for (const SeedFailure& failure : Sweep(options).failures) {  // it may cost a job its end
    EXPECT_EQ(failure.violation.invariant, "Progress") << Describe(failure, options.wishes);
  }
}

}  // namespace
}  // namespace swarm::simulation
