// Exit codes of swarmctl. Those of swarm-worker are in base/exit.h.
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

/// The exit code of a command that has failed before it has begun its work: kBadUsage if the user
/// can mend it with other arguments or files, else kFailed. Requires an error.
ExitCode ExitCodeOf(const Status& status);

/// For --help.
inline constexpr std::string_view kExitCodeTable =
    "Exit codes:\n"
    "    0  done; or interrupted with a checkpoint to continue from (--resume)\n"
    "    1  failed\n"
    "    2  wrong usage, a wrong manifest, a missing or damaged file; nothing was started\n"
    "    3  interrupted before the first checkpoint\n"
    "  130  interrupted twice; all programs were killed\n";

}  // namespace swarm::ctl
