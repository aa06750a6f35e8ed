// What gRPC has to say goes into this program's log.
#pragma once

namespace swarm::net {

/// Once for the process, however often it is called: from then on gRPC's errors are our warnings and
/// everything else it logs is debug.
void RouteGrpcLog();

}  // namespace swarm::net
