// A pair that cannot reach each other, with a third endpoint between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/net/detour/detour_endpoint.h"
#include "worker/net/loopback/loopback.h"
#include "worker/net/testing/recorder.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

const WorkerId kA("a"), kB("b"), kThird("c");

class DetourEndpointTest : public ::testing::Test {
 protected:
  DetourEndpointTest() {
    a_ = Make(kA, &a_heard_);
    b_ = Make(kB, &b_heard_);
    third_ = Make(kThird, &third_heard_);
    // What the owner of the third endpoint does.
    third_heard_.on_message = [this](const WorkerId&, Lane lane, const Envelope& envelope) {
      const auto* relayed = std::get_if<protocol::Relayed>(&envelope.message);
      if (relayed == nullptr) return;
      EXPECT_TRUE(third_->Send(relayed->to, lane, envelope).ok());
    };
    for (auto* endpoint : {a_.get(), b_.get()}) endpoint->Connect(kThird, third_->addresses());
    EXPECT_TRUE(third_heard_.WaitForEvent("up a"));
    EXPECT_TRUE(third_heard_.WaitForEvent("up b"));
    EXPECT_TRUE(a_heard_.WaitForEvent("up c"));
    EXPECT_TRUE(b_heard_.WaitForEvent("up c"));
  }

  std::unique_ptr<DetourEndpoint> Make(const WorkerId& self, Recorder* recorder) {
    auto made = DetourEndpoint::Create(self, recorder, [&](EndpointHandler* handler) {
      return network_.CreateEndpoint(self, handler, {});
    });
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }

  LoopbackNetwork network_;
  Recorder a_heard_, b_heard_, third_heard_;
  std::unique_ptr<DetourEndpoint> a_, b_, third_;
};

TEST_F(DetourEndpointTest, AMessageOnADetourArrivesAsFromItsSender) {
  a_->SetDetours({{kB, kThird}});
  const Envelope chunk{protocol::ReduceChunk{.offset = 7}, Bytes::Copy("gradients")};
  ASSERT_TRUE(a_->Send(kB, Lane::kData, chunk).ok());
  ASSERT_TRUE(b_heard_.WaitForMessages(1));
  const auto arrival = b_heard_.arrivals().front();
  EXPECT_EQ(arrival.from, kA);
  EXPECT_EQ(arrival.lane, Lane::kData);
  EXPECT_EQ(std::get<protocol::ReduceChunk>(arrival.envelope.message).offset, 7u);
  EXPECT_EQ(arrival.envelope.payload.text(), "gradients");
}

TEST_F(DetourEndpointTest, WithoutADetourTheDirectWayIsTaken) {
  a_->SetDetours({{kB, kThird}});
  a_->SetDetours({});
  EXPECT_EQ(a_->Send(kB, Lane::kData, {protocol::ReduceChunk{}, {}}).code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(third_heard_.EventCount("message a"), 0);
}

TEST_F(DetourEndpointTest, ControlIsNeverRelayed) {
  a_->SetDetours({{kB, kThird}});
  EXPECT_EQ(a_->Send(kB, Lane::kControl, {protocol::PeerBeat{}, {}}).code(),
            StatusCode::kUnavailable);
  // Nor is it taken from a worker that says that the trainer has sent it.
  const auto header = EncodeHeader(protocol::Shutdown{});
  ASSERT_TRUE(third_->Send(kB, Lane::kData, {protocol::Relayed{kA, kB, *header}, {}}).ok());
  ASSERT_TRUE(third_->Send(kB, Lane::kData, {protocol::Relayed{kA, kB, "no message"}, {}}).ok());
  ASSERT_TRUE(third_->Send(kB, Lane::kData, {protocol::ReduceChunk{.offset = 1}, {}}).ok());
  ASSERT_TRUE(b_heard_.WaitForMessages(1));
  EXPECT_TRUE(
      std::holds_alternative<protocol::ReduceChunk>(b_heard_.arrivals().front().envelope.message));
  EXPECT_EQ(b_->traffic().messages_refused, 2u);
}

TEST_F(DetourEndpointTest, AnOnlookerCannotSpeakAsAWorker) {
  const WorkerId observer("observer/1");
  Recorder heard;
  const auto onlooker = Make(observer, &heard);
  onlooker->Connect(kB, b_->addresses());
  ASSERT_TRUE(heard.WaitForEvent("up b"));
  const auto header = EncodeHeader(protocol::ReduceChunk{});
  ASSERT_TRUE(onlooker->Send(kB, Lane::kData, {protocol::Relayed{kA, kB, *header}, {}}).ok());
  ASSERT_TRUE(third_->Send(kB, Lane::kData, {protocol::Relayed{observer, kB, *header}, {}}).ok());
  ASSERT_TRUE(third_->Send(kB, Lane::kData, {protocol::ReduceChunk{.offset = 1}, {}}).ok());
  ASSERT_TRUE(b_heard_.WaitForEvent("message c"));
  EXPECT_EQ(b_heard_.EventCount("message a"), 0);
}

}  // namespace
}  // namespace swarm::net
