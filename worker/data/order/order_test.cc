#include "worker/data/order/order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "worker/data/order/permutation.h"

namespace swarm::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint64_t> All(std::uint64_t key, std::uint64_t count) {
  const Permutation permutation(key, count);
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t i = 0; i < count; ++i) values[i] = permutation(i);
  return values;
}

Order Make(std::uint64_t seed, std::vector<OrderedSource> sources) {
  auto order = Order::Make(seed, std::move(sources));
  EXPECT_TRUE(order.ok()) << order.status().ToString();
  return *std::move(order);
}

TEST(PermutationTest, EveryNumberComesOnceAtEverySize) {
  std::vector<std::uint64_t> sizes(300);
  for (std::uint64_t i = 0; i < sizes.size(); ++i) sizes[i] = i + 1;
  for (const std::uint64_t size : {1023, 1024, 1025, 65535, 65537, 100000}) sizes.push_back(size);
  for (const std::uint64_t size : sizes) {
    std::vector<std::uint64_t> values = All(size * 7, size);
    std::ranges::sort(values);
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(values[i], i) << size;
  }
}

TEST(PermutationTest, HugeSizesAreNoSlower) {
  const std::uint64_t count = (std::uint64_t{1} << 62) + 12345;
  const Permutation permutation(3, count);
  std::set<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 1000; ++i) values.insert(permutation(count - 1 - i));
  EXPECT_EQ(values.size(), 1000u);
  EXPECT_LT(*values.rbegin(), count);
}

TEST(PermutationTest, AKeyFixesItForever) {
  // Golden: a change here silently changes the data order of every job that resumes.
  EXPECT_THAT(All(1, 8), ElementsAre(7, 6, 0, 4, 2, 5, 1, 3));
  EXPECT_NE(All(1, 100), All(2, 100));
}

// The keys are fixed, so the counts are, too: the bounds cannot be missed by chance.
TEST(PermutationTest, EveryPlaceGetsEveryNumberAboutEquallyOften) {
  for (const std::uint64_t count : {5, 8, 13}) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, int> times;
    constexpr int kKeys = 4000;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const auto values = All(key, count);
      for (std::uint64_t i = 0; i < count; ++i) ++times[{i, values[i]}];
    }
    ASSERT_EQ(times.size(), count * count);
    const double expected = kKeys / static_cast<double>(count);
    for (const auto& [place, n] : times) EXPECT_NEAR(n, expected, 0.2 * expected) << count;
  }
}

TEST(PermutationTest, NeighboursDoNotStayTogether) {
  constexpr std::uint64_t kCount = 10'000;
  const auto values = All(5, kCount);
  std::uint64_t close = 0;
  for (std::uint64_t i = 0; i + 1 < kCount; ++i) {
    const auto [low, high] = std::minmax(values[i], values[i + 1]);
    close += high - low <= 10 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(close), 20, 20);  // of random ones 2 in 1,000
}

TEST(OrderTest, EachSequenceComesOnceInEachEpoch) {
  const Order order = Make(42, {{.sequences = 97}});
  std::vector<std::vector<std::uint64_t>> epochs;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint64_t>& drawn = epochs.emplace_back();
    for (std::uint64_t i = 0; i < 97; ++i) drawn.push_back(order.At(epoch * 97 + i).sequence);
    EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), 97u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_DOUBLE_EQ(order.Epochs(0, 97 * 3), 3);
}

TEST(OrderTest, SourcesAreMixedByTheirWeights) {
  const Order order =
      Make(1, {{.sequences = 1000, .weight = 7}, {.sequences = 10, .weight = 2}, {.sequences = 30}});
  std::vector<std::uint64_t> drawn(3, 0);
  for (std::uint64_t draw = 0; draw < 25'000; ++draw) {
    ++drawn[order.At(draw).source];
    if ((draw + 1) % 100 != 0) continue;
    EXPECT_NEAR(static_cast<double>(drawn[0]), 0.7 * static_cast<double>(draw + 1), 2);
    EXPECT_NEAR(static_cast<double>(drawn[1]), 0.2 * static_cast<double>(draw + 1), 2);
    for (std::uint32_t s = 0; s < 3; ++s) EXPECT_EQ(order.DrawsOf(s, draw + 1), drawn[s]);
  }
  EXPECT_THAT(drawn, ElementsAre(17'500, 5'000, 2'500));
}

TEST(OrderTest, EachSourceOfAMixtureHasEpochsOfItsOwn) {
  const std::vector<OrderedSource> sources = {{.sequences = 50, .weight = 0.3},
                                              {.sequences = 11, .weight = 0.7}};
  const Order order = Make(9, sources);
  std::vector<std::vector<std::uint64_t>> drawn(2);
  for (std::uint64_t draw = 0; draw < 1000; ++draw) {
    const Place place = order.At(draw);
    drawn[place.source].push_back(place.sequence);
  }
  for (std::size_t s = 0; s < 2; ++s) {
    const std::uint64_t count = sources[s].sequences;
    for (std::size_t begin = 0; begin + count <= drawn[s].size(); begin += count) {
      const auto from = drawn[s].begin() + static_cast<std::ptrdiff_t>(begin);
      const std::set epoch(from, from + static_cast<std::ptrdiff_t>(count));
      ASSERT_EQ(epoch.size(), count) << "source " << s << ", from its draw " << begin;
    }
  }
}

TEST(OrderTest, ASourceThatCannotBeDrawnIsRefusedByItsIndex) {
  const auto error = [](std::vector<OrderedSource> sources) {
    return Order::Make(1, std::move(sources)).status().message();
  };
  EXPECT_THAT(error({{.sequences = 1}, {.sequences = 0}}), HasSubstr("source 1 has no sequences"));
  EXPECT_THAT(error({{.sequences = 1, .weight = -1}}), HasSubstr("a number above 0"));
  EXPECT_THAT(error({{.sequences = 1}, {.sequences = 1, .weight = 1e-6}}),
              HasSubstr("source 1 has a weight of less than one in 10000"));
}

}  // namespace
}  // namespace swarm::data
