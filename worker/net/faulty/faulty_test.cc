// A bad network as its users see it. Runs over loopback: the decorator is the same over gRPC, with
// which it passes the conformance suite (../endpoint_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "base/testing/temporary_folder.h"
#include "worker/net/faulty/faulty_endpoint.h"
#include "worker/net/loopback/loopback.h"
#include "worker/net/testing/recorder.h"

namespace swarm::net {
namespace {

using testing::ElementsAre;

const WorkerId kA("a"), kB("b");

Envelope Numbered(std::uint64_t n, Bytes payload = {}) {
  return {protocol::ReduceChunk{.offset = n}, std::move(payload)};
}

/// Passes on what the inner endpoint tells, and keeps it: so a test can wait for news that the
/// decorator holds back.
class Tap final : public EndpointHandler {
 public:
  explicit Tap(EndpointHandler* to) : to_(to) {}
  void OnMessage(const WorkerId& from, Lane lane, Envelope envelope) override {
    to_->OnMessage(from, lane, std::move(envelope));
  }
  void OnPeerUp(const WorkerId& peer) override {
    to_->OnPeerUp(peer);
    passed.OnPeerUp(peer);
  }
  void OnPeerDown(const WorkerId& peer, const Status& why) override {
    to_->OnPeerDown(peer, why);
    passed.OnPeerDown(peer, why);
  }
  Recorder passed;

 private:
  EndpointHandler* const to_;
};

class FaultyEndpointTest : public ::testing::Test {
 protected:
  std::unique_ptr<Endpoint> Make(const WorkerId& self, Recorder* recorder,
                                 FaultyOptions options = {}) {
    options.self = self;
    auto made = FaultyEndpoint::Create(options, recorder, [&](EndpointHandler* handler) {
      Tap& tap = *taps_.emplace_back(std::make_unique<Tap>(handler));
      return network_.CreateEndpoint(self, &tap, {});
    });
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }
  void MakeBoth(const FaultyOptions& options = {}) {
    a_ = Make(kA, &a_heard_, options);
    b_ = Make(kB, &b_heard_, options);
  }
  void Join() {
    a_->Connect(kB, b_->addresses());
    ASSERT_TRUE(a_heard_.WaitForEvent("up b"));
    ASSERT_TRUE(b_heard_.WaitForEvent("up a"));
  }
  void SetRules(const std::string& text) {
    const auto rules = chaos::ParseFaultRules(text);
    ASSERT_TRUE(rules.ok()) << rules.status().ToString();
    for (Endpoint* endpoint : {a_.get(), b_.get()}) {
      if (endpoint != nullptr) dynamic_cast<FaultyEndpoint&>(*endpoint).SetRules(*rules);
    }
  }
  static std::vector<std::uint64_t> Numbers(const Recorder& recorder) {
    std::vector<std::uint64_t> numbers;
    for (const auto& arrival : recorder.arrivals()) {
      numbers.push_back(std::get<protocol::ReduceChunk>(arrival.envelope.message).offset);
    }
    return numbers;
  }

