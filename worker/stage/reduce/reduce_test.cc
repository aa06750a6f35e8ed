#include "worker/stage/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <tuple>
#include <type_traits>

#include "base/rng.h"

namespace swarm::stage {
namespace {

using protocol::ReduceChunk;
using protocol::WorkerId;

struct Flying {
  WorkerId from, to;
  ReduceChunk chunk;
  Bytes payload;
};

template <typename T>
std::span<const T> ElementsOf(const Bytes& bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// Participants of one reduce of floats or int64, and what is on its way between them.
template <typename T>
struct Ring {
  /// `part_sizes`: each part has two holders, which take turns (one, where there is one
  /// participant). `regions`: of the rows.
  Ring(std::size_t ranks, std::size_t elements, std::uint64_t seed, std::size_t rows = 1,
       const std::vector<std::uint64_t>& part_sizes = {}, std::vector<std::uint64_t> regions = {})
      : rng(seed) {
    protocol::Reduce reduce;
    reduce.rows = rows;
    reduce.regions = std::move(regions);
    for (std::size_t p = 0; p < part_sizes.size(); ++p) {
      const auto holder = [&](std::size_t i) { return WorkerId("w" + std::to_string(i % ranks)); };
      reduce.holders.push_back({holder(p), ranks > 1 ? holder(p + 1) : WorkerId()});
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      reduce.participants.emplace_back("w" + std::to_string(r));
      inputs.emplace_back(elements);
      for (T& x : inputs.back()) x = static_cast<T>((rng.Uniform() - 0.5) * 0x1p60);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      const WorkerId self = reduce.participants[r];
      parts.push_back(std::make_unique<GroupReduce>(
          reduce, self,
          model::GradientSum{.elements = Bytes::Copy(inputs[r].data(), elements * sizeof(T)),
                             .type = std::is_same_v<T, float> ? checkpoint::ElementType::kF32
                                                              : checkpoint::ElementType::kI64,
                             .exponents = {}},
          buffers,
          [this, self](const WorkerId& to, ReduceChunk chunk, Bytes bytes) {
            bytes_sent += bytes.size();
            bytes_by_pair[{self, to}] += bytes.size();
            flying.push_back({self, to, chunk, std::move(bytes)});
          },
          Thinning{}, part_sizes));
    }
  }

  GroupReduce& At(const WorkerId& id) { return *parts[std::stoul(id.value.substr(1))]; }

  void Run() {
    for (auto& part : parts) part->Start();
    while (!flying.empty()) {
      const auto it = flying.begin() + static_cast<std::ptrdiff_t>(rng.Below(flying.size()));
      const Flying one = *it;
      flying.erase(it);
      const Status status = At(one.to).OnChunk(one.from, one.chunk, one.payload);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }

  Rng rng;
  BufferPool buffers;
  std::vector<std::vector<T>> inputs;
  std::vector<std::unique_ptr<GroupReduce>> parts;
  std::deque<Flying> flying;
  std::size_t bytes_sent = 0;
  std::map<std::pair<WorkerId, WorkerId>, std::size_t> bytes_by_pair;
};

template <typename T>
class ElementReduceTest : public ::testing::Test {};
using Elements = ::testing::Types<float, std::int64_t>;
TYPED_TEST_SUITE(ElementReduceTest, Elements);

TYPED_TEST(ElementReduceTest, EveryParticipantGetsTheSameBitsInAnyOrderOfArrival) {
  for (const std::size_t ranks : {1, 2, 3, 5}) {
    for (const std::size_t elements : {1, 15, 16, 1000, 600000}) {
      Ring<TypeParam> ring(ranks, elements, ranks * 1000 + elements);
      ring.Run();
      std::vector<TypeParam> expected = ring.inputs[0];
      for (std::size_t r = 1; r < ranks; ++r) {
        for (std::size_t i = 0; i < elements; ++i) expected[i] += ring.inputs[r][i];
      }
      for (const auto& part : ring.parts) {
        ASSERT_TRUE(part->done()) << ranks << " ranks, " << elements << " elements";
        ASSERT_TRUE(std::ranges::equal(ElementsOf<TypeParam>(part->result()), expected));
      }
    }
  }
}

TYPED_TEST(ElementReduceTest, WherePartsHaveHoldersTheseGetTheirSumsAndNobodyElse) {
  const std::vector<std::uint64_t> sizes{1, 700'000, 3, 17, 300'000};
  const std::size_t elements = 1'000'021;
  for (const std::size_t ranks : {1, 2, 3, 6}) {
    Ring<TypeParam> ring(ranks, elements, ranks, 1, sizes);
    ring.Run();
    std::vector<TypeParam> expected = ring.inputs[0];
    for (std::size_t r = 1; r < ranks; ++r) {
      for (std::size_t i = 0; i < elements; ++i) expected[i] += ring.inputs[r][i];
    }
    for (const auto& part : ring.parts) EXPECT_TRUE(part->done()) << ranks;
    std::size_t begin = 0;
    for (std::size_t p = 0; p < sizes.size(); begin += sizes[p++]) {
      for (const std::size_t holder : {p % ranks, (p + 1) % ranks}) {
        const auto sum = ElementsOf<TypeParam>(ring.parts[holder]->result());
        EXPECT_TRUE(std::ranges::equal(sum.subspan(begin, sizes[p]),
                                       std::span(expected).subspan(begin, sizes[p])));
      }
    }
    // Each contribution but the first holder's own, and the sum for the second.
    EXPECT_EQ(ring.bytes_sent, (ranks == 1 ? 0 : ranks) * elements * sizeof(TypeParam));
  }
}

TYPED_TEST(ElementReduceTest, InAGridToo) {
  for (const std::size_t ranks : {2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 64}) {
    for (std::size_t rows = 2; rows <= std::min<std::size_t>(ranks, 10); ++rows) {
      for (const std::size_t elements : {1, 15, 16, 33, 1000, 600000}) {
        if (elements > 1000 && (rows > 3 || ranks > 10)) continue;
        Ring<TypeParam> ring(ranks, elements, ranks * 1000 + elements, rows);
        ring.Run();
        std::vector<double> expected(elements);
        std::vector<TypeParam> exact(elements);
        for (const auto& input : ring.inputs) {
          for (std::size_t i = 0; i < elements; ++i) {
            expected[i] += static_cast<double>(input[i]);
            exact[i] += input[i];
          }
        }
        const auto first = ElementsOf<TypeParam>(ring.parts[0]->result());
        for (const auto& part : ring.parts) {
          ASSERT_TRUE(part->done()) << ranks << " in " << rows << " rows, " << elements;
          ASSERT_TRUE(std::ranges::equal(ElementsOf<TypeParam>(part->result()), first));
        }
        for (std::size_t i = 0; i < elements; ++i) {
          if constexpr (std::is_same_v<TypeParam, float>) {
            ASSERT_NEAR(first[i], expected[i], 0x1p60 * 1e-5);
          } else {
            ASSERT_EQ(first[i], exact[i]) << "integers are the same in any order";
          }
        }
      }
    }
  }
}

/// The seating of participants in regions of so many each, and the region of each seat.
struct Regions {
  explicit Regions(const std::vector<std::size_t>& sizes) {
    std::vector<protocol::PlacedMember> members;
    for (std::size_t region = 0; region < sizes.size(); ++region) {
      for (std::size_t i = 0; i < sizes[region]; ++i) {
        const std::string name = std::to_string(region);
        members.push_back({WorkerId(name + "-" + std::to_string(i)), "", name});
      }
    }
    seating = protocol::SeatByPlace(members);
    for (const WorkerId& id : seating.seats) of_seat.push_back(id.value.front());
  }
  std::size_t seats() const { return seating.seats.size(); }
  /// What has crossed, of workers that are named by their seats.
  std::size_t Across(const std::map<std::pair<WorkerId, WorkerId>, std::size_t>& bytes) const {
    const auto region = [&](const WorkerId& id) { return of_seat[std::stoul(id.value.substr(1))]; };
    std::size_t across = 0;
    for (const auto& [pair, sent] : bytes) {
      if (region(pair.first) != region(pair.second)) across += sent;
    }
    return across;
  }

  protocol::Seating seating;
  std::vector<char> of_seat;
};

TYPED_TEST(ElementReduceTest, OverRegionsTooAndNoByteCrossesThatNeedNot) {
  for (const std::vector<std::size_t>& sizes : std::vector<std::vector<std::size_t>>{
           {1, 1}, {2, 1}, {4, 4, 4}, {5, 1, 3}, {2, 2, 2, 2}, {20, 9}}) {
    const Regions regions(sizes);
    const std::size_t ranks = regions.seats();
    for (const std::size_t elements : {1, 33, 1000, 600'000}) {
      if (elements > 1000 && ranks > 12) continue;
      Ring<TypeParam> ring(ranks, elements, ranks * 1000 + elements, regions.seating.rows, {},
                           regions.seating.regions);
      ring.Run();
      std::vector<TypeParam> exact(elements);
      for (const auto& input : ring.inputs) {
        for (std::size_t i = 0; i < elements; ++i) exact[i] += input[i];
      }
      const auto first = ElementsOf<TypeParam>(ring.parts[0]->result());
      for (const auto& part : ring.parts) {
        ASSERT_TRUE(part->done()) << ranks << " participants, " << elements << " elements";
        ASSERT_TRUE(std::ranges::equal(ElementsOf<TypeParam>(part->result()), first));
        EXPECT_TRUE(part->Awaited().empty());
      }
      for (std::size_t i = 0; i < elements; ++i) {
        if constexpr (std::is_same_v<TypeParam, float>) {
          ASSERT_NEAR(first[i], exact[i], 0x1p60 * 1e-5);
        } else {
          ASSERT_EQ(first[i], exact[i]) << "integers are the same in any order";
        }
      }
      EXPECT_EQ(regions.Across(ring.bytes_by_pair),
                protocol::LeastCrossings(sizes.size()) * elements * sizeof(TypeParam));
      EXPECT_EQ(ring.bytes_sent, 2 * (ranks - 1) * elements * sizeof(TypeParam)) << "as in a ring";
    }
  }
}

TYPED_TEST(ElementReduceTest, FlatThreeRegionsOfFourExchangeFourTimesAsManyBytes) {
  const Regions regions({4, 4, 4});
  constexpr std::size_t kElements = 12 * 16 * 100;  // pieces are equal
  Ring<TypeParam> flat(12, kElements, 1);
  flat.Run();
  EXPECT_EQ(regions.Across(flat.bytes_by_pair),
            4 * protocol::LeastCrossings(3) * kElements * sizeof(TypeParam));
}

TYPED_TEST(ElementReduceTest, AWorkerSendsAsMuchAsInARing) {
  for (const std::size_t rows : {1, 2}) {
    Ring<TypeParam> ring(4, 1 << 20, 1, rows);
    ring.Run();
    EXPECT_EQ(ring.bytes_sent, 4u * 2 * 3 * (1 << 20) * sizeof(TypeParam) / 4);
  }
}

TYPED_TEST(ElementReduceTest, ResultAndChunksOutliveTheReduce) {
  Ring<TypeParam> ring(2, 100, 1);
  ring.Run();
  const Bytes result = ring.parts[0]->result();
  for (auto& part : ring.parts) part->Start();
  ring.parts.clear();
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(ElementsOf<TypeParam>(result)[i], ring.inputs[0][i] + ring.inputs[1][i]);
  }
  for (const Flying& one : ring.flying) {
    const std::size_t rank = one.from == WorkerId("w0") ? 0 : 1;
    EXPECT_EQ(ElementsOf<TypeParam>(one.payload)[0], ring.inputs[rank][one.chunk.offset]);
  }
}

TEST(GroupReduceTest, RepeatedChunksAddNothing) {
  Ring<float> ring(2, 100, 1);
  for (auto& part : ring.parts) part->Start();
  const std::deque<Flying> scattered = ring.flying;
  for (const Flying& one : scattered) ring.flying.push_back(one);
  while (!ring.flying.empty()) {
    const Flying one = ring.flying.front();
    ring.flying.pop_front();
    ASSERT_TRUE(ring.At(one.to).OnChunk(one.from, one.chunk, one.payload).ok());
  }
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(ElementsOf<float>(ring.parts[0]->result())[i], ring.inputs[0][i] + ring.inputs[1][i]);
  }
}

/// Steps of one reduce of floats after the other, each with the residuals of the one before.
class ThinReduceTest
    : public ::testing::TestWithParam<std::tuple<api::ReduceCodec, std::size_t /*ranks*/>> {
 protected:
  static constexpr std::size_t kElements = 70000;
  const std::size_t ranks_ = std::get<1>(GetParam());

  /// The sum that all participants (where parts have holders, these) got of that step, of inputs
  /// that depend on `step`.
  std::vector<float> Step(std::uint64_t step, bool keep_residuals = true) {
    protocol::Reduce reduce;
    reduce.rows = part_sizes_.empty() ? protocol::ChooseRows(ranks_, 3) : 1;
    if (regions_.size() > 1) reduce.rows = regions_.size();
    reduce.regions = regions_;
    const auto holder = [&](std::size_t i) { return "w" + std::to_string(i % ranks_); };
    for (std::size_t p = 0; p < part_sizes_.size(); ++p) {
      reduce.holders.push_back({WorkerId(holder(p)), WorkerId(holder(p + 1))});
    }
    std::vector<std::unique_ptr<GroupReduce>> parts;
    std::deque<Flying> flying;
    for (std::size_t r = 0; r < ranks_; ++r) {
      reduce.participants.emplace_back("w" + std::to_string(r));
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      const std::vector<float> input = Input(step, r);
      const WorkerId self = reduce.participants[r];
      parts.push_back(std::make_unique<GroupReduce>(
          reduce, self,
          model::GradientSum{.elements = Bytes::Copy(input.data(), kElements * sizeof(float))},
          buffers_,
          [&, self](const WorkerId& to, ReduceChunk chunk, Bytes bytes) {
            bytes_sent_ += bytes.size();
            flying.push_back({self, to, chunk, std::move(bytes)});
          },
          Thinning{codec_.get(), residuals_[r]}, part_sizes_));
    }
    for (auto& part : parts) part->Start();
    for (; !flying.empty(); flying.pop_front()) {
      const Flying one = flying.front();
      auto& to = *parts[std::stoul(one.to.value.substr(1))];
      EXPECT_TRUE(to.OnChunk(one.from, one.chunk, one.payload).ok());
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      EXPECT_TRUE(parts[r]->done());
      if (keep_residuals) residuals_[r] = parts[r]->residual();
    }
    std::vector<float> sum;
    const auto take = [&](std::uint64_t count, std::size_t some, std::size_t other) {
      const auto of = [&](std::size_t r) {
        return parts[r % ranks_]->result().Slice(sum.size() * sizeof(float), count * sizeof(float));
      };
      EXPECT_EQ(of(some).text(), of(other).text()) << "bit for bit";
      const auto floats = ElementsOf<float>(of(some));
      sum.insert(sum.end(), floats.begin(), floats.end());
    };
    if (!part_sizes_.empty()) {
      for (std::size_t p = 0; p < part_sizes_.size(); ++p) take(part_sizes_[p], p, p + 1);
      return sum;
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      sum.clear();
      take(kElements, r, 0);
    }
    return sum;
  }
  std::vector<float> Input(std::uint64_t step, std::size_t rank) const {
    Rng rng(1000 * step + rank);
    std::vector<float> values(kElements);
    for (float& x : values) x = static_cast<float>(rng.Uniform() - 0.5) + bad_;
    return values;
  }
  /// The largest difference between the sums of `steps` steps and what they should be.
  double ErrorAfter(int steps, bool keep_residuals) {
    std::vector<double> difference(kElements);
    for (int step = 0; step < steps; ++step) {
      const std::vector<float> sum = Step(step, keep_residuals);
      for (std::size_t i = 0; i < kElements; ++i) difference[i] += sum[i];
      for (std::size_t r = 0; r < ranks_; ++r) {
        const std::vector<float> input = Input(step, r);
        for (std::size_t i = 0; i < kElements; ++i) difference[i] -= input[i];
      }
    }
    double largest = 0;
    for (const double d : difference) largest = std::max(largest, std::abs(d));
    return largest;
  }

  const std::unique_ptr<const ReduceCodec> codec_ = MakeReduceCodec(std::get<0>(GetParam()));
  BufferPool buffers_;
  std::vector<Bytes> residuals_ = std::vector<Bytes>(ranks_);
  std::vector<std::uint64_t> part_sizes_;  // none: parts have no holders
  std::vector<std::uint64_t> regions_;     // of rows; none: there is one region
  std::size_t bytes_sent_ = 0;
  float bad_ = 0;
};

TEST_P(ThinReduceTest, WhatOneStepLosesTheNextMakesUpFor) {
  const double one = ErrorAfter(1, /*keep_residuals=*/false);
  const double coarser = std::get<0>(GetParam()) == api::ReduceCodec::kInt4 ? 127.0 / 7 : 1;
  EXPECT_GT(one, 0);
  EXPECT_LT(one, coarser * 0.05 * static_cast<double>(ranks_) / 3);
  EXPECT_GT(ErrorAfter(60, /*keep_residuals=*/false), 3 * one) << "without, errors add up";
  EXPECT_LT(ErrorAfter(60, /*keep_residuals=*/true), 2 * one) << "with them they do not";
}

TEST_P(ThinReduceTest, WherePartsHaveHoldersTheNextStepMakesUpForItToo) {
  const double whole = ErrorAfter(1, /*keep_residuals=*/false);
  part_sizes_ = {1, 40000, 29999};
  EXPECT_LT(ErrorAfter(60, /*keep_residuals=*/true), 2 * whole);
}

TEST_P(ThinReduceTest, OverRegionsTheNextStepMakesUpForItToo) {
  const double whole = ErrorAfter(1, /*keep_residuals=*/false);
  for (const auto& regions : {std::vector<std::uint64_t>{0, 1}, {1, 0, 2}}) {
    regions_ = regions;
    residuals_.assign(ranks_, {});
    EXPECT_LT(ErrorAfter(60, /*keep_residuals=*/true), 2 * whole);
  }
}

TEST_P(ThinReduceTest, ItSendsAsFewBytesAsItsCodec) {
  (void)Step(0);
  const protocol::ReduceGrid grid(ranks_, protocol::ChooseRows(ranks_, 3));
  double raw = 0;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    raw += static_cast<double>(grid.PiecesSent(rank)) / static_cast<double>(grid.pieces()) *
           kElements * sizeof(float);
  }
  const std::map<api::ReduceCodec, double> share = {{api::ReduceCodec::kBF16, 0.501},
                                                    {api::ReduceCodec::kInt8, 0.26},
                                                    {api::ReduceCodec::kInt4, 0.145}};
  EXPECT_LT(static_cast<double>(bytes_sent_), raw * share.at(std::get<0>(GetParam())));
}

TEST_P(ThinReduceTest, WhatIsNotFiniteStaysSoAndSpoilsNoLaterStep) {
  bad_ = std::numeric_limits<float>::infinity();
  for (const float x : Step(0)) ASSERT_FALSE(std::isfinite(x));
  bad_ = 0;
  for (const float x : Step(1)) ASSERT_TRUE(std::isfinite(x));
}

INSTANTIATE_TEST_SUITE_P(Codecs, ThinReduceTest,
                         ::testing::Combine(::testing::Values(api::ReduceCodec::kBF16,
                                                              api::ReduceCodec::kInt8,
                                                              api::ReduceCodec::kInt4),
                                            ::testing::Values(3, 5, 9)));

/// Participants in a grid, of which some have not begun; what comes to those is kept. Each is named
/// by its seat.
class LateInGridTest : public ::testing::Test {
 protected:
  using Seat = protocol::ReduceGrid::Seat;
  LateInGridTest() {
    reduce_.rows = 2;  // seats 0 2 4 | 1 3: the one in seat 4 owns nothing
    for (std::size_t r = 0; r < 5; ++r) reduce_.participants.emplace_back("w" + std::to_string(r));
    parts_.resize(5);
    kept_.resize(5);
  }
  void Begin(Seat seat) {
    const WorkerId self = reduce_.participants[seat];
    parts_[seat] = std::make_unique<GroupReduce>(
        reduce_, self, model::GradientSum{own_, checkpoint::ElementType::kF32, {}}, buffers_,
        [this, self](const WorkerId& to, ReduceChunk chunk, Bytes bytes) {
          flying_.push_back({self, to, chunk, std::move(bytes)});
        });
    parts_[seat]->Start();
    flying_.insert(flying_.end(), kept_[seat].begin(), kept_[seat].end());
    kept_[seat].clear();
    for (; !flying_.empty(); flying_.pop_front()) Take(Flying(flying_.front()));
  }
  void Take(const Flying& one) {
    const Seat seat = SeatOf(one.to);
    if (parts_[seat] == nullptr) return kept_[seat].push_back(one);
    ASSERT_TRUE(parts_[seat]->OnChunk(one.from, one.chunk, one.payload).ok());
  }
  std::uint64_t Kept(Seat seat) const {
    std::uint64_t bytes = 0;
    for (const Flying& one : kept_[seat]) bytes += one.payload.size();
    return bytes;
  }
  std::vector<Seat> AwaitedBy(Seat seat) const {
    std::vector<Seat> seats;
    for (const WorkerId& id : parts_[seat]->Awaited()) seats.push_back(SeatOf(id));
    return seats;
  }
  Seat SeatOf(const WorkerId& id) const {
    const auto& seated = reduce_.participants;
    return static_cast<Seat>(std::ranges::find(seated, id) - seated.begin());
  }
  using Seats = std::vector<Seat>;

