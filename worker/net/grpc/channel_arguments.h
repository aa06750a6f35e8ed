// The settings of gRPC's connections, on both ends, where they must agree.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "worker/net/endpoint.h"

namespace swarm::net {

/// For the connection of one lane to `address`. Lanes never share a connection.
grpc::ChannelArguments MakeChannelArguments(const protocol::Address& address, Lane lane);

void SetServerArguments(grpc::ServerBuilder* builder);

}  // namespace swarm::net
