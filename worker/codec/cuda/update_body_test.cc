// The bodies of the updates, run on the host, against worker/optim/update.cc: bit for bit.
#include "worker/codec/cuda/update_body.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "worker/codec/cuda/testing/on_host.h"
#include "worker/codec/cuda/testing/update_case.h"

namespace swarm::codec::cuda {
namespace {

constexpr std::size_t kSizes[] = {1, 3, 4, 5, 1001, 10000};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void ExpectSame(const UpdateCase& found, const UpdateCase& expected) {
  EXPECT_TRUE(SameBits(found.first, expected.first));
  EXPECT_TRUE(SameBits(found.second, expected.second));
  EXPECT_TRUE(SameBits(found.weights, expected.weights));
}

UpdateMemory MemoryOf(UpdateCase& on, const std::vector<float>& old_weights) {
  return {old_weights.data(), on.gradient.data(), on.first.data(),
          on.second.data(),   on.weights.data(),  on.weights.size()};
}

TEST(UpdateBodies, MakeTheStepsOfAdamW) {
  for (const std::size_t n : kSizes) {
    UpdateCase expected(n), singles(n), packs(n);
    for (const std::uint64_t count : {1, 2, 1000}) {
      const optim::UpdateOptions options = SomeOptions(count);
      const optim::AdamWFactors factors = optim::AdamWFactorsOf(options);
      const std::vector<float> old_weights = expected.weights;
      optim::UpdateAdamW(options, expected.Spans(old_weights));
      for (std::size_t i = 0; i < n; ++i) {
        UpdateAdamWPack<1>(factors, MemoryOf(singles, old_weights), i);
        // In place, as a step without the version before.
        if (i * 4 < n) UpdateAdamWPack<4>(factors, MemoryOf(packs, packs.weights), i);
      }
      ExpectSame(singles, expected);
      ExpectSame(packs, expected);
    }
  }
}

TEST(UpdateBodies, MakeTheStepsOfLamb) {
  for (const std::size_t n : kSizes) {
    for (const bool by_norm : {true, false}) {
      UpdateCase expected(n), found(n);
      for (const std::uint64_t count : {1, 2, 1000}) {
        optim::UpdateOptions options = SomeOptions(count);
        options.by_norm = by_norm;
        const std::vector<float> old_weights = expected.weights;
        optim::UpdateLamb(options, expected.Spans(old_weights));

        const UpdateMemory memory = MemoryOf(found, old_weights);
        std::vector<float> direction(n);
        for (std::size_t i = 0; i * 4 < n; ++i) {
          LambDirectionPack<4>(optim::LambFactorsOf(options), memory, direction.data(), i);
        }
        const double norms[] = {SquaredNormOnHost(LaneOrder::kUp, old_weights, 0),
                                SquaredNormOnHost(LaneOrder::kUp, direction, 0)};
        const float step = LambStep(options.learning_rate, by_norm, norms);
        for (std::size_t i = 0; i < n; ++i) GoInDirection(memory, direction.data(), step, i);
        ExpectSame(found, expected);
      }
    }
  }
}

TEST(UpdateBodies, GoByOneWhereANormIsZero) {
  for (const auto& norms : {std::array{0.0, 4.0}, std::array{4.0, 0.0}}) {
    EXPECT_EQ(LambStep(0.25, true, norms.data()), 0.25f);
  }
  EXPECT_EQ(LambStep(0.25, true, std::array{36.0, 4.0}.data()), 0.75f);
}

}  // namespace
}  // namespace swarm::codec::cuda
