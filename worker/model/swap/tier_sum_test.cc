// A sum in a tier is what the same additions give in memory.
#include "worker/model/swap/tier_sum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "worker/checkpoint/pieces.h"
#include "worker/model/swap/step_sums.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/norm.h"

namespace swarm::model {
namespace {

using Element = TierSum::Element;

/// Parameters that share blocks of the tier, one that lies within a block, and one of several
/// pieces. Another group has one of its own.
const std::vector<ParameterSlot>& Slots() {
  static const std::vector<ParameterSlot> slots = [] {
    std::vector<ParameterSlot> made;
    std::uint64_t offset = 0;
    for (const std::uint64_t count : {1500u, 7u, 100u, 3'000'000u, 4097u}) {
      made.push_back({.name = std::to_string(count), .group = 0, .offset = offset, .count = count});
      offset += count;
    }
    made.push_back({.name = "other", .group = 1, .offset = 0, .count = 5});
    return made;
  }();
  return slots;
}
constexpr std::size_t kParts = 5;
std::uint64_t Count() { return Slots()[kParts - 1].offset + Slots()[kParts - 1].count; }

std::vector<float> Numbers(std::uint64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

Bytes BytesOf(const std::vector<float>& numbers) {
  return Bytes::Copy(numbers.data(), numbers.size() * sizeof(float));
}

template <typename T>
std::vector<T> NumbersOf(const Bytes& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

class TierSumTest : public ::testing::Test {
 protected:
  TierSumTest() : space_(*tier::OpenFileTier(std::filesystem::temp_directory_path())) {
    // What the tier gives has been another's.
    const auto used = space_.Take(Count() * 8);
    EXPECT_TRUE(used.ok());
    const std::vector<std::byte> ones((*used)->size(), std::byte{0xff});
    EXPECT_TRUE(space_.tier().Write((*used)->offset(), ones).ok());
  }

  TierSum Make(Element element) {
    Result<TierSum> sum = TierSum::Make(space_, Slots(), 0, element);
    EXPECT_TRUE(sum.ok()) << sum.status().ToString();
    return *std::move(sum);
  }
  /// Adds to a part of `sum`, and to `expected`.
  void Add(TierSum* sum, std::size_t part, unsigned seed, std::vector<float>* expected) {
    const ParameterSlot& slot = Slots()[part];
    const std::vector<float> numbers = Numbers(slot.count, seed);
    Transit leaving;
    ASSERT_TRUE(sum->Add(slot.offset, BytesOf(numbers), &leaving).ok());
    ASSERT_TRUE(leaving.Wait().ok());
    for (std::size_t i = 0; i < numbers.size(); ++i) (*expected)[slot.offset + i] += numbers[i];
  }

  tier::Space space_;
};

TEST_F(TierSumTest, PartsAreAddedInAnyOrderAndWhatNothingWasAddedToIsZero) {
  TierSum sum = Make(Element::kFloat);
  std::vector<float> expected(Count());
  for (const std::size_t part : {4, 1, 3}) Add(&sum, part, 1, &expected);
  Add(&sum, 1, 2, &expected);
  Add(&sum, 3, 3, &expected);
  EXPECT_TRUE(sum.Holds(Slots()[4].offset));
  EXPECT_FALSE(sum.Holds(Slots()[0].offset));
  EXPECT_EQ(NumbersOf<float>(sum.Show()->elements), expected);
}

TEST_F(TierSumTest, WhatIsToldOfASumIsWhatItsElementsGive) {
  TierSum sum = Make(Element::kFloat);
  std::vector<float> expected(Count());
  for (std::size_t part = 0; part < kParts; ++part) Add(&sum, part, 1, &expected);
  const Result<TierSum::Shown> shown = sum.Show();
  ASSERT_TRUE(shown.ok());
  ASSERT_EQ(shown->piece_digests.size(), 2u) << "of 12 MB; the last piece is not full";
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(shown->piece_digests[i], ComputeDigest(shown->elements.span().subspan(
                                           i * checkpoint::kPieceBytes, checkpoint::kPieceBytes)));
  }
  ASSERT_EQ(shown->squared_norms.size(), kParts);
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::span of(expected.data() + Slots()[part].offset, Slots()[part].count);
    EXPECT_EQ(shown->squared_norms[part], optim::SquaredNorm(of)) << part;
  }
  Transit coming;
  const Bytes some = sum.Bring(1400, 300, &coming);
  ASSERT_TRUE(coming.Wait().ok());
  EXPECT_EQ(some.text(), shown->elements.Slice(1400 * 4, 300 * 4).text());
}

TEST_F(TierSumTest, IntegersAreThoseOfTheSameAdditionsInMemory) {
  TierSum floats = Make(Element::kFloat), sum = Make(Element::kInteger);
  std::vector<float> ignored(Count());
  Add(&floats, 0, 1, &ignored);
  Add(&floats, 3, 2, &ignored);
  std::vector<std::int64_t> expected(Count());
  constexpr int kExponent = 20;
  for (int times = 0; times < 2; ++times) {
    for (const std::size_t part : {3, 0}) {
      const ParameterSlot& slot = Slots()[part];
      const std::vector<float> numbers = Numbers(slot.count, part == 0 ? 1 : 2);
      const float largest = optim::LargestMagnitude(numbers);
      optim::AddQuantized(numbers, kExponent, largest,
                          std::span(expected).subspan(slot.offset, slot.count));
      ASSERT_TRUE(sum.AddQuantized(slot.offset, floats, kExponent, largest).ok());
    }
  }
  const Result<TierSum::Shown> shown = sum.Show();
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(NumbersOf<std::int64_t>(shown->elements), expected);
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::span of(expected.data() + Slots()[part].offset, Slots()[part].count);
    EXPECT_EQ(optim::ScaleSquares(shown->squared_norms[part], kExponent),
              optim::SquaredNorm(of, kExponent));
  }
  Result<TierSum> twice = sum.Copy();
  ASSERT_TRUE(twice.ok());
  ASSERT_TRUE(twice->AddAll(shown->elements.span()).ok());
  for (std::int64_t& q : expected) q *= 2;
  EXPECT_EQ(NumbersOf<std::int64_t>(twice->Show()->elements), expected);
}

TEST_F(TierSumTest, SumsAreAddedToSums) {
  TierSum one = Make(Element::kFloat), other = Make(Element::kFloat);
  std::vector<float> expected(Count()), of_other(Count());
  Add(&one, 3, 1, &expected);
  Add(&other, 3, 2, &of_other);
  Add(&other, 2, 3, &of_other);
  for (const std::size_t part : {2, 3}) {
    ASSERT_TRUE(one.Add(Slots()[part].offset, other).ok());
  }
  ASSERT_TRUE(one.AddAll(other.Show()->elements.span()).ok());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = (expected[i] + of_other[i]) + of_other[i];
  }
  EXPECT_EQ(NumbersOf<float>(one.Show()->elements), expected);
}

