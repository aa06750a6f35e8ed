#include "worker/net/grpc/channel_arguments.h"

#include <algorithm>

namespace swarm::net {
namespace {

constexpr int kSentBytesMax =
    static_cast<int>(kHeaderBytesMax + kPieceBytesMax + kFrameOverheadMax);

/// The bytes under way at 500 Mb/s and 200 ms of round trip. gRPC's own probing takes seconds to
/// get there.
constexpr int kLookaheadBytes = 16 << 20;

/// The largest frame that fits the caps. Its sender may cut pieces of any size up to the largest.
int ReceivedBytesMax(const MessageCaps& caps) {
  return static_cast<int>(std::min(caps.header_bytes, kHeaderBytesMax) +
                          std::min(caps.payload_bytes, kPieceBytesMax) + kFrameOverheadMax);
}

/// Less than the idle time after which routers forget a connection.
constexpr int kPingMilliseconds = 30000;

/// Calls `set(name, value)` for the arguments of both ends.
template <typename Set>
void SetCommonArguments(const MessageCaps& caps, const Set& set) {
  const int received = ReceivedBytesMax(caps);
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, received);
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, kSentBytesMax);
  // Reads begin small, because a connection keeps the memory of its next read, and a worker may
  // have hundreds. They double, up to 4 MiB, while they are filled.
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 16 << 10);
  set(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 4 << 10);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);  // the default are 16 KiB
  if (caps.payload_bytes > 0) {
    set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  } else {
    // Headers alone need no speed. gRPC's probing would grow the window with what a peer sends.
    set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  }
  // No peer is disconnected for its pings: both ends ping, and a lane may be silent for long.
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

}  // namespace

grpc::ChannelArguments MakeChannelArguments(const protocol::Address& address, Lane lane,
                                            const MessageCaps& caps) {
  grpc::ChannelArguments arguments;
  SetCommonArguments(caps, [&](const char* name, int value) { arguments.SetInt(name, value); });
  // Makes a connection of its own, even if this process has others to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("swarm.lane", static_cast<int>(lane));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A silent peer is noticed by its beats, and one whose machine has vanished by what this end
  // sends to it: gRPC also makes the timeout TCP's, for what is not acknowledged. Acks wait behind
  // bulk, so the data lane has more patience. So pings are rare, since large swarms have tens of
  // thousands of connections; they are for one that carries nothing.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, lane == Lane::kControl ? 4000 : 20000);
  if (!address.tls_server_name.empty()) arguments.SetSslTargetNameOverride(address.tls_server_name);
  return arguments;
}

void SetServerArguments(const MessageCaps& caps, grpc::ServerBuilder* builder) {
  SetCommonArguments(
      caps, [&](const char* name, int value) { builder->AddChannelArgument(name, value); });
  // A peer makes one call per connection.
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
}

}  // namespace swarm::net
