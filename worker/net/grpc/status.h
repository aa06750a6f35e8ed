// Our Status and gRPC's: the codes are the same numbers.
#pragma once

#include <grpcpp/support/status.h>

#include "base/status.h"

namespace swarm::net {

inline Status FromGrpc(const grpc::Status& status) {
  return status.ok() ? Status()
                     : Status(static_cast<StatusCode>(status.error_code()), status.error_message());
}

inline grpc::Status ToGrpc(const Status& status) {
  return status.ok() ? grpc::Status()
                     : grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message());
}

}  // namespace swarm::net
