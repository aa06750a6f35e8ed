#include "worker/device/transfers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "base/rng.h"
#include "worker/device/testing/fake_device.h"

namespace swarm::device {
namespace {

constexpr std::size_t kPinnedMax = 64 << 10;

void CopyBytes(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

Bytes Draw(Rng& rng, std::size_t size) {
  return Bytes::Make(size, [&](std::byte* out) {
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(rng.Below(256));
  });
}

Bytes Inverted(const Bytes& bytes) {
  return Bytes::Make(bytes.size(), [&](std::byte* out) {
    for (std::size_t i = 0; i < bytes.size(); ++i) out[i] = ~bytes.data()[i];
  });
}

/// A device that inverts what it is given, as a stage does with its microbatches.
struct Round {
  std::vector<Bytes> sent;
  std::vector<std::future<Result<Bytes>>> received;

  void Run(Transfers& transfers, std::uint64_t seed, int count) {
    Rng rng(seed);
    std::vector<std::byte> state;  // memory of the compute stream alone
    for (int i = 0; i < count; ++i) {
      sent.push_back(Draw(rng, 1 + rng.Below(8000)));
      const std::size_t size = sent.back().size();
      ASSERT_TRUE(transfers
                      .ToDevice(sent.back(),
                                [&](const std::byte* from) {
                                  state.assign(from, from + size);
                                  for (std::byte& each : state) each = ~each;
                                })
                      .ok());
      auto promise = std::make_shared<std::promise<Result<Bytes>>>();
      received.push_back(promise->get_future());
      ASSERT_TRUE(transfers
                      .ToHost(
                          size, [&](std::byte* to) { std::memcpy(to, state.data(), size); },
                          [promise](Result<Bytes> bytes) { promise->set_value(std::move(bytes)); })
                      .ok());
    }
  }
  /// Waits for all.
  int CountWrong() {
    int wrong = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Result<Bytes> bytes = received[i].get();
      wrong += !bytes.ok() || bytes->text() != Inverted(sent[i]).text();
    }
    return wrong;
  }
};

TEST(TransfersTest, WhatIsSentComesBackInOrderAndWithoutARace) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto device = std::make_shared<FakeDevice>(seed);
    {
      Transfers transfers(device, kPinnedMax, CopyBytes);
      Round round;
      round.Run(transfers, seed, 30);
      EXPECT_EQ(round.CountWrong(), 0);
      EXPECT_LE(transfers.pinned_bytes(), kPinnedMax);
    }
    EXPECT_EQ(device->Violations(), std::vector<std::string>());
    EXPECT_EQ(device->CountPieces(), 0u);
  }
}

TEST(TransfersTest, EveryKindOfWaitIsNeeded) {
  const std::pair<Stream, Stream> kinds[] = {{Stream::kCompute, Stream::kIn},
                                             {Stream::kOut, Stream::kCompute},
                                             {Stream::kIn, Stream::kCompute},
                                             {Stream::kCompute, Stream::kOut},
                                             {Stream::kIn, Stream::kOut}};
  for (const auto& [stream, other] : kinds) {
    SCOPED_TRACE(::testing::Message()
                 << static_cast<int>(stream) << " waits for " << static_cast<int>(other));
    const auto device = std::make_shared<FakeDevice>(1);
    device->ForgetWaits(stream, other);
    {
      Transfers transfers(device, kPinnedMax, CopyBytes);
      // The host runs ahead, as it does of a device that has much to do.
      device->HoldCompletions(true);
      const auto to_device = [&] {
        return transfers.ToDevice(Bytes::Copy("abc"), [](const std::byte*) {});
      };
      const auto to_host = [&] {
        return transfers.ToHost(3, [](std::byte*) {}, [](const Result<Bytes>&) {});
      };
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(to_device().ok() && to_device().ok() && to_host().ok() && to_host().ok());
      }
      device->HoldCompletions(false);
    }
    EXPECT_NE(device->Violations(), std::vector<std::string>());
  }
}

