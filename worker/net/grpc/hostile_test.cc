// Any caller can reach the port and send any bytes. None may crash or hang the endpoint, or reach
// the handler.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/grpc/testing/raw_caller.h"
#include "worker/net/testing/recorder.h"
#include "worker/net/wire/frame.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

class HostileTest : public ::testing::Test {
 protected:
  HostileTest() {
    GrpcOptions options;
    options.self = WorkerId("a");
    options.listen = "127.0.0.1:0";
    options.job = "job-1";
    options.plaintext = true;
    options.payload_bytes_max = 1 << 20;
    endpoint_ = std::move(GrpcEndpoint::Create(options, &heard_)).value();
    address_ = endpoint_->addresses()[0].dial;
  }

  static StreamHello GoodHello(Lane lane, std::uint64_t incarnation = 7) {
    StreamHello hello;
    hello.job = "job-1";
    hello.id = WorkerId("mallory");
    hello.incarnation = incarnation;
    hello.lane = lane;
    hello.connection = 1;
    return hello;
  }

  std::unique_ptr<RawCaller> Call() {
    return std::make_unique<RawCaller>(address_, grpc::InsecureChannelCredentials());
  }

  Status StatusAfterHello(const StreamHello& hello) {
    const auto caller = Call();
    caller->WriteHello(hello);
    return caller->ReadToEnd();
  }

  /// A connection that was accepted.
  struct Accepted {
    std::unique_ptr<RawCaller> control, data;
  };
  Accepted Join(std::uint64_t incarnation = 7) {
    Accepted accepted{Call(), Call()};
    accepted.control->WriteHello(GoodHello(Lane::kControl, incarnation));
    accepted.data->WriteHello(GoodHello(Lane::kData, incarnation));
    EXPECT_TRUE(accepted.control->Read());
    EXPECT_TRUE(accepted.data->Read());
    return accepted;
  }

  static std::string FrameOf(std::uint64_t sequence, std::size_t payload_bytes) {
    FrameWriter writer(sequence, *EncodeHeader(protocol::Observe{}),
                       Bytes::Copy(std::string(payload_bytes, 'x')), kPieceBytesMax);
    const auto frame = writer.Next();
    return frame.prefix + std::string(frame.piece.text());
  }

  Recorder heard_;
  std::unique_ptr<GrpcEndpoint> endpoint_;
  std::string address_;
};

TEST_F(HostileTest, AnotherMethodIsNotHere) {
  RawCaller caller(address_, grpc::InsecureChannelCredentials(), "/swarmjob.v1.Transport/Steal");
  EXPECT_EQ(caller.ReadToEnd().code(), StatusCode::kUnimplemented);
}

TEST_F(HostileTest, AHelloThatIsNoneIsRefused) {
  const google::protobuf::LogSilencer quiet;
  for (const std::string& bytes :
       {std::string("\xff\xff\xff"), std::string(), std::string(5000, 'x')}) {
    const auto caller = Call();
    caller->Write(bytes);
    EXPECT_EQ(caller->ReadToEnd().code(), StatusCode::kDataLoss);
  }
  EXPECT_EQ(endpoint_->traffic().messages_refused, 3u);
}

TEST_F(HostileTest, AnotherJobIsRefusedByName) {
  StreamHello hello = GoodHello(Lane::kControl);
  hello.job = "job-2";
  const Status status = StatusAfterHello(hello);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("job-2"), std::string::npos);
}

TEST_F(HostileTest, AnotherVersionIsRefusedWithBothNamed) {
  StreamHello hello = GoodHello(Lane::kControl);
  hello.version_min = hello.version_max = 9;
  const Status status = StatusAfterHello(hello);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("versions 9 to 9"), std::string::npos) << status.message();
}

TEST_F(HostileTest, OurOwnIdIsRefused) {
  StreamHello hello = GoodHello(Lane::kControl);
  hello.id = WorkerId("a");
  EXPECT_EQ(StatusAfterHello(hello).code(), StatusCode::kPermissionDenied);
}

TEST_F(HostileTest, OneLaneAloneIsNoPeer) {
  const auto caller = Call();
  caller->WriteHello(GoodHello(Lane::kControl));
  caller->Write(FrameOf(1, 10));
  Accepted other = Join(8);  // a later process of the same id takes over what was begun
  EXPECT_FALSE(caller->ReadToEnd().ok());
  EXPECT_TRUE(heard_.arrivals().empty());
}

TEST_F(HostileTest, AFrameThatIsNoneEndsTheConnection) {
  Accepted peer = Join();
  ASSERT_TRUE(peer.data->Write(FrameOf(1, 10)));
  ASSERT_TRUE(heard_.WaitForMessages(1));
  ASSERT_TRUE(peer.data->Write("this is not a frame"));
  EXPECT_EQ(peer.data->ReadToEnd().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(peer.control->ReadToEnd().ok());
  ASSERT_TRUE(heard_.WaitForEvent("down mallory"));
  EXPECT_EQ(heard_.last_reason().code(), StatusCode::kDataLoss);
  EXPECT_EQ(endpoint_->traffic().messages_refused, 1u);
  EXPECT_EQ(endpoint_->traffic().messages_received, 1u);
}

TEST_F(HostileTest, AWrongChecksumEndsTheConnection) {
  Accepted peer = Join();
  std::string frame = FrameOf(1, 100);
  frame.back() ^= 1;
  ASSERT_TRUE(peer.data->Write(frame));
  EXPECT_EQ(peer.data->ReadToEnd().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(heard_.WaitForEvent("down mallory"));
  EXPECT_TRUE(heard_.arrivals().empty());
}

TEST_F(HostileTest, APayloadAboveTheCapEndsTheConnection) {
  Accepted peer = Join();
  ASSERT_TRUE(peer.data->Write(FrameOf(1, (1 << 20) + 1)));
  EXPECT_EQ(peer.data->ReadToEnd().code(), StatusCode::kDataLoss);
  EXPECT_EQ(endpoint_->traffic().messages_refused, 1u);
}

TEST_F(HostileTest, AMessageAboveWhatGrpcTakesEndsTheConnection) {
  Accepted peer = Join();
  peer.data->Write(std::string(20 << 20, 'x'));
  EXPECT_FALSE(peer.data->ReadToEnd().ok());
  ASSERT_TRUE(heard_.WaitForEvent("down mallory"));
}

TEST_F(HostileTest, TheNextOneIsServedAllTheSame) {
  for (std::uint64_t incarnation = 1; incarnation <= 20; ++incarnation) {
    Accepted peer = Join(incarnation);
    peer.control->Write("garbage");
  }
  Accepted peer = Join(21);
  ASSERT_TRUE(peer.control->Write(FrameOf(1, 10)));
  EXPECT_TRUE(heard_.WaitForMessages(1));
}

TEST_F(HostileTest, AnEarlierProcessDoesNotDisplaceALaterOne) {
  Accepted later = Join(10);
  const auto control = Call(), data = Call();
  control->WriteHello(GoodHello(Lane::kControl, 9));
  data->WriteHello(GoodHello(Lane::kData, 9));
  EXPECT_EQ(control->ReadToEnd().code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(later.data->Write(FrameOf(1, 10)));
  EXPECT_TRUE(heard_.WaitForMessages(1));
  EXPECT_EQ(heard_.EventCount("down mallory"), 0);
}

}  // namespace
}  // namespace swarm::net
