#include "worker/net/wire/frame.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/rng.h"
#include "swarmjob/v1/frame.pb.h"
#include "worker/net/wire/testing/message_generator.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

constexpr std::size_t kPiece = 1000;
constexpr MessageCaps kCaps{.payload_bytes = 100000};

std::string HeaderOf(std::uint64_t n) { return *EncodeHeader(protocol::ReduceChunk{.offset = n}); }

Bytes MakePayload(std::size_t size) {
  return Bytes::Make(size, [&](std::byte* data) {
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 256);
  });
}

/// The frames of one message, each as contiguous bytes.
std::vector<std::string> FramesOf(std::uint64_t sequence, const Bytes& payload) {
  FrameWriter writer(sequence, HeaderOf(sequence), payload, kPiece);
  std::vector<std::string> frames;
  while (!writer.done()) {
    const FrameWriter::Frame frame = writer.Next();
    frames.push_back(frame.prefix + std::string(frame.piece.text()));
  }
  return frames;
}

class FrameTest : public ::testing::Test {
 protected:
  /// Adds `frame` cut into slices of `slice_bytes`.
  Result<std::optional<Envelope>> Add(const std::string& frame, std::size_t slice_bytes = 1 << 20) {
    const auto owner = std::make_shared<const std::string>(frame);
    std::vector<FrameReader::Slice> slices;
    for (std::size_t at = 0; at < owner->size(); at += slice_bytes) {
      slices.push_back(std::as_bytes(std::span(*owner))
                           .subspan(at)
                           .first(std::min(slice_bytes, owner->size() - at)));
    }
    return reader_.Add(slices, owner);
  }

  std::shared_ptr<ReceiveBuffers> buffers_ = std::make_shared<ReceiveBuffers>(1 << 20, 1 << 20);
  FrameReader reader_{kCaps, buffers_};
};

TEST_F(FrameTest, MessagesComeBackHoweverTheyWereSliced) {
  std::uint64_t sequence = 0;
  for (const std::size_t slice_bytes : {1, 2, 7, 999, 1 << 20}) {
    for (const std::size_t size : {0, 1, 999, 1000, 1001, 5000, 64321}) {
      const Bytes payload = MakePayload(size);
      const auto frames = FramesOf(++sequence, payload);
      for (std::size_t i = 0; i < frames.size(); ++i) {
        const auto added = Add(frames[i], slice_bytes);
        ASSERT_TRUE(added.ok()) << added.status().ToString();
        ASSERT_EQ(added->has_value(), i + 1 == frames.size());
        if (!added->has_value()) continue;
        EXPECT_EQ(std::get<protocol::ReduceChunk>((*added)->message).offset, sequence);
        EXPECT_EQ((*added)->payload.text(), payload.text());
        EXPECT_EQ(reader_.bytes(), HeaderOf(sequence).size() + size);
      }
    }
  }
}

TEST_F(FrameTest, PiecesOfSumsAndOfStatesCarryTheirPayload) {
  const Bytes payload = MakePayload(2500);
  std::uint64_t sequence = 0;
  for (const protocol::Message& message :
       {protocol::Message(protocol::Parcel{.offset = 7}),
        protocol::Message(protocol::Fetched{.kind = protocol::FetchKind::kState, .piece = 7})}) {
    FrameWriter writer(++sequence, *EncodeHeader(message), payload, kPiece);
    std::optional<Envelope> received;
    while (!writer.done()) {
      const FrameWriter::Frame frame = writer.Next();
      auto added = Add(frame.prefix + std::string(frame.piece.text()));
      ASSERT_TRUE(added.ok()) << added.status().ToString();
      received = std::move(*added);
    }
    ASSERT_TRUE(received.has_value());
    EXPECT_TRUE(SameFields(received->message, message));
    EXPECT_EQ(received->payload.text(), payload.text());
  }
}

