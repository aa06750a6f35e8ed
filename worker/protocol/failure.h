// Which class of failure an error is.
#pragma once

#include "base/status.h"
#include "worker/protocol/messages/message.h"

namespace swarm::protocol {

/// A word of FailureClass for an error of loading, computing or storing, by its code. Of the codes
/// that the storage and the model use, each has one meaning there (storage::Storage, model::Stage).
inline const char* FailureClassOf(const Status& status) {
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
