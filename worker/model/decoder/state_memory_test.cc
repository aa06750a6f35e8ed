#include "worker/model/decoder/state_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "worker/device/testing/fake_device.h"
#include "worker/device/transfers.h"

namespace swarm::model {
namespace {

using device::FakeDevice;
using Edit = StateMemory::Edit;
using Term = StateMemory::Term;

constexpr std::size_t kPinnedMax = std::size_t{64} << 20;

std::unique_ptr<StateMemory> MemoryOf(const std::shared_ptr<FakeDevice>& device) {
  if (device == nullptr) return MakeHostMemory();
  return MakeDeviceMemory(
      at::kCPU, device,
      std::make_shared<device::Transfers>(
          device, kPinnedMax,
          [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }));
}

/// Numbers that cross in more than one go, added up, doubled by the host, and read.
std::vector<float> RunThrough(StateMemory& memory) {
  constexpr std::int64_t kCount = 5'000'000;
  std::vector<float> numbers(kCount - 1);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  const StateBlock block = memory.Zeros(kCount, at::kFloat, Term::kLong);
  EXPECT_TRUE(memory.Write(numbers, block, 1).ok());
  memory.Compute({.reads = {}, .writes = {block}}, [&] { block.numbers.add_(1); });
  EXPECT_TRUE(memory
                  .EditOnHost(block, 1, kCount - 1, Edit::kChange,
                              [](std::span<float> some) {
                                for (float& number : some) number *= 2;
                                return Status();
                              })
                  .ok());
  std::vector<float> read(kCount);
  EXPECT_TRUE(memory.Read(block, 0, std::as_writable_bytes(std::span(read))).ok());
  return read;
}

TEST(StateMemoryTest, NumbersOfADeviceAreThoseOfTheHost) {
  const auto expected = RunThrough(*MemoryOf(nullptr));
  EXPECT_EQ(expected.front(), 1);
  EXPECT_EQ(expected[1000], 2 * 1001);
  const auto device = std::make_shared<FakeDevice>(1);
  EXPECT_EQ(RunThrough(*MemoryOf(device)), expected);
  EXPECT_EQ(device->Violations(), std::vector<std::string>());
  EXPECT_EQ(device->CountPieces(), 0u);
}

TEST(StateMemoryTest, TheMemoryOfAStepServesTheNextOne) {
  const auto device = std::make_shared<FakeDevice>(2);
  const auto memory = MemoryOf(device);
  const void* place = nullptr;
  for (int step = 0; step < 5; ++step) {
    const StateBlock sum = memory->Zeros(1000, at::kLong, Term::kStep);
    if (step > 0) {
      EXPECT_EQ(sum.numbers.const_data_ptr(), place);
    }
    place = sum.numbers.const_data_ptr();
    memory->Compute({.reads = {}, .writes = {sum}}, [&] { sum.numbers.add_(7); });
    std::vector<std::int64_t> read(1000);
    EXPECT_TRUE(memory->Read(sum, 0, std::as_writable_bytes(std::span(read))).ok());
    EXPECT_EQ(read, std::vector<std::int64_t>(1000, 7));
  }
  EXPECT_EQ(device->Violations(), std::vector<std::string>());
}

TEST(StateMemoryTest, AReadThatDoesNotWaitForKernelsIsFound) {
  const auto device = std::make_shared<FakeDevice>(3);
  device->ForgetWaits(device::Stream::kState, device::Stream::kCompute);
  const auto memory = MemoryOf(device);
  const StateBlock block = memory->Zeros(10, at::kFloat, Term::kLong);
  std::vector<float> read(10);
  EXPECT_TRUE(memory->Read(block, 0, std::as_writable_bytes(std::span(read))).ok());
  EXPECT_NE(device->Violations(), std::vector<std::string>());
}

TEST(StateMemoryTest, ADeviceThatFallsOffSaysSo) {
  const auto device = std::make_shared<FakeDevice>(4);
  const auto memory = MemoryOf(device);
  const StateBlock block = memory->Zeros(10, at::kFloat, Term::kLong);
  device->Break(Internal("the device fell off the bus"));
  std::vector<float> read(10);
  EXPECT_EQ(memory->Read(block, 0, std::as_writable_bytes(std::span(read))).code(),
            StatusCode::kInternal);
}

TEST(StateMemoryDeathTest, TheHostCannotTouchWhatIsOnADevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with_block = [](const std::function<void(StateMemory&, const StateBlock&)>& body) {
    const auto memory = MemoryOf(std::make_shared<FakeDevice>(5));
    body(*memory, memory->Zeros(10, at::kFloat, Term::kLong));
  };
  EXPECT_DEATH(with_block([](StateMemory&, const StateBlock& block) { block.floats()[3] = 1; }),
               "");
  EXPECT_DEATH(
      with_block([](StateMemory&, const StateBlock& block) { EXPECT_EQ(block.floats()[3], 0); }),
      "");
  EXPECT_DEATH(with_block([](StateMemory& memory, const StateBlock& block) {
                 memory.Compute({.reads = {block}, .writes = {}}, [&] { block.floats()[3] = 1; });
               }),
               "")
      << "a kernel that said it reads";
}

}  // namespace
}  // namespace swarm::model