TEST_F(FrameTest, AFrameIsTheProtobufThatIsDeclared) {
  const Bytes payload = MakePayload(1500);
  swarmjob::v1::Frame frame;
  ASSERT_TRUE(frame.ParseFromString(FramesOf(9, payload)[0]));
  EXPECT_EQ(frame.sequence(), 9u);
  EXPECT_EQ(frame.payload_bytes(), 1500u);
  EXPECT_EQ(frame.offset(), 0u);
  EXPECT_EQ(frame.header().reduce_chunk().offset(), 9u);
  EXPECT_EQ(frame.payload(), payload.text().substr(0, kPiece));
  ASSERT_TRUE(frame.ParseFromString(FramesOf(9, payload)[1]));
  EXPECT_EQ(frame.offset(), kPiece);
  EXPECT_EQ(frame.payload(), payload.text().substr(kPiece));
}

TEST_F(FrameTest, TheExampleOfTheDocumentation) {
  FrameWriter writer(1, *EncodeHeader(protocol::Observe{}), Bytes::Copy("abc"), kPiece);
  const FrameWriter::Frame frame = writer.Next();
  const std::string before_crc(
      "\x09\x01\0\0\0\0\0\0\0\x11\x03\0\0\0\0\0\0\0\x19\0\0\0\0\0\0\0\0"
      "\x22\x03\x9a\x01\x00",
      32);
  EXPECT_EQ(frame.prefix.substr(0, 32), before_crc);
  const std::string covered = before_crc + "abc";
  const std::uint32_t crc = Crc32c(std::as_bytes(std::span(covered)));
  EXPECT_EQ(frame.prefix.substr(32),
            "\x2d" + std::string(reinterpret_cast<const char*>(&crc), 4) + "\x32\x03");
  EXPECT_EQ(crc, 0x87954d31u);
}

TEST_F(FrameTest, APayloadInOneSliceIsNotCopied) {
  FrameWriter writer(1, HeaderOf(1), MakePayload(50000), 1 << 20);
  const FrameWriter::Frame frame = writer.Next();
  const auto owner =
      std::make_shared<const std::string>(frame.prefix + std::string(frame.piece.text()));
  const FrameReader::Slice slice = std::as_bytes(std::span(*owner));
  const auto added = reader_.Add({&slice, 1}, owner);
  ASSERT_TRUE(added.ok() && added->has_value());
  EXPECT_EQ((*added)->payload.data(), slice.data() + frame.prefix.size());
  EXPECT_EQ((*added)->payload.owner(), owner);
}

TEST_F(FrameTest, EveryDamagedByteIsNoticed) {
  const std::string good = FramesOf(1, MakePayload(40))[0];
  const google::protobuf::LogSilencer quiet;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {1, 128}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      FrameReader reader(kCaps, buffers_);
      const FrameReader::Slice slice = std::as_bytes(std::span(bad));
      const auto added = reader.Add({&slice, 1}, nullptr);
      EXPECT_EQ(added.status().code(), StatusCode::kDataLoss) << i;
    }
  }
}

TEST_F(FrameTest, RandomBytesAreRefused) {
  Rng rng(5);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = FramesOf(1, MakePayload(rng.Below(100)))[0];
    bytes.resize(rng.Below(bytes.size()));
    if (rng.Below(2) == 0) {
      for (char& c : bytes) c = static_cast<char>(rng());
    }
    FrameReader reader(kCaps, buffers_);
    const FrameReader::Slice slice = std::as_bytes(std::span(bytes));
    EXPECT_FALSE(reader.Add({&slice, 1}, nullptr).ok());
  }
}

TEST_F(FrameTest, PiecesOutOfOrderAreRefused) {
  const auto frames = FramesOf(1, MakePayload(2500));
  EXPECT_FALSE(FrameReader(kCaps, buffers_).Add({}, nullptr).ok());
  ASSERT_TRUE(Add(frames[0]).ok());
  EXPECT_EQ(Add(frames[2]).status().code(), StatusCode::kDataLoss);
}

