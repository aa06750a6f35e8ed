// Runs beside each other. Pure.
#pragma once

#include <optional>
#include <vector>

#include "ctl/report/report.h"
#include "ctl/report/run_record.h"

namespace swarm::ctl {

/// The numbers of the runs, and whether their losses are those of the first, bit for bit.
/// `records` are those that `runs` were made of.
Table CompareRuns(const std::vector<RunReport>& runs, const std::vector<RunRecord>& records);

/// The fields in which the jobs differ; none: there are no such fields.
std::optional<Table> CompareJobs(const std::vector<RunReport>& runs,
                                 const std::vector<RunRecord>& records);

}  // namespace swarm::ctl
