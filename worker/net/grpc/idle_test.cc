// Connections that were made because there was something to send, and are not used any more.
#include <gtest/gtest.h>

#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/testing/recorder.h"

namespace swarm::net {
namespace {

const WorkerId kA("a"), kB("b"), kC("c");

std::unique_ptr<GrpcEndpoint> Make(const WorkerId& self, Recorder* recorder) {
  GrpcOptions options{.self = self, .listen = "127.0.0.1:0", .job = "job-1", .plaintext = true};
  options.idle_max = std::chrono::milliseconds(100);
  return std::move(GrpcEndpoint::Create(options, recorder)).value();
}

TEST(IdleTest, AConnectionThatIsNotUsedIsClosedAndComesBackWhenItIsNeeded) {
  Recorder a_heard, b_heard, c_heard;
  const auto a = Make(kA, &a_heard), b = Make(kB, &b_heard), c = Make(kC, &c_heard);
  a->Connect(kC, c->addresses());
  ASSERT_TRUE(a_heard.WaitForEvent("up c"));
  a->Know(kB, b->addresses());
  for (int times = 1; times <= 2; ++times) {
    EXPECT_EQ(a->Send(kB, Lane::kControl, {protocol::PeerBeat{}, {}}).code(),
              StatusCode::kUnavailable);
    ASSERT_TRUE(a_heard.WaitForEvent("up b", times));
    ASSERT_TRUE(a_heard.WaitForEvent("down b", times)) << "it was not used";
  }
  EXPECT_EQ(a_heard.EventCount("down c"), 0) << "it is kept";
  a->Know(kC, c->addresses());
  EXPECT_TRUE(a_heard.WaitForEvent("down c")) << "it is not kept any more";
}

}  // namespace
}  // namespace swarm::net