  static constexpr std::size_t kCount = 12u << 20;  // pieces of 12 MiB
  const std::unique_ptr<float[]> zeros_{new float[kCount]()};
  const Bytes own_ = Bytes::Wrap(zeros_.get(), kCount * sizeof(float), nullptr);
  protocol::Reduce reduce_;
  BufferPool buffers_;
  std::vector<std::unique_ptr<GroupReduce>> parts_;
  std::vector<std::vector<Flying>> kept_;
  std::deque<Flying> flying_;
};

TEST_F(LateInGridTest, EachOfThemGetsLittleUntilItHasBegun) {
  for (Seat late = 0; late < 5; ++late) {
    for (auto& part : parts_) part.reset();
    for (Seat seat = 0; seat < 5; ++seat) {
      if (seat != late) Begin(seat);
    }
    EXPECT_LE(Kept(late), GroupReduce::kEarlyBytes) << late;
    EXPECT_EQ(Kept(late) > 0, late != 4) << late;
    Begin(late);
    for (const auto& part : parts_) EXPECT_TRUE(part->done()) << late;
  }
}

TEST_F(LateInGridTest, WaitsAreForWhoSendsNext) {
  for (const Seat seat : {3, 0, 2}) Begin(seat);
  EXPECT_EQ(AwaitedBy(3), Seats{1}) << "its contribution";
  EXPECT_EQ(AwaitedBy(0), Seats{4}) << "its contribution";
  Begin(4);
  EXPECT_EQ(AwaitedBy(0), Seats{1}) << "the partial sum of the other row";
  EXPECT_EQ(AwaitedBy(2), Seats{3}) << "the partial sum of the other row";
  EXPECT_EQ(AwaitedBy(4), (Seats{0, 2})) << "the sums";
  Begin(1);
  for (const auto& part : parts_) EXPECT_TRUE(part->done());
}

TEST_F(LateInGridTest, ChunksOfTheWrongRowAreRefused) {
  Begin(1);
  const auto refused = [&](Seat from, ReduceChunk::Phase phase, std::uint64_t offset) {
    ReduceChunk chunk;
    chunk.phase = phase;
    chunk.offset = offset;
    return !parts_[1]
                ->OnChunk(reduce_.participants[from], chunk,
                          own_.Slice(0, GroupReduce::kChunkBytes))
                .ok();
  };
  using Phase = ReduceChunk::Phase;
  constexpr std::uint64_t kPiece = kCount / 4;  // pieces 0 and 1 are of the column of seats 0 and 1
  EXPECT_TRUE(refused(2, Phase::kScatter, 0)) << "of another row and column";
  EXPECT_TRUE(refused(4, Phase::kScatter, 0)) << "it owns nothing";
  EXPECT_TRUE(refused(0, Phase::kScatter, 0)) << "a partial sum of its own piece";
  EXPECT_TRUE(refused(0, Phase::kGather, 2 * kPiece)) << "the sum of another column";
  EXPECT_TRUE(refused(3, Phase::kGather, kPiece)) << "the sum of the receiver's own piece";
  EXPECT_FALSE(refused(0, Phase::kScatter, kPiece));
  EXPECT_FALSE(refused(0, Phase::kGather, 0));
  EXPECT_FALSE(refused(3, Phase::kScatter, 0));
  EXPECT_FALSE(refused(3, Phase::kGather, 2 * kPiece));
}

TEST(GroupReduceTest, WhoHasNotBegunGetsLittleAndTheRestOnceItHas) {
  constexpr std::size_t kCount = 12u << 20;  // shards of 24 MiB
  const std::unique_ptr<float[]> zeros(new float[kCount]());
  const Bytes own = Bytes::Wrap(zeros.get(), kCount * sizeof(float), nullptr);
  protocol::Reduce reduce;
  reduce.participants = {WorkerId("early"), WorkerId("late")};
  BufferPool buffers;
  std::deque<Flying> flying;
  const auto make = [&](const WorkerId& self) {
    return std::make_unique<GroupReduce>(
        reduce, self, model::GradientSum{own, checkpoint::ElementType::kF32, {}}, buffers,
        [&, self](const WorkerId& to, ReduceChunk chunk, Bytes bytes) {
          flying.push_back({self, to, chunk, std::move(bytes)});
        });
  };
  const auto early = make(WorkerId("early"));
  early->Start();
  EXPECT_EQ(flying.size() * GroupReduce::kChunkBytes, GroupReduce::kEarlyBytes);
  const auto late = make(WorkerId("late"));
  late->Start();
  while (!flying.empty()) {
    const Flying one = flying.front();
    flying.pop_front();
    GroupReduce& at = one.to == WorkerId("late") ? *late : *early;
    ASSERT_TRUE(at.OnChunk(one.from, one.chunk, one.payload).ok());
  }
  EXPECT_TRUE(early->done());
  EXPECT_TRUE(late->done());
}

TEST(GroupReduceTest, ChunksThatDoNotFitAreRefused) {
  Ring<float> ring(2, 100, 1);
  GroupReduce& part = *ring.parts[0];
  const std::vector<float> zeros(200);
  const auto bytes = [&](std::size_t n) { return Bytes::Wrap(zeros.data(), n * 4, nullptr); };
  const auto chunk = [](ReduceChunk::Phase phase, std::uint64_t offset) {
    ReduceChunk c;
    c.phase = phase;
    c.offset = offset;
    return c;
  };
  const WorkerId other("w1");
  using Phase = ReduceChunk::Phase;
  EXPECT_FALSE(part.OnChunk(other, chunk(Phase::kScatter, 0), bytes(3)).ok());
  EXPECT_FALSE(part.OnChunk(other, chunk(Phase::kScatter, 99), bytes(1)).ok());
  EXPECT_FALSE(part.OnChunk(other, chunk(Phase::kGather, 0), bytes(48)).ok());
  EXPECT_FALSE(part.OnChunk(other, chunk(Phase::kGather, ~0ULL), bytes(52)).ok());
  EXPECT_FALSE(part.OnChunk(WorkerId("w0"), chunk(Phase::kScatter, 0), bytes(48)).ok());
  EXPECT_FALSE(part.OnChunk(WorkerId("stranger"), chunk(Phase::kScatter, 0), bytes(48)).ok());
  EXPECT_TRUE(part.OnChunk(other, chunk(Phase::kScatter, 0), bytes(48)).ok());
}

}  // namespace
}  // namespace swarm::stage