TEST(TransfersTest, AResultDoesNotStandBehindAReadOfTheState) {
  const auto device = std::make_shared<FakeDevice>(7);
  const Memory state = *device->Allocate(Place::kDevice, 8);
  {
    Transfers transfers(device, kPinnedMax, CopyBytes);
    device->Compute({.reads = {}, .writes = {state.slot}},
                    [&] { std::memcpy(state.data, "a state", 8); });
    const Event written = device->Record(Stream::kCompute);
    std::promise<void> result_is_there;
    device->ComputeBeside({},
                          [there = result_is_there.get_future().share()](auto) { there.wait(); });
    std::promise<Result<Bytes>> state_read;
    ASSERT_TRUE(
        transfers
            .CopyToHost(state, written,
                        [&](Result<Bytes> bytes) { state_read.set_value(std::move(bytes)); })
            .ok());
    Round results;
    results.Run(transfers, 7, 3);
    EXPECT_EQ(results.CountWrong(), 0);
    result_is_there.set_value();
    const Result<Bytes> read = state_read.get_future().get();
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->text(), std::string_view("a state", 8));
  }
  device->Free(state);
  EXPECT_EQ(device->Violations(), std::vector<std::string>());
}

TEST(TransfersTest, BytesThatCallersKeepDoNotStopTransfers) {
  const auto device = std::make_shared<FakeDevice>(2);
  {
    Transfers transfers(device, kPinnedMax, CopyBytes);
    Round kept, later;
    kept.Run(transfers, 3, 40);
    std::vector<Result<Bytes>> bytes;
    for (auto& each : kept.received) bytes.push_back(each.get());
    later.Run(transfers, 4, 40);
    EXPECT_EQ(later.CountWrong(), 0);
    EXPECT_LE(transfers.pinned_bytes(), kPinnedMax);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(bytes[i]->text(), Inverted(kept.sent[i]).text());
    }
  }
  EXPECT_EQ(device->CountPieces(), 0u);
}

TEST(TransfersTest, BytesOutliveTheTransfers) {
  const auto device = std::make_shared<FakeDevice>(5);
  Bytes kept;
  std::string expected;
  {
    Transfers transfers(device, kPinnedMax, CopyBytes);
    Round round;
    round.Run(transfers, 5, 1);
    kept = *round.received[0].get();
    expected = std::string(Inverted(round.sent[0]).text());
  }
  EXPECT_EQ(kept.text(), expected);
  kept = {};
  EXPECT_EQ(device->CountPieces(), 0u);
}

TEST(TransfersTest, ATransferAboveTheBoundIsRefused) {
  Transfers transfers(std::make_shared<FakeDevice>(6), kPinnedMax, CopyBytes);
  Rng rng(6);
  const Status status =
      transfers.ToDevice(Draw(rng, kPinnedMax + 1), [](const std::byte*) { FAIL(); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

TEST(TransfersTest, ADeviceThatFallsOffTellsAllWhoWait) {
  const auto device = std::make_shared<FakeDevice>(7);
  {
    Transfers transfers(device, kPinnedMax, CopyBytes);
    Round round;
    round.Run(transfers, 7, 3);
    round.CountWrong();
    device->Break(Internal("the device fell off the bus"));
    std::promise<Status> told;
    ASSERT_TRUE(transfers
                    .ToHost(
                        3, [](std::byte*) {},
                        [&](const Result<Bytes>& bytes) { told.set_value(bytes.status()); })
                    .ok());
    EXPECT_EQ(told.get_future().get().message(), "the device fell off the bus");
    // From now on it is known beforehand.
    while (transfers.ToDevice(round.sent[0], [](const std::byte*) {}).ok()) {
    }
  }
  EXPECT_EQ(device->CountPieces(), 0u);
}

}  // namespace
}  // namespace swarm::device
