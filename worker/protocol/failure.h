// Which class of failure an error is.
#pragma once

#include "base/status.h"
#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// The class of an error of loading, computing or storing, by its code. Each code that the storage
/// and the model use has one meaning there (storage::Storage, model::Stage).
inline FailureClass FailureClassOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
      return FailureClass::kStorageRefused;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      return FailureClass::kStorageUnavailable;
    case StatusCode::kResourceExhausted:
      return FailureClass::kDeviceMemory;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
      return FailureClass::kBadConfig;
    case StatusCode::kAborted:
      return FailureClass::kSuperseded;
    case StatusCode::kOk:
    case StatusCode::kCancelled:
    case StatusCode::kUnknown:
    case StatusCode::kInternal:
    case StatusCode::kDataLoss:
      return FailureClass::kInternal;
  }
  return FailureClass::kInternal;
}

}  // namespace swarm::protocol
