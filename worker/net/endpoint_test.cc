// Promises of every Endpoint, checked for each implementation.
#include "worker/net/endpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>

#include "worker/net/testing/endpoint_under_test.h"
#include "worker/net/testing/recorder.h"

namespace swarm::net {
namespace {

const WorkerId kA("a"), kB("b"), kC("c");

/// Bytes that tell one payload, and one place in it, from another.
Bytes MakePayload(std::size_t size, std::uint64_t key = 0) {
  return Bytes::Make(size, [&](std::byte* data) {
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 31 + key) >> 3);
  });
}

bool SamePayload(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// A message that carries a number.
Envelope Numbered(std::uint64_t n, Bytes payload = {}) {
  return {protocol::ReduceChunk{.offset = n}, std::move(payload)};
}

std::uint64_t NumberOf(const Envelope& envelope) {
  return std::get<protocol::ReduceChunk>(envelope.message).offset;
}

/// Sends, waiting while the window is full.
Status SendPatiently(Endpoint& endpoint, const WorkerId& to, Lane lane, const Envelope& envelope) {
  const Timepoint deadline = Clock::now() + std::chrono::minutes(1);
  for (;;) {
    const Status status = endpoint.Send(to, lane, envelope);
    if (status.code() != StatusCode::kResourceExhausted || Clock::now() > deadline) return status;
    std::this_thread::yield();
  }
}

class EndpointTest : public ::testing::TestWithParam<const char*> {
 protected:
  EndpointTest() : network_(MakeNetwork(GetParam())) {}

  std::unique_ptr<Endpoint> Make(const WorkerId& self, Recorder* recorder,
                                 const EndpointLimits& limits = {}) {
    auto made = network_->Make(self, recorder, limits);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }

  /// `from` dials `to`; returns when both know.
  static void Join(Endpoint& from, Recorder& from_recorder, const WorkerId& from_id, Endpoint& to,
                   Recorder& to_recorder, const WorkerId& to_id) {
    const int before_from = from_recorder.EventCount("up " + to_id.value);
    const int before_to = to_recorder.EventCount("up " + from_id.value);
    from.Connect(to_id, to.addresses());
    ASSERT_TRUE(from_recorder.WaitForEvent("up " + to_id.value, before_from + 1));
    ASSERT_TRUE(to_recorder.WaitForEvent("up " + from_id.value, before_to + 1));
  }

  bool loopback() const { return std::string_view(GetParam()).ends_with("Loopback"); }

  std::unique_ptr<NetworkUnderTest> network_;
};

TEST_P(EndpointTest, KeepsTheOrderOfEachLane) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  Join(*a, a_heard, kA, *b, b_heard, kB);
  constexpr std::uint64_t kCount = 500;
  for (std::uint64_t n = 0; n < kCount; ++n) {
    for (const Lane lane : {Lane::kControl, Lane::kData}) {
      ASSERT_TRUE(SendPatiently(*a, kB, lane, Numbered(n)).ok());
      ASSERT_TRUE(SendPatiently(*b, kA, lane, Numbered(n)).ok());
    }
  }
  for (Recorder* heard : {&a_heard, &b_heard}) {
    ASSERT_TRUE(heard->WaitForMessages(2 * kCount));
    std::map<Lane, std::uint64_t> next;
    for (const auto& arrival : heard->arrivals()) {
      EXPECT_EQ(NumberOf(arrival.envelope), next[arrival.lane]++);
    }
  }
}

TEST_P(EndpointTest, APeerThatIsKnownIsCalledWhenThereIsSomethingToSend) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  a->Know(kB, b->addresses());
  b->Know(kA, a->addresses());
  EXPECT_EQ(a->Send(kB, Lane::kData, Numbered(1)).code(), StatusCode::kUnavailable);
  ASSERT_TRUE(a_heard.WaitForEvent("up b"));
  ASSERT_TRUE(b_heard.WaitForEvent("up a"));
  ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(2)).ok());
  ASSERT_TRUE(b->Send(kA, Lane::kData, Numbered(3)).ok());
  ASSERT_TRUE(b_heard.WaitForMessages(1));
  EXPECT_EQ(NumberOf(b_heard.arrivals()[0].envelope), 2u);
  ASSERT_TRUE(a_heard.WaitForMessages(1));
}

