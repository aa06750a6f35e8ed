// Reads the folder of a run.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "ctl/report/run_record.h"

namespace swarm::ctl {

/// Reads job.json and the files of lines in `folder`, as far as they are there. A last line without
/// an end, which a crash or a run that goes on has left, is left out. Lines of the ledger that
/// cannot be read are not errors: the audit names them. Errors: kNotFound (no folder, or no run in
/// it), kDataLoss (a damaged file, with the number of the line).
Result<RunRecord> ReadRun(const std::filesystem::path& folder);

}  // namespace swarm::ctl
