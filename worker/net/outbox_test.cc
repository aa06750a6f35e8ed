#include "worker/net/outbox.h"

#include <gtest/gtest.h>

#include <future>
#include <set>

namespace swarm::net {
namespace {

const WorkerId kFar("far"), kNear("near");
constexpr std::size_t kBoundary = 2048ull * 4096 * sizeof(float);  // 2048 tokens of width 4096

/// Sends to whoever can be reached.
class HalfDeafEndpoint : public Endpoint {
 public:
  std::set<WorkerId> unreachable;
  std::size_t sent = 0;

  void Connect(const WorkerId&, const std::vector<protocol::Address>&) override {}
  void Know(const WorkerId&, const std::vector<protocol::Address>&) override {}
  void Disconnect(const WorkerId&) override {}
  Status Send(const WorkerId& to, Lane, Envelope) override {
    if (unreachable.contains(to)) return Unavailable("no connection");
    ++sent;
    return Status();
  }
  std::vector<protocol::Address> addresses() const override { return {}; }
  Traffic traffic() const override { return {}; }
  std::map<WorkerId, protocol::Link> links() const override { return {}; }
};

class OutboxTest : public testing::Test {
 protected:
  ~OutboxTest() override { loop_.Stop(); }

  /// Runs on the outbox's loop.
  void Do(const std::function<void()>& work) {
    std::promise<void> done;
    loop_.Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  /// A message with an activation; nobody reads its bytes.
  static Envelope Activation() {
    static const std::byte nothing{};
    return {protocol::Forward(), Bytes::Wrap(&nothing, kBoundary, nullptr)};
  }

  HalfDeafEndpoint endpoint_;
  Loop loop_{"outbox"};
  std::int64_t counted_ = 0;
  Outbox outbox_{&endpoint_, &loop_, [this](std::int64_t bytes) { counted_ += bytes; }};
};

TEST_F(OutboxTest, WhatWaitsForAPeerThatCannotBeReachedIsBoundedAndLeavesRoomForOthers) {
  Do([&] {
    endpoint_.unreachable = {kFar, kNear};
    outbox_.SetBytesMax(8 * kBoundary);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(outbox_.Send(kFar, Lane::kData, Activation()).ok());
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(outbox_.Send(kFar, Lane::kData, Activation()).code(),
                StatusCode::kResourceExhausted);
    }
    EXPECT_EQ(outbox_.waiting_bytes(), 4 * kBoundary);
    EXPECT_TRUE(outbox_.Send(kFar, Lane::kControl, {protocol::PeerBeat(), {}}).ok());
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(outbox_.Send(kNear, Lane::kData, Activation()).ok());
    EXPECT_EQ(counted_, static_cast<std::int64_t>(8 * kBoundary));
    outbox_.Forget(kFar);  // it was evicted
    EXPECT_EQ(counted_, static_cast<std::int64_t>(4 * kBoundary));
    endpoint_.unreachable.clear();
    outbox_.Flush();
    EXPECT_EQ(counted_, 0);
    EXPECT_EQ(outbox_.waiting(), 0u);
    EXPECT_EQ(endpoint_.sent, 4u);
  });
}

TEST_F(OutboxTest, OneMessageMayWaitHoweverLargeItIs) {
  Do([&] {
    endpoint_.unreachable = {kFar};
    outbox_.SetBytesMax(1);
    EXPECT_TRUE(outbox_.Send(kFar, Lane::kData, Activation()).ok());
    EXPECT_FALSE(outbox_.Send(kFar, Lane::kData, Activation()).ok());
    outbox_.ForgetIf([](const protocol::Message&) { return true; });
    EXPECT_EQ(counted_, 0);
  });
}

}  // namespace
}  // namespace swarm::net