TEST_P(EndpointTest, TwoThatKnowEachOtherMayCallAtOnce) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  a->Know(kB, b->addresses());
  b->Know(kA, a->addresses());
  (void)a->Send(kB, Lane::kData, Numbered(1));
  (void)b->Send(kA, Lane::kData, Numbered(1));
  ASSERT_TRUE(a_heard.WaitForEvent("up b"));
  ASSERT_TRUE(b_heard.WaitForEvent("up a"));
  ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(2)).ok());
  ASSERT_TRUE(b_heard.WaitForMessages(1));
  EXPECT_EQ(a_heard.EventCount("down b"), 0);
}

TEST_P(EndpointTest, WhoIsDisconnectedIsNotKnownAnyMore) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  a->Know(kB, b->addresses());
  a->Disconnect(kB);
  (void)a->Send(kB, Lane::kData, Numbered(1));
  auto c = Make(kC, &b_heard);
  a->Know(kC, c->addresses());
  (void)a->Send(kC, Lane::kData, Numbered(1));
  ASSERT_TRUE(a_heard.WaitForEvent("up c")) << "by then b had been called, too";
  EXPECT_EQ(a_heard.EventCount("up b"), 0);
}

TEST_P(EndpointTest, CarriesPayloadsOfEverySizeUnchanged) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  Join(*a, a_heard, kA, *b, b_heard, kB);
  constexpr std::size_t kMiB = 1 << 20;
  const std::vector<std::size_t> sizes = {0,        1,        7,           4095,         65536,
                                          kMiB - 1, kMiB,     kMiB + 1,    3 * kMiB + 5, 8 * kMiB,
                                          0,        kMiB / 2, 5 * kMiB - 3};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(SendPatiently(*a, kB, Lane::kData, Numbered(i, MakePayload(sizes[i], i))).ok());
    ASSERT_TRUE(SendPatiently(*b, kA, Lane::kData, Numbered(i, MakePayload(sizes[i], i))).ok());
  }
  for (Recorder* heard : {&a_heard, &b_heard}) {
    ASSERT_TRUE(heard->WaitForMessages(sizes.size()));
    const auto arrivals = heard->arrivals();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(NumberOf(arrivals[i].envelope), i);
      EXPECT_TRUE(SamePayload(arrivals[i].envelope.payload, MakePayload(sizes[i], i))) << sizes[i];
    }
  }
}

TEST_P(EndpointTest, LetsGoOfAPayloadOnceItIsSent) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  std::weak_ptr<const void> owner;
  {
    auto b = Make(kB, &b_heard);
    Join(*a, a_heard, kA, *b, b_heard, kB);
    Bytes payload = MakePayload(3 << 20);
    owner = payload.owner();
    ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(0, std::move(payload))).ok());
    ASSERT_TRUE(b_heard.WaitForMessages(1));
    b_heard.Forget();
  }
  a.reset();
  EXPECT_TRUE(owner.expired());
}

TEST_P(EndpointTest, AnnouncesAPeerThatWasDialledFromBothSidesOnce) {
  for (int round = 0; round < 10; ++round) {
    Recorder a_heard, b_heard;
    auto a = Make(kA, &a_heard);
    auto b = Make(kB, &b_heard);
    const auto to_a = a->addresses(), to_b = b->addresses();
    std::thread dials([&] { a->Connect(kB, to_b); });
    b->Connect(kA, to_a);
    dials.join();
    ASSERT_TRUE(a_heard.WaitForEvent("up b"));
    ASSERT_TRUE(b_heard.WaitForEvent("up a"));
    for (std::uint64_t n = 0; n < 50; ++n) {
      ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(n)).ok());
      ASSERT_TRUE(b->Send(kA, Lane::kControl, Numbered(n)).ok());
    }
    EXPECT_TRUE(a_heard.WaitForMessages(50));
    EXPECT_TRUE(b_heard.WaitForMessages(50));
    EXPECT_EQ(a_heard.EventCount("up b"), 1);
    EXPECT_EQ(a_heard.EventCount("down b"), 0);
    EXPECT_EQ(b_heard.EventCount("up a"), 1);
  }
}

