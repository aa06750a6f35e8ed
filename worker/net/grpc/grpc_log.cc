#include "worker/net/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <mutex>
#include <string_view>

#include "base/log.h"

namespace swarm::net {
namespace {

void Log(gpr_log_func_args* args) {
  const std::string_view text = args->message;
  // Said for every connection whose certificate names a program instead of a host, as all of ours do.
  const bool expected = text.starts_with("No match found for server name");
  if (args->severity == GPR_LOG_SEVERITY_ERROR && !expected) {
    LOG_WARN("gRPC: {}", text);
  } else {
    LOG_DEBUG("gRPC: {}", text);
  }
}

}  // namespace

void RouteGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] { gpr_set_log_function(Log); });
}

}  // namespace swarm::net
