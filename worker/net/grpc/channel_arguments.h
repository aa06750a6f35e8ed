// The settings of gRPC's connections, on both ends, where they must agree.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "worker/net/endpoint.h"
#include "worker/net/wire/frame.h"

namespace swarm::net {

/// For the connection of one lane to `address`. Lanes never share a connection. `caps` of what this
/// end accepts bound also what gRPC holds for it.
grpc::ChannelArguments MakeChannelArguments(const protocol::Address& address, Lane lane,
                                            const MessageCaps& caps);

void SetServerArguments(const MessageCaps& caps, grpc::ServerBuilder* builder);

}  // namespace swarm::net
