// Notes in the folder of a run which program began it, how, and on which machine: what a report
// needs to say how to do it again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::ctl {

/// How the user has called the program.
struct StartedBy {
  std::string version;               ///< of the program (base/version.h)
  std::vector<std::string> command;  ///< its name and arguments
};

/// Appends a line to starts.jsonl in `folder`, or begins the file anew unless the run is resumed:
/// the time, `by`, the working folder, the machine (its name, system, processor, usable processors
/// and memory), and the files of `data` on this machine: uri, bytes, and the XXH3-128 of those up
/// to 256 MiB. Errors: kUnavailable, naming the file.
Status NoteStart(const std::filesystem::path& folder, const StartedBy& by, const api::Data& data,
                 bool resume);

}  // namespace swarm::ctl