TEST_F(FrameTest, AMessageThatComesTwiceOrTooEarlyIsRefused) {
  const std::string first = FramesOf(1, {})[0];
  ASSERT_TRUE(Add(first).ok());
  EXPECT_EQ(Add(first).status().code(), StatusCode::kDataLoss);
  FrameReader reader(kCaps, buffers_);
  const std::string second = FramesOf(2, {})[0];
  const FrameReader::Slice slice = std::as_bytes(std::span(second));
  EXPECT_EQ(reader.Add({&slice, 1}, nullptr).status().code(), StatusCode::kDataLoss);
}

TEST_F(FrameTest, APayloadAboveTheCapIsRefusedBeforeItComes) {
  const auto frames = FramesOf(1, MakePayload(100001));
  EXPECT_EQ(Add(frames[0]).status().code(), StatusCode::kDataLoss);
}

TEST_F(FrameTest, WhatAllStreamsHoldUnfinishedIsBounded) {
  const auto small = std::make_shared<ReceiveBuffers>(5000, 0);
  const std::string frame = FramesOf(1, MakePayload(4000))[0];
  const FrameReader::Slice slice = std::as_bytes(std::span(frame));
  FrameReader one(kCaps, small), two(kCaps, small);
  EXPECT_TRUE(one.Add({&slice, 1}, nullptr).ok());
  EXPECT_EQ(two.Add({&slice, 1}, nullptr).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(FrameTest, AHeaderAboveTheCapIsRefused) {
  const std::string frame = FramesOf(1, MakePayload(0))[0];
  const FrameReader::Slice slice = std::as_bytes(std::span(frame));
  FrameReader exact({.header_bytes = HeaderOf(1).size()}, buffers_);
  EXPECT_TRUE(exact.Add({&slice, 1}, nullptr).ok());
  FrameReader less({.header_bytes = HeaderOf(1).size() - 1}, buffers_);
  EXPECT_EQ(less.Add({&slice, 1}, nullptr).status().code(), StatusCode::kDataLoss);
}

TEST_F(FrameTest, ALargeHeaderNeedsRoomWhileItIsDecoded) {
  const auto shared = std::make_shared<ReceiveBuffers>(30000, 0);
  FrameReader reader(kCaps, shared);
  const auto add = [&](std::uint64_t sequence, std::size_t text_bytes) {
    protocol::JobStatus status;
    status.message = std::string(text_bytes, 'x');
    const std::string frame =
        FrameWriter(sequence, *EncodeHeader(status), {}, kPiece).Next().prefix;
    const FrameReader::Slice slice = std::as_bytes(std::span(frame));
    return reader.Add({&slice, 1}, nullptr).status().code();
  };
  EXPECT_EQ(add(1, 20000), StatusCode::kOk);
  const auto others = shared->TakeRoom(20000);
  ASSERT_TRUE(others.ok());
  EXPECT_EQ(add(2, 1000), StatusCode::kOk) << "a small one needs no room";
  EXPECT_EQ(add(3, 20000), StatusCode::kResourceExhausted);
}

TEST(ReceiveBuffersTest, UsesMemoryAgain) {
  const auto buffers = std::make_shared<ReceiveBuffers>(1 << 30, 1 << 22);
  auto taken = buffers->Take(1 << 20);
  ASSERT_TRUE(taken.ok());
  const std::byte* where = taken->data();
  Bytes bytes = std::move(*taken).Finish();
  const auto other = buffers->Take(1 << 20);
  EXPECT_NE(other->data(), where);
  bytes = {};
  EXPECT_EQ(buffers->Take((1 << 20) - 5)->data(), where);
}

TEST(ReceiveBuffersTest, BytesOutliveIt) {
  auto buffers = std::make_shared<ReceiveBuffers>(1 << 30, 1 << 22);
  auto taken = buffers->Take(1 << 20);
  std::memset(taken->data(), 7, 1 << 20);
  const Bytes bytes = std::move(*taken).Finish();
  buffers.reset();
  EXPECT_EQ(bytes.data()[(1 << 20) - 1], std::byte{7});
}

}  // namespace
}  // namespace swarm::net