  LoopbackNetwork network_;
  std::deque<std::unique_ptr<Tap>> taps_;  // of the endpoints, in the order of their making
  Recorder a_heard_, b_heard_;
  std::unique_ptr<Endpoint> a_, b_;
};

TEST_F(FaultyEndpointTest, ACutIsABlackHoleUntilItHealsAndThenAllArrivesInOrder) {
  MakeBoth();
  Join();
  SetRules("cut a b\ncut b a\n");
  for (std::uint64_t n = 0; n < 50; ++n) {
    ASSERT_TRUE(a_->Send(kB, Lane::kData, Numbered(n)).ok());
    ASSERT_TRUE(b_->Send(kA, Lane::kControl, Numbered(n)).ok());
  }
  EXPECT_THAT(a_heard_.events(), ElementsAre("up b"));
  EXPECT_THAT(b_heard_.events(), ElementsAre("up a"));
  SetRules("");
  ASSERT_TRUE(a_->Send(kB, Lane::kData, Numbered(50)).ok());
  ASSERT_TRUE(b_heard_.WaitForMessages(51));
  ASSERT_TRUE(a_heard_.WaitForMessages(50));
  const auto numbers = Numbers(b_heard_);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_F(FaultyEndpointTest, OneDirectionMayBeCutAlone) {
  MakeBoth();
  Join();
  SetRules("cut a b\n");
  ASSERT_TRUE(a_->Send(kB, Lane::kControl, Numbered(1)).ok());
  ASSERT_TRUE(b_->Send(kA, Lane::kControl, Numbered(2)).ok());
  ASSERT_TRUE(a_heard_.WaitForMessages(1));
  EXPECT_THAT(b_heard_.events(), ElementsAre("up a"));
}

TEST_F(FaultyEndpointTest, ThatAPeerDiedBehindACutIsHeardOnlyAfterwards) {
  MakeBoth();
  Join();
  SetRules("cut * b\ncut b *\n");
  b_.reset();
  EXPECT_TRUE(a_->Send(kB, Lane::kData, Numbered(1)).ok());
  EXPECT_EQ(a_heard_.EventCount("down b"), 0);
  SetRules("");
  EXPECT_TRUE(a_heard_.WaitForEvent("down b"));
  EXPECT_EQ(a_->Send(kB, Lane::kData, Numbered(2)).code(), StatusCode::kUnavailable);
}

TEST_F(FaultyEndpointTest, WhatWasSentToADeadConnectionDoesNotArriveOnTheNext) {
  MakeBoth();
  Join();
  SetRules("cut a b\ncut b a\n");
  ASSERT_TRUE(a_->Send(kB, Lane::kData, Numbered(1)).ok());
  b_.reset();
  Recorder again;
  b_ = Make(kB, &again);
  b_->Connect(kA, a_->addresses());
  // The new one knows no rules: it sees the connection, the old one does not.
  ASSERT_TRUE(again.WaitForEvent("up a"));
  ASSERT_TRUE(taps_[0]->passed.WaitForEvent("up b", 2));
  EXPECT_TRUE(a_->Send(kB, Lane::kData, Numbered(2)).ok());
  EXPECT_THAT(a_heard_.events(), ElementsAre("up b"));
  SetRules("");
  ASSERT_TRUE(a_heard_.WaitForEvent("up b", 2));
  EXPECT_THAT(a_heard_.events(), ElementsAre("up b", "down b", "up b"));
  ASSERT_TRUE(a_->Send(kB, Lane::kData, Numbered(3)).ok());
  ASSERT_TRUE(again.WaitForMessages(1));
  EXPECT_THAT(Numbers(again), ElementsAre(3));
}

TEST_F(FaultyEndpointTest, NobodyConnectsThroughACut) {
  MakeBoth();
  SetRules("cut a b\n");
  a_->Connect(kB, b_->addresses());
  EXPECT_EQ(a_->Send(kB, Lane::kControl, Numbered(1)).code(), StatusCode::kUnavailable);
  EXPECT_THAT(a_heard_.events(), ElementsAre());
  SetRules("");
  EXPECT_TRUE(a_heard_.WaitForEvent("up b"));
  EXPECT_TRUE(b_heard_.WaitForEvent("up a"));
}

TEST_F(FaultyEndpointTest, ADelayKeepsTheOrderAndTakesItsTime) {
  MakeBoth();
  Join();
  SetRules("delay a b 30\n");
  const Timepoint begin = Clock::now();
  for (std::uint64_t n = 0; n < 10; ++n) {
    ASSERT_TRUE(a_->Send(kB, Lane::kData, Numbered(n)).ok());
  }
  SetRules("");  // what is on its way stays late, and what comes after does not overtake it
  ASSERT_TRUE(a_->Send(kB, Lane::kData, Numbered(10)).ok());
  ASSERT_TRUE(b_heard_.WaitForMessages(11));
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(30));
  EXPECT_THAT(Numbers(b_heard_), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST_F(FaultyEndpointTest, ABlackHoleHasABottom) {
  MakeBoth({.held_bytes_max = 10'000});
  Join();
  SetRules("cut a b\n");
  const Bytes payload =
      Bytes::Make(4000, [](std::byte* data) { std::fill_n(data, 4000, std::byte{1}); });
  EXPECT_TRUE(a_->Send(kB, Lane::kData, Numbered(0, payload)).ok());
  EXPECT_TRUE(a_->Send(kB, Lane::kData, Numbered(1, payload)).ok());
  EXPECT_EQ(a_->Send(kB, Lane::kData, Numbered(2, payload)).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(a_->Send(kB, Lane::kControl, Numbered(3)).ok()) << "each lane has its own";
}

TEST_F(FaultyEndpointTest, ADisconnectedPeerIsForgottenWithAllThatWasHeldBack) {
  MakeBoth();
  Join();
  SetRules("cut a b\ncut b a\n");
  ASSERT_TRUE(a_->Send(kB, Lane::kData, Numbered(1)).ok());
  a_->Disconnect(kB);
  SetRules("");
  EXPECT_TRUE(b_heard_.WaitForEvent("down a"));
  EXPECT_THAT(a_heard_.events(), ElementsAre("up b"));
  EXPECT_THAT(Numbers(b_heard_), ElementsAre());
}

TEST_F(FaultyEndpointTest, RulesComeFromAFileThatChanges) {
  const TemporaryFolder folder;
  const std::string file = folder / "rules";
  const auto write = [&](const std::string& text) {
    std::ofstream(file + ".next") << text;
    std::filesystem::rename(file + ".next", file);
  };
  write("cut a b\n");
  MakeBoth({.rules_file = file, .poll = std::chrono::milliseconds(1)});
  a_->Connect(kB, b_->addresses());
  EXPECT_EQ(a_->Send(kB, Lane::kControl, Numbered(1)).code(), StatusCode::kUnavailable);
  write("nonsense\n");
  write("\n");
  EXPECT_TRUE(a_heard_.WaitForEvent("up b"));
}

}  // namespace
}  // namespace swarm::net
