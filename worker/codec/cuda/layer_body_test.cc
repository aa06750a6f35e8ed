// The parts of a decoder layer against their formulas in double.
#include "worker/codec/cuda/layer_body.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "worker/codec/cuda/testing/cases.h"
#include "worker/codec/cuda/testing/host_team.h"

namespace swarm::codec::cuda {
namespace {

std::vector<std::uint16_t> Halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(ToBFloat16()(value));
  return halves;
}

std::vector<float> Floats(const std::vector<std::uint16_t>& halves) {
  std::vector<float> values;
  for (const std::uint16_t half : halves) values.push_back(FromBFloat16()(half));
  return values;
}

void ExpectNear(const std::vector<float>& values, const std::vector<double>& expected,
                double relative) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], relative * (1 + std::abs(expected[i]))) << i;
  }
}

constexpr double kFloat = 1e-6, kBFloat16 = 1.0 / 256;

struct NormCase {
  std::size_t rows = 67, width = 24;
  std::vector<float> x = NormalNumbers(rows * width, 1), gain = NormalNumbers(width, 2),
                     dy = NormalNumbers(rows * width, 3);
  std::vector<float> scales = std::vector<float>(rows, NAN);
  NormTask task() { return {x.data(), gain.data(), rows, width, 1e-5F, scales.data()}; }
  double Scale(std::size_t row) const {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += std::pow(x[row * width + i], 2);
    return 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
  }
};

class LayerBody : public testing::TestWithParam<LaneOrder> {};

TEST_P(LayerBody, ANormAndItsGradients) {
  NormCase of;
  std::vector<float> y(of.x.size()), dx(of.x.size());
  std::vector<std::uint16_t> halves(of.x.size());
  for (std::size_t row = 0; row < of.rows; ++row) {
    NormRow<4>(HostTeam<32>(GetParam()), of.task(), y.data(), row);
    NormRow<1>(HostTeam<32>(GetParam()), of.task(), halves.data(), row);
    NormRowBack<4>(HostTeam<32>(GetParam()), of.task(), of.dy.data(), dx.data(), row);
  }
  std::vector<double> expected_y, expected_dx, expected_gain(of.width);
  for (std::size_t row = 0; row < of.rows; ++row) {
    const double scale = of.Scale(row);
    double dot = 0;
    for (std::size_t i = 0; i < of.width; ++i) {
      const std::size_t at = row * of.width + i;
      expected_y.push_back(of.gain[i] * of.x[at] * scale);
      expected_gain[i] += of.dy[at] * of.x[at] * scale;
      dot += static_cast<double>(of.gain[i]) * of.dy[at] * of.x[at];
    }
    for (std::size_t i = 0; i < of.width; ++i) {
      const std::size_t at = row * of.width + i;
      expected_dx.push_back(scale * of.gain[i] * of.dy[at] -
                            of.x[at] * std::pow(scale, 3) * dot / static_cast<double>(of.width));
    }
  }
  ExpectNear(y, expected_y, kFloat);
  ExpectNear(Floats(halves), expected_y, kBFloat16);
  ExpectNear(dx, expected_dx, 4 * kFloat);

  const std::size_t parts = (of.rows + kRowsOfGainPart - 1) / kRowsOfGainPart;
  ASSERT_EQ(parts, 2u);  // the second is not full
  std::vector<float> of_parts, gains;
  for (std::size_t i = 0; i < parts * of.width; ++i) {
    of_parts.push_back(GainOfPart(of.task(), of.dy.data(), i / of.width, i % of.width));
  }
  for (std::size_t column = 0; column < of.width; ++column) {
    gains.push_back(SumOfParts(of_parts.data(), parts, of.width, column));
  }
  ExpectNear(gains, expected_gain, 4 * kFloat);
}

INSTANTIATE_TEST_SUITE_P(, LayerBody, testing::Values(LaneOrder::kUp, LaneOrder::kDown));

