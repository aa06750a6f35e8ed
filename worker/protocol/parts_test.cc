#include "worker/protocol/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"

namespace swarm::protocol {
namespace {

using Now = std::vector<std::set<WorkerId>>;

std::vector<WorkerId> Names(std::size_t count) {
  std::vector<WorkerId> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(WorkerId("w" + std::to_string(100 + i)));
  return names;
}

Now After(const std::vector<PartHolders>& holders) {
  Now now;
  for (const PartHolders& h : holders) {
    now.push_back({h.first});
    if (!h.second.empty()) now.back().insert(h.second);
  }
  return now;
}

/// The state that was loaded: every replica has all.
Now Whole(std::size_t parts, const std::vector<WorkerId>& replicas) {
  return Now(parts, {replicas.begin(), replicas.end()});
}

std::map<WorkerId, std::uint64_t> Loads(const std::vector<std::uint64_t>& sizes,
                                        const std::vector<PartHolders>& holders,
                                        bool first_alone = false) {
  std::map<WorkerId, std::uint64_t> loads;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    loads[holders[p].first] += sizes[p];
    if (!first_alone && !holders[p].second.empty()) loads[holders[p].second] += sizes[p];
  }
  return loads;
}

std::uint64_t Moved(const std::vector<std::uint64_t>& sizes, const Now& now,
                    const std::vector<PartHolders>& holders) {
  const Now after = After(holders);
  std::uint64_t moved = 0;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    for (const WorkerId& id : after[p]) moved += now[p].contains(id) ? 0 : sizes[p];
  }
  return moved;
}

TEST(PartsTest, TwoReplicasHoldEveryPartAndEachIsFirstOfHalf) {
  const std::vector<std::uint64_t> sizes{8, 4, 4, 2, 2, 2, 2};
  const auto holders = ChooseHolders(sizes, Whole(7, Names(2)), Names(2));
  for (const PartHolders& h : holders) EXPECT_TRUE(h.Has(Names(2)[0]) && h.Has(Names(2)[1]));
  for (const auto& [id, load] : Loads(sizes, holders, true)) EXPECT_EQ(load, 12u) << id.value;
}

TEST(PartsTest, AReplicaAloneHoldsEveryPartAlone) {
  const auto holders = ChooseHolders({1, 1}, Whole(2, Names(1)), Names(1));
  for (const PartHolders& h : holders) EXPECT_EQ(h, (PartHolders{Names(1)[0], {}}));
}

TEST(PartsTest, EightReplicasHoldAQuarterEach) {
  const std::vector<std::uint64_t> sizes(64, 10);
  const auto holders = ChooseHolders(sizes, Whole(64, Names(8)), Names(8));
  for (const auto& [id, load] : Loads(sizes, holders)) EXPECT_EQ(load, 160u) << id.value;
  for (const auto& [id, load] : Loads(sizes, holders, true)) EXPECT_NEAR(load, 80, 20) << id.value;
}

TEST(PartsTest, ADepartureMovesWhatTheWorkerHeldAndLittleElse) {
  const std::vector<std::uint64_t> sizes(64, 10);
  Now now = After(ChooseHolders(sizes, Whole(64, Names(8)), Names(8)));
  for (std::set<WorkerId>& holders : now) holders.erase(Names(8)[7]);
  const auto holders = ChooseHolders(sizes, now, Names(7));
  EXPECT_LE(Moved(sizes, now, holders), 160u + 80u);
}

TEST(PartsTest, AJoinerTakesOverItsShareOverSomeSteps) {
  const std::vector<std::uint64_t> sizes(64, 10);
  Now now = After(ChooseHolders(sizes, Whole(64, Names(7)), Names(7)));
  int steps = 0;
  for (; steps < 20; ++steps) {
    const auto holders = ChooseHolders(sizes, now, Names(8));
    const std::uint64_t moved = Moved(sizes, now, holders);
    EXPECT_LE(moved, 80u);
    now = After(holders);
    if (moved == 0) {
      EXPECT_GE(Loads(sizes, holders)[Names(8)[7]], 150u);
      break;
    }
  }
  EXPECT_GT(steps, 1);
  EXPECT_LT(steps, 20);
}

TEST(PartsTest, WhoLeavesKeepsAPartOnlyUntilAnotherHasIt) {
  // w101 leaves, and holds the second part alone.
  const Now now{{Names(2)[0]}, {Names(2)[1]}};
  const auto holders = ChooseHolders({1, 1}, now, Names(1));
  EXPECT_EQ(holders[0], (PartHolders{Names(1)[0], {}}));
  EXPECT_TRUE(holders[1].Has(Names(2)[0]) && holders[1].Has(Names(2)[1]));
  const auto next = ChooseHolders({1, 1}, After(holders), Names(1));
  EXPECT_EQ(next[1], (PartHolders{Names(1)[0], {}}));
}