TEST_P(EndpointTest, TellsOnceWhenAPeerIsGoneAndAgainWhenItIsBack) {
  Recorder a_heard;
  auto a = Make(kA, &a_heard);
  for (int life = 1; life <= 3; ++life) {
    Recorder b_heard;
    auto b = Make(kB, &b_heard);
    b->Connect(kA, a->addresses());
    ASSERT_TRUE(a_heard.WaitForEvent("up b", life));
    ASSERT_TRUE(b_heard.WaitForEvent("up a"));
    ASSERT_TRUE(b->Send(kA, Lane::kControl, Numbered(1)).ok());
    ASSERT_TRUE(a_heard.WaitForMessages(life));
    b.reset();
    ASSERT_TRUE(a_heard.WaitForEvent("down b", life));
    EXPECT_FALSE(a_heard.last_reason().ok());
    EXPECT_EQ(a->Send(kB, Lane::kControl, Numbered(2)).code(), StatusCode::kUnavailable);
  }
  const std::vector<std::string> life = {"up b", "message b", "down b"};
  std::vector<std::string> expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), life.begin(), life.end());
  EXPECT_EQ(a_heard.events(), expected);
}

TEST_P(EndpointTest, DialsAgainUntilAWantedPeerIsBack) {
  Recorder a_heard;
  auto a = Make(kA, &a_heard);
  for (int life = 1; life <= 2; ++life) {
    Recorder b_heard;
    auto b = Make(kB, &b_heard);
    a->Connect(kB, b->addresses());
    ASSERT_TRUE(a_heard.WaitForEvent("up b", life));
    ASSERT_TRUE(b_heard.WaitForEvent("up a"));
    ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(1, MakePayload(100))).ok());
    ASSERT_TRUE(b_heard.WaitForMessages(1));
    b.reset();
    ASSERT_TRUE(a_heard.WaitForEvent("down b", life));
  }
}

TEST_P(EndpointTest, RefusesWhatIsAboveTheWindowAndRecovers) {
  Recorder a_heard, b_heard;
  std::promise<void> opened;
  std::shared_future<void> open = opened.get_future().share();
  b_heard.on_message = [open](const WorkerId&, Lane, const Envelope&) { open.wait(); };
  auto a = Make(kA, &a_heard, {.data_window_bytes = 4 << 20});
  auto b = Make(kB, &b_heard, {.data_window_bytes = 4 << 20});
  Join(*a, a_heard, kA, *b, b_heard, kB);
  const Bytes payload = MakePayload(1 << 20);
  std::uint64_t accepted = 0;
  Status status;
  while ((status = a->Send(kB, Lane::kData, Numbered(accepted, payload))).ok()) {
    ASSERT_LT(++accepted, 500u) << "the window never fills";
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_GE(accepted, 3u);
  opened.set_value();
  ASSERT_TRUE(SendPatiently(*a, kB, Lane::kData, Numbered(accepted, payload)).ok());
  ASSERT_TRUE(b_heard.WaitForMessages(accepted + 1));
  for (std::uint64_t n = 0; n <= accepted; ++n) {
    EXPECT_EQ(NumberOf(b_heard.arrivals()[n].envelope), n);
  }
}

TEST_P(EndpointTest, SendsAMessageLargerThanTheWindowWhenNothingElseWaits) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard, {.data_window_bytes = 1000});
  auto b = Make(kB, &b_heard);
  Join(*a, a_heard, kA, *b, b_heard, kB);
  ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(0, MakePayload(3 << 20))).ok());
  EXPECT_TRUE(b_heard.WaitForMessages(1));
}

