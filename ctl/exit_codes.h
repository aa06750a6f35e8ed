// How swarmctl ends. swarm-worker has more to say (base/exit.h).
#pragma once

#include <string_view>

#include "base/status.h"

namespace swarm::ctl {

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kBadUsage = 2,
  kNothingToResume = 3,
  kKilled = 130,
};

/// How a command ends that has failed before it has begun its work: kBadUsage for what another call
/// or other files would mend, else kFailed. Requires an error.
ExitCode ExitCodeOf(const Status& status);

/// For --help.
inline constexpr std::string_view kExitCodeTable =
    "Exit codes:\n"
    "    0  done; or interrupted, and a checkpoint was written to go on from (--resume)\n"
    "    1  failed\n"
    "    2  wrong usage, a wrong manifest or a missing file: nothing was started\n"
    "    3  interrupted before there was a checkpoint to go on from\n"
    "  130  interrupted twice: everything was killed\n";

}  // namespace swarm::ctl
