#include "worker/net/grpc/channel_arguments.h"

#include "worker/net/wire/frame.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

constexpr int kMessageBytesMax =
    static_cast<int>(kHeaderBytesMax + kPieceBytesMax + kFrameOverheadMax);

/// Less than the idle time after which routers forget a connection.
constexpr int kPingMilliseconds = 30000;

/// Calls `set(name, value)` for the arguments of both ends.
template <typename Set>
void SetCommonArguments(const Set& set) {
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMessageBytesMax);
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, kMessageBytesMax);
  // Reads begin small, because a connection keeps the memory of its next read, and a worker may
  // have hundreds. They double, up to 4 MiB, while they are filled.
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 16 << 10);
  set(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 4 << 10);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);  // the default are 16 KiB
  // The bytes under way at 500 Mb/s and 200 ms of round trip. gRPC's own probing takes seconds to
  // get there.
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20);
  // No peer is disconnected for its pings: both ends ping, and a lane may be silent for long.
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

}  // namespace

grpc::ChannelArguments MakeChannelArguments(const protocol::Address& address, Lane lane) {
  grpc::ChannelArguments arguments;
  SetCommonArguments([&](const char* name, int value) { arguments.SetInt(name, value); });
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

void SetServerArguments(grpc::ServerBuilder* builder) {
  SetCommonArguments(
      [&](const char* name, int value) { builder->AddChannelArgument(name, value); });
  // A peer makes one call per connection.
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
}

}  // namespace swarm::net