TEST_P(EndpointTest, ControlPassesBulkThatNobodyTakes) {
  if (loopback()) GTEST_SKIP() << "the loopback calls a handler on one thread";
  Recorder a_heard, b_heard;
  std::promise<void> came;
  std::shared_future<void> control_came = came.get_future().share();
  b_heard.on_message = [&, control_came](const WorkerId&, Lane lane, const Envelope&) {
    if (lane == Lane::kControl) came.set_value();
    if (lane == Lane::kData) control_came.wait();
  };
  auto a = Make(kA, &a_heard, {.data_window_bytes = 80 << 20});
  auto b = Make(kB, &b_heard);
  Join(*a, a_heard, kA, *b, b_heard, kB);
  const Bytes payload = MakePayload(4 << 20);
  for (std::uint64_t n = 0; n < 16; ++n) {
    ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(n, payload)).ok());
  }
  ASSERT_TRUE(a->Send(kB, Lane::kControl, Numbered(0)).ok());
  ASSERT_TRUE(b_heard.WaitForMessages(17));
}

TEST_P(EndpointTest, ARequestIsAnsweredFromTheHandler) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  std::atomic<Endpoint*> answering = nullptr;
  std::atomic<int> failures = 0;
  b_heard.on_message = [&](const WorkerId& from, Lane lane, const Envelope& envelope) {
    if (!answering.load()->Send(from, lane, envelope).ok()) ++failures;
  };
  auto b = Make(kB, &b_heard);
  answering = b.get();
  Join(*a, a_heard, kA, *b, b_heard, kB);
  for (std::uint64_t n = 0; n < 100; ++n) {
    ASSERT_TRUE(a->Send(kB, Lane::kControl, Numbered(n, MakePayload(n))).ok());
  }
  ASSERT_TRUE(a_heard.WaitForMessages(100));
  EXPECT_EQ(failures, 0);
  for (std::uint64_t n = 0; n < 100; ++n) {
    EXPECT_EQ(NumberOf(a_heard.arrivals()[n].envelope), n);
  }
}

TEST_P(EndpointTest, IsSilentOnceItIsDestroyed) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  Join(*a, a_heard, kA, *b, b_heard, kB);
  std::atomic<bool> stop = false;
  std::thread sender([&] {
    for (std::uint64_t n = 0; !stop; ++n)
      (void)a->Send(kB, Lane::kData, Numbered(n, MakePayload(999)));
  });
  ASSERT_TRUE(b_heard.WaitForMessages(50));
  b.reset();
  const std::size_t heard = b_heard.events().size();
  ASSERT_TRUE(a_heard.WaitForEvent("down b"));
  stop = true;
  sender.join();
  EXPECT_EQ(b_heard.events().size(), heard);
  EXPECT_EQ(b_heard.EventCount("down a"), 0);
}

TEST_P(EndpointTest, ADisconnectedPeerIsToldAndRefusedUntilItIsWantedAgain) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  Join(*b, b_heard, kB, *a, a_heard, kA);
  a->Disconnect(kB);
  ASSERT_TRUE(b_heard.WaitForEvent("down a"));
  EXPECT_EQ(a->Send(kB, Lane::kControl, Numbered(0)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(a_heard.EventCount("down b"), 0);
  EXPECT_EQ(a_heard.EventCount("up b"), 1);
  a->Connect(kB, b->addresses());
  ASSERT_TRUE(a_heard.WaitForEvent("up b", 2));
  ASSERT_TRUE(b_heard.WaitForEvent("up a", 2));
  ASSERT_TRUE(b->Send(kA, Lane::kControl, Numbered(7)).ok());
  ASSERT_TRUE(a_heard.WaitForMessages(1));
  EXPECT_EQ(NumberOf(a_heard.arrivals()[0].envelope), 7u);
}

TEST_P(EndpointTest, ARestartedProcessOfADisconnectedPeerIsWelcome) {
  Recorder a_heard;
  auto a = Make(kA, &a_heard);
  {
    Recorder b_heard;
    auto b = Make(kB, &b_heard);
    Join(*b, b_heard, kB, *a, a_heard, kA);
    a->Disconnect(kB);
    ASSERT_TRUE(b_heard.WaitForEvent("down a"));
  }
  Recorder b_heard;
  auto b = Make(kB, &b_heard);
  b->Connect(kA, a->addresses());
  EXPECT_TRUE(a_heard.WaitForEvent("up b", 2));
}

TEST_P(EndpointTest, RefusesAPayloadAboveTheCap) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard, {.payload_bytes_max = 1000});
  auto b = Make(kB, &b_heard, {.payload_bytes_max = 1000});
  Join(*a, a_heard, kA, *b, b_heard, kB);
  EXPECT_EQ(a->Send(kB, Lane::kData, Numbered(0, MakePayload(1001))).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(a->Send(kB, Lane::kData, Numbered(1, MakePayload(1000))).ok());
  ASSERT_TRUE(b_heard.WaitForMessages(1));
  EXPECT_EQ(NumberOf(b_heard.arrivals()[0].envelope), 1u);
}

