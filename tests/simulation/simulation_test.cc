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

/// A job on that many replicas, with one fault: two workers do not reach each other.
Outcome RunWithACutPair(std::uint64_t seed, std::vector<std::uint64_t> replicas) {
  Scenario scenario = DrawScenario(seed);
  scenario.job = {.replicas = std::move(replicas), .microbatches = 8, .steps = 20};
  scenario.network = {};
  scenario.faults = 1;
  scenario.kinds = {FaultKind::kCutPair};
  scenario.resend_probability = scenario.corrupt_probability = scenario.slow_probability = 0;
  scenario.checkpoint_error_probability = 0;
  scenario.balance = protocol::BalancePolicy::kNone;
  scenario.spares = 0;
  scenario.retained_bytes_max = 1 << 20;
  return Simulation(scenario, {}, false).Run();
}

TEST(SimulationTest, OneBrokenPairCostsNoWorkerAndSeconds) {
  for (const auto& replicas : {std::vector<std::uint64_t>{16}, {8, 8}, {2, 1}, {1, 1, 1}}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Outcome outcome = RunWithACutPair(seed, replicas);
      EXPECT_FALSE(outcome.violation) << "seed " << seed << ": " << outcome.violation->text;
      EXPECT_EQ(outcome.departures, 0u) << "seed " << seed;
      EXPECT_LT(outcome.seconds, 10) << "seed " << seed << ", " << replicas.size() << " stages";
    }
  }
}

class FaultTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FaultTest, OfOneKindNeverChangesTheLosses) {
  SweepOptions options{.count = 400, .threads = kThreads};
  options.wishes.only = static_cast<FaultKind>(GetParam());
  ExpectNoFailure(options);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultTest, ::testing::Range<std::uint64_t>(0, kFaultKinds),
                         [](const auto& info) {
                           std::string name(NameOf(static_cast<FaultKind>(info.param)));
                           std::erase(name, '-');
                           return name;
                         });

TEST(SimulationTest, TenThousandSeedsOfAllFaultsKeepTheInvariants) {
  ExpectNoFailure({.count = 10'000, .threads = kThreads});
}

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
  const SweepResult result = Sweep(options);
  ASSERT_FALSE(result.failures.empty())
      << "no invariant noticed it in " << mutation.seeds_max << " seeds";
  EXPECT_EQ(result.failures.front().violation.invariant, mutation.invariant)
      << Describe(result.failures.front(), options.wishes);
}

// Claim equality hides most double folds, so most cases switch it off, too.
INSTANTIATE_TEST_SUITE_P(
    Rules, MutationTest,
    ::testing::Values(
        MutationCase{"ReissueWithoutRevoke", {"reissue", "claims"}, "ExactlyOnce"},
        MutationCase{"RevokeKeepsTheAttemptOpen", {"revoke-keeps-open", "claims"}, "ExactlyOnce"},
        MutationCase{"UnlistedAttempts", {"unlisted", "claims"}, "ExactlyOnce"},
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
  SweepOptions options{.count = 300, .threads = kThreads};
  Mutate("reissue", &options.mutations);
  ExpectNoFailure(options);
}

}  // namespace
}  // namespace swarm::simulation
