// Exit codes (base/exit.h) of swarm-worker for its failures.
#pragma once

#include "base/status.h"
#include "worker/protocol/failure.h"

namespace swarm::roles {

/// The exit code of a program that has failed for this class of reasons.
int ExitOf(protocol::FailureClass failure_class);

/// The exit code of a program that ends with this error.
int ExitOf(const Status& status);

/// Logs why the program ends; returns `code`. The last line of a log explains the end of its
/// program.
int Refuse(const Status& status, int code);
inline int Refuse(const Status& status) { return Refuse(status, ExitOf(status)); }

}  // namespace swarm::roles
