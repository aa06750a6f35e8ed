#include "worker/roles/exits.h"

#include "base/exit.h"
#include "base/log.h"

namespace swarm::roles {

int ExitOf(protocol::FailureClass failure_class) {
  using Class = protocol::FailureClass;
  if (failure_class == Class::kBadConfig) return WorkerExit::kBadUsage;
  if (failure_class == Class::kStorageRefused) return WorkerExit::kStorageRefused;
  if (failure_class == Class::kStorageUnavailable) return WorkerExit::kStorageUnavailable;
  if (failure_class == Class::kDeviceMemory) return WorkerExit::kOutOfMemory;
  if (failure_class == Class::kSuperseded) return WorkerExit::kSuperseded;
  return WorkerExit::kFailed;
}

int ExitOf(const Status& status) {
  return status.code() == StatusCode::kCancelled ? WorkerExit::kStopped
                                                 : ExitOf(protocol::FailureClassOf(status));
}

int Refuse(const Status& status, int code) {
  LOG_ERROR("{}", status.message());
  return code;
}

}  // namespace swarm::roles
