#include "worker/net/grpc/process.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <malloc.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/log.h"

namespace swarm::net {
namespace {

void Log(gpr_log_func_args* args) {
  const std::string_view text = args->message;
  // gRPC logs this for every connection whose certificate names a program instead of a host, as all
  // of ours do.
  const bool expected = text.starts_with("No match found for server name");
  if (args->severity == GPR_LOG_SEVERITY_ERROR && !expected) {
    LOG_WARN("gRPC: {}", text);
  } else {
    LOG_DEBUG("gRPC: {}", text);
  }
}

void RouteLog() {
  // gRPC's threads go on while the process exits, and our log ends: this handler runs before the
  // log's end, because the log was created first.
  (void)spdlog::default_logger_raw();
  std::atexit([] { gpr_set_log_function(nullptr); });
  gpr_set_log_function(Log);
}

/// Leaves only TLS 1.3 to negotiate. The options of gRPC 1.51 have no lowest version, but its list
/// of cipher suites applies to TLS 1.2 only. A suite of pre-shared keys, of which we have none,
/// leaves no way to speak 1.2, as server or as client, and does not affect TLS 1.3. gRPC reads the
/// variable once, when it first needs it.
void AllowOnlyTls13() { setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", 1); }

/// gRPC reads into pieces of memory and frees them at once. If the allocator returned them to the
/// system each time, their page faults would take more time than the copying.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
}

/// Abseil's mutexes, which gRPC uses, keep a graph of the order in which they are locked, to report
/// a deadlock that is possible. With 100 connections a process that took a fifth of its time.
void TrustLockOrder() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace

void PrepareProcess() {
  static std::once_flag once;
  std::call_once(once, [] {
    RouteLog();
    AllowOnlyTls13();
    KeepFreedMemory();
    TrustLockOrder();
  });
}

}  // namespace swarm::net
