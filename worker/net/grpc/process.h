// Settings of the whole process that gRPC needs.
#pragma once

namespace swarm::net {

/// Makes these settings. Call it before gRPC is used; later calls do nothing:
/// - gRPC's errors become our warnings, and its other messages are debug;
/// - TLS 1.3 is the only version that is spoken (it sets GRPC_SSL_CIPHER_SUITES in the
///   environment);
/// - the allocator keeps up to 64 MiB of freed memory at hand;
/// - Abseil does not watch the order in which mutexes are locked.
void PrepareProcess();

}  // namespace swarm::net