TEST(PartsTest, WhateverComesAndGoesOneHolderOfAPartHasItAndTheLoadsAreAlike) {
  Rng rng(7);
  for (int history = 0; history < 200; ++history) {
    std::vector<std::uint64_t> sizes(1 + rng.Below(40));
    for (std::uint64_t& size : sizes) size = 1 + rng.Below(100);
    std::set<WorkerId> replicas;
    for (const WorkerId& id : Names(1 + rng.Below(6))) replicas.insert(id);
    std::uint64_t names = 6;
    Now now = Whole(sizes.size(), {replicas.begin(), replicas.end()});
    for (int step = 0; step < 40; ++step) {
      if (step < 20 && replicas.size() > 2 && rng.Below(3) == 0) {
        const WorkerId gone =
            *std::next(replicas.begin(), static_cast<std::ptrdiff_t>(rng.Below(replicas.size())));
        replicas.erase(gone);
        for (std::set<WorkerId>& holders : now) holders.erase(gone);
        if (std::ranges::any_of(now, &std::set<WorkerId>::empty)) break;  // both went: a rollback
      }
      if (step < 20 && rng.Below(3) == 0) replicas.insert(Names(names + 1)[names]), ++names;
      const std::vector<WorkerId> ids(replicas.begin(), replicas.end());
      const auto holders = ChooseHolders(sizes, now, ids);
      for (std::size_t p = 0; p < sizes.size(); ++p) {
        const PartHolders& h = holders[p];
        EXPECT_TRUE(now[p].contains(h.first) || now[p].contains(h.second));
        EXPECT_NE(h.first, h.second);
        EXPECT_EQ(h.second.empty(), ids.size() == 1);
        EXPECT_TRUE(replicas.contains(h.first) &&
                    (h.second.empty() || replicas.contains(h.second)));
      }
      if (step == 39) {
        EXPECT_EQ(Moved(sizes, now, holders), 0u) << "nothing came or went";
        auto loads = Loads(sizes, holders);
        const std::uint64_t largest = *std::ranges::max_element(sizes);
        const auto [least, most] =
            std::ranges::minmax(ids, {}, [&](const WorkerId& id) { return loads[id]; });
        EXPECT_LE(loads[most], loads[least] + largest);
      }
      now = After(holders);
    }
  }
}

Reduced Report(std::vector<PartDigest> parts, std::vector<TensorNorm> norms) {
  Reduced reduced;
  reduced.parts = std::move(parts);
  reduced.norms = std::move(norms);
  return reduced;
}

TEST(PartsTest, APartIsDifferentIfItsHoldersSaySoOrOneOfThemIsSilent) {
  const WorkerId a("a"), b("b"), c("c");
  const std::vector<PartHolders> holders{{a, b}, {b, c}, {c, a}, {a, {}}};
  const auto part = [](std::uint64_t p, std::uint64_t value) {
    return PartDigest{{{}, p}, {0, value}};
  };
  std::map<WorkerId, Reduced> reports{{a, Report({part(0, 1), part(2, 3), part(3, 4)}, {{"x", 1}})},
                                      {b, Report({part(0, 1), part(1, 2)}, {{"x", 1}, {"y", 2}})},
                                      {c, Report({part(1, 2), part(2, 3)}, {{"y", 2}, {"z", 3}})}};
  EXPECT_TRUE(FindDifferentParts(holders, reports).empty());
  const GroupReport all = CombineReports({}, holders, reports);
  EXPECT_EQ(all.result.digest, CombineDigests({{0, 1}, {0, 2}, {0, 3}, {0, 4}}));
  EXPECT_EQ(all.result.holders, holders);
  EXPECT_EQ(all.norms.size(), 3u);
  reports[c].parts[0].digest.low = 9;
  EXPECT_EQ(FindDifferentParts(holders, reports), std::vector<std::uint64_t>{1});
  reports[c].parts.clear();
  EXPECT_EQ(FindDifferentParts(holders, reports), (std::vector<std::uint64_t>{1, 2}));
}

TEST(PartsTest, AContributionThatIsNotFiniteCountsThoughItsWorkerHoldsNothing) {
  const WorkerId a("a"), b("b");
  std::map<WorkerId, Reduced> reports{
      {a, Report({{{{}, 0}, {}}}, {{"x", 1}})},
      {b, Report({}, {{"x", std::numeric_limits<double>::quiet_NaN()}})}};
  const GroupReport all = CombineReports({}, {{a, {}}}, reports);
  EXPECT_FALSE(std::isfinite(all.norms.front().squared));
}

}  // namespace
}  // namespace swarm::protocol