TEST_P(EndpointTest, AnUnknownPeerIsUnavailable) {
  Recorder a_heard;
  auto a = Make(kA, &a_heard);
  EXPECT_EQ(a->Send(kC, Lane::kControl, Numbered(0)).code(), StatusCode::kUnavailable);
  a->Disconnect(kC);
  a->Connect(kC, {{"cluster", network_->nowhere(), ""}});
  EXPECT_EQ(a->Send(kC, Lane::kControl, Numbered(0)).code(), StatusCode::kUnavailable);
}

TEST_P(EndpointTest, CountsItsTraffic) {
  Recorder a_heard, b_heard;
  auto a = Make(kA, &a_heard);
  auto b = Make(kB, &b_heard);
  Join(*a, a_heard, kA, *b, b_heard, kB);
  for (int n = 0; n < 10; ++n)
    ASSERT_TRUE(a->Send(kB, Lane::kData, Numbered(n, MakePayload(1000))).ok());
  ASSERT_TRUE(b_heard.WaitForMessages(10));
  EXPECT_EQ(a->traffic().messages_sent, 10u);
  EXPECT_EQ(b->traffic().messages_received, 10u);
  EXPECT_GT(a->traffic().bytes_sent, 10000u);
  EXPECT_EQ(a->traffic().bytes_sent, b->traffic().bytes_received);
  EXPECT_EQ(b->traffic().messages_refused, 0u);
}

TEST_P(EndpointTest, TalksToManyPeersAtOnce) {
  constexpr int kPeers = 12, kEach = 40;
  Recorder hub_heard;
  auto hub = Make(kA, &hub_heard);
  std::vector<std::unique_ptr<Recorder>> heard;
  std::vector<std::unique_ptr<Endpoint>> peers;
  for (int i = 0; i < kPeers; ++i) {
    heard.push_back(std::make_unique<Recorder>());
    peers.push_back(Make(WorkerId("peer-" + std::to_string(i)), heard.back().get()));
    peers.back()->Connect(kA, hub->addresses());
  }
  for (auto& recorder : heard) ASSERT_TRUE(recorder->WaitForEvent("up a"));
  for (int n = 0; n < kEach; ++n) {
    for (auto& peer : peers) {
      ASSERT_TRUE(SendPatiently(*peer, kA, Lane::kData, Numbered(n, MakePayload(10000, n))).ok());
    }
  }
  ASSERT_TRUE(hub_heard.WaitForMessages(kPeers * kEach));
  std::map<WorkerId, std::uint64_t> next;
  for (const auto& arrival : hub_heard.arrivals()) {
    EXPECT_EQ(NumberOf(arrival.envelope), next[arrival.from]++);
  }
  for (int i = 0; i < kPeers; ++i) {
    ASSERT_TRUE(hub->Send(WorkerId("peer-" + std::to_string(i)), Lane::kControl, Numbered(i)).ok());
    ASSERT_TRUE(heard[i]->WaitForMessages(1));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EndpointTest, ::testing::ValuesIn(NetworksUnderTest()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace swarm::net