template <unsigned kWidth>
void ExpectTurned() {
  constexpr std::size_t kRows = 6, kQueries = 3, kKeys = 2, kHead = 8, kPositions = 3;
  constexpr std::size_t kHeads = kQueries + 2 * kKeys;
  const std::vector<float> joined = NormalNumbers(kRows * kHeads * kHead, 1);
  std::vector<float> cosine, sine;
  for (std::size_t p = 0; p < kPositions; ++p) {
    for (std::size_t i = 0; i < kHead; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(10.0, -static_cast<int>(i % (kHead / 2)));
      cosine.push_back(static_cast<float>(std::cos(angle)));
      sine.push_back(static_cast<float>(i < kHead / 2 ? -std::sin(angle) : std::sin(angle)));
    }
  }
  const HeadsTask task{kRows, kQueries, kKeys, kHead, cosine.data(), sine.data(), kPositions};
  std::vector<float> q(kRows * kQueries * kHead, NAN), k(kRows * kKeys * kHead, NAN), v = k;
  std::vector<float> back(joined.size(), NAN);
  for (std::size_t i = 0; i < PairPacks<kWidth>(task); ++i) {
    TurnPairs<kWidth, false>(task, joined.data(), q.data(), k.data(), v.data(), i);
  }
  for (std::size_t i = 0; i < PairPacks<kWidth>(task); ++i) {
    const float *const dq = q.data(), *const dk = k.data(), *const dv = v.data();
    TurnPairs<kWidth, true>(task, back.data(), dq, dk, dv, i);
  }
  std::vector<double> expected_q, expected_k, expected_v;
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t head = 0; head < kHeads; ++head) {
      for (std::size_t i = 0; i < kHead; ++i) {
        const float* const x = joined.data() + (row * kHeads + head) * kHead;
        const std::size_t at = row % kPositions * kHead + i;
        const double turned = static_cast<double>(x[i]) * cosine[at] +
                              static_cast<double>(x[(i + kHead / 2) % kHead]) * sine[at];
        if (head < kQueries) {
          expected_q.push_back(turned);
        } else if (head < kQueries + kKeys) {
          expected_k.push_back(turned);
        } else {
          expected_v.push_back(x[i]);
        }
      }
    }
  }
  ExpectNear(q, expected_q, kFloat);
  ExpectNear(k, expected_k, kFloat);
  ExpectNear(v, expected_v, 0);
  // A turn is orthogonal: its gradient turns back.
  ExpectNear(back, {joined.begin(), joined.end()}, kFloat);
}

TEST(LayerBodyTest, HeadsAreTurnedAndTheirGradientsTurnedBack) {
  ExpectTurned<1>();
  ExpectTurned<4>();
}

TEST(LayerBodyTest, ABranchIsAdded) {
  const std::vector<float> x = NormalNumbers(11, 1), branch = NormalNumbers(11, 2);
  const std::vector<std::uint16_t> narrow = Halves(branch);
  std::vector<float> sum(11, NAN), of_narrow(11, NAN), expected, expected_of_narrow;
  for (std::size_t i = 0; i * 4 < x.size(); ++i) {  // the last pack is not full
    AddPack<4>(x.data(), branch.data(), x.size(), sum.data(), i);
    AddPack<4>(x.data(), narrow.data(), x.size(), of_narrow.data(), i);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected.push_back(x[i] + branch[i]);
    expected_of_narrow.push_back(x[i] + Floats(narrow)[i]);
  }
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(of_narrow, expected_of_narrow);
}

TEST(LayerBodyTest, AGateAndItsGradients) {
  constexpr std::size_t kRows = 5, kInner = 12;
  std::vector<float> gate_up = NormalNumbers(kRows * 2 * kInner, 1);
  gate_up[0] = 90;  // whose exponential would be infinite
  gate_up[1] = -90;
  const std::vector<float> dgated = NormalNumbers(kRows * kInner, 2);
  const GateTask task{kRows, kInner};
  std::vector<float> gated(kRows * kInner, NAN), dgate_up(gate_up.size(), NAN);
  std::vector<std::uint16_t> halves(kRows * kInner);
  const std::vector<std::uint16_t> narrow = Halves(gate_up);
  for (std::size_t i = 0; i * 4 < gated.size(); ++i) {
    GatePack<4>(task, gate_up.data(), gated.data(), i);
    GatePackBack<4>(task, gate_up.data(), dgated.data(), dgate_up.data(), i);
  }
  for (std::size_t i = 0; i < gated.size(); ++i) {
    GatePack<1>(task, narrow.data(), halves.data(), i);
  }
  std::vector<double> expected, expected_gradient(gate_up.size());
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < kInner; ++i) {
      const std::size_t at = row * 2 * kInner + i;
      const double g = gate_up[at], up = gate_up[at + kInner], d = dgated[row * kInner + i];
      const double sigmoid = 1 / (1 + std::exp(-g));
      expected.push_back(g * sigmoid * up);
      expected_gradient[at] = d * up * sigmoid * (1 + g * (1 - sigmoid));
      expected_gradient[at + kInner] = d * g * sigmoid;
    }
  }
  ExpectNear(gated, expected, kFloat);
  ExpectNear(dgate_up, expected_gradient, kFloat);
  ExpectNear(Floats(halves), expected, 4 * kBFloat16);
}

}  // namespace
}  // namespace swarm::codec::cuda
