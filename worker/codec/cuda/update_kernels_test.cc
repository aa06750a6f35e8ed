// The kernels of the updates on a device against worker/optim/update.cc: bit for bit. Skipped where
// there is no device.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/testing/device.h"
#include "worker/codec/cuda/testing/update_case.h"

namespace swarm::codec::cuda {
namespace {

constexpr std::size_t kSizes[] = {1, 5, 1001, 1000003};

class UpdateKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoDevice(); !why.empty()) GTEST_SKIP() << why;
  }
};

/// A state on the device, updated in place.
struct StateOnDevice {
  explicit StateOnDevice(const UpdateCase& from)
      : weights(from.weights), gradient(from.gradient), first(from.first), second(from.second) {}

  UpdateMemory Memory(std::size_t n) const {
    return {weights.get(), gradient.get(), first.get(), second.get(), weights.get(), n};
  }
  void ExpectSame(const UpdateCase& expected) const {
    const auto same = [](const OnDevice<float>& found, const std::vector<float>& values) {
      return std::memcmp(found.Read().data(), values.data(), values.size() * sizeof(float)) == 0;
    };
    EXPECT_TRUE(same(first, expected.first));
    EXPECT_TRUE(same(second, expected.second));
    EXPECT_TRUE(same(weights, expected.weights));
  }

  OnDevice<float> weights, gradient, first, second;
};

TEST_F(UpdateKernels, MakeTheStepsOfAdamW) {
  for (const std::size_t n : kSizes) {
    UpdateCase expected(n);
    const StateOnDevice state(expected);
    for (const std::uint64_t count : {1, 2, 1000}) {
      const std::vector<float> old_weights = expected.weights;
      optim::UpdateAdamW(SomeOptions(count), expected.Spans(old_weights));
      ASSERT_TRUE(UpdateAdamW(SomeOptions(count), state.Memory(n), nullptr).ok());
      state.ExpectSame(expected);
    }
  }
}

TEST_F(UpdateKernels, MakeTheStepsOfLamb) {
  for (const std::size_t n : kSizes) {
    UpdateCase expected(n);
    const StateOnDevice state(expected);
    const OnDevice<float> direction(n);
    const OnDevice<double> squares(NormBlocks(n)), norms(2);
    for (const std::uint64_t count : {1, 2, 1000}) {
      const std::vector<float> old_weights = expected.weights;
      optim::UpdateLamb(SomeOptions(count), expected.Spans(old_weights));
      ASSERT_TRUE(UpdateLamb(SomeOptions(count), state.Memory(n),
                             {direction.get(), squares.get(), norms.get()}, nullptr)
                      .ok());
      state.ExpectSame(expected);
    }
  }
}

}  // namespace
}  // namespace swarm::codec::cuda