TEST_F(TierSumTest, ElementsThatAreInUseAreLeftToTheirReaders) {
  TierSum sum = Make(Element::kFloat);
  std::vector<float> expected(Count());
  Add(&sum, 0, 1, &expected);
  EXPECT_FALSE(sum.IsShown());
  Bytes shown = sum.Show()->elements;
  EXPECT_TRUE(sum.IsShown());
  EXPECT_TRUE(sum.IsShownAs(shown));
  EXPECT_FALSE(sum.IsShownAs(Bytes::Copy(shown.data(), shown.size())));
  Result<TierSum> copy = sum.Copy();
  ASSERT_TRUE(copy.ok());
  EXPECT_FALSE(copy->IsShown());
  EXPECT_FALSE(copy->IsShownAs(shown));
  std::vector<float> more = expected;
  Add(&*copy, 0, 2, &more);
  EXPECT_EQ(NumbersOf<float>(shown), expected);
  EXPECT_EQ(NumbersOf<float>(copy->Show()->elements), more);
  shown = {};
  EXPECT_FALSE(sum.IsShown());
}

TEST_F(TierSumTest, ASumThatIsToBeReadIsInUse) {
  TierSum sum = Make(Element::kFloat);
  std::vector<float> expected(Count());
  Add(&sum, 0, 1, &expected);
  auto read = sum.BeginShow();
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(sum.IsShown());
  {
    const Result<TierSum::Shown> shown = (*read)();
    ASSERT_TRUE(shown.ok());
    EXPECT_EQ(NumbersOf<float>(shown->elements), expected);
    EXPECT_TRUE(sum.IsShownAs(shown->elements));
  }
  *read = nullptr;
  EXPECT_FALSE(sum.IsShown());
}

TEST_F(TierSumTest, AGroupHasOnlyItsOwnParameters) {
  Result<TierSum> sum = TierSum::Make(space_, Slots(), 1, Element::kFloat);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(sum->bytes(), 5 * sizeof(float));
  EXPECT_EQ(NumbersOf<float>(sum->Show()->elements), std::vector<float>(5));
}

TEST_F(TierSumTest, AStepsSumsAreKnownByWhatWasShownOfThem) {
  Layout layout;
  layout.slots = Slots();
  layout.groups.resize(2);
  StepSums sums(layout, api::Accumulation::kFloat, space_);
  const auto show = [&](Step step) {
    std::vector<Bytes> shown;
    for (std::uint64_t group = 0; group < 2; ++group) {
      shown.push_back(sums.BeginRead(step, group, {})()->elements);
    }
    return shown;
  };
  const std::vector<Bytes> one = show(Step(5)), other = show(Step(9));
  EXPECT_NE(sums.ShownAs(one), nullptr);
  EXPECT_NE(sums.ShownAs(other), sums.ShownAs(one));
  EXPECT_EQ(sums.ShownAs(std::vector<Bytes>{one[0], other[1]}), nullptr);
  sums.Erase(Step(5));
  EXPECT_EQ(sums.ShownAs(one), nullptr);
  EXPECT_NE(sums.ShownAs(other), nullptr);
}

}  // namespace
}  // namespace swarm::model
