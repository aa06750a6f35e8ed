// Runs a program for what it writes to standard output.
#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace swarm::ctl {

struct ProgramCall {
  std::string program;  ///< a path, or a name without '/' that is looked for in PATH
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< in addition to that of this process
  bool reads_input = false;  ///< standard input is that of this process, else it is empty
};

/// Standard output of the program. Its standard error is that of this process, so the user reads
/// what the program says. What the program leaves running when it ends well, such as a browser,
/// goes on.
///
/// Errors: kNotFound, there is no such program; kPermissionDenied, it cannot be run;
/// kFailedPrecondition, it ended with an error; kDeadlineExceeded, it did not end within
/// `patience`; kResourceExhausted, it wrote more than 1 MiB, or no process can be made; kCancelled.
/// A program that still runs then is killed, and with it what it has started, unless it reads
/// input: then it is in the process group of this process.
Result<std::string> OutputOf(const ProgramCall& call, Duration patience, std::stop_token stop);

}  // namespace swarm::ctl
