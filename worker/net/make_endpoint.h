// How to open an endpoint, for those who do not choose the transport.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "worker/net/endpoint.h"

namespace swarm::net {

/// Opens an endpoint whose calls go to `handler`, which outlives it.
using MakeEndpoint = std::function<Result<std::unique_ptr<Endpoint>>(EndpointHandler* handler)>;

}  // namespace swarm::net
