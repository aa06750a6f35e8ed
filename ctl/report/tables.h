// The tables of a report. Pure.
#pragma once

#include <optional>

#include "ctl/report/audit.h"
#include "ctl/report/disturbances.h"
#include "ctl/report/report.h"
#include "ctl/report/run_record.h"
#include "ctl/report/stage_times.h"

namespace swarm::ctl {

/// None: nothing went wrong.
std::optional<Table> IncidentTable(const Disturbances& disturbances);
/// Of many events, the first and the last.
Table EventTable(const Disturbances& disturbances);
/// What the audit has counted at each stage. No rows without a ledger.
Table AccountTable(const Audit& audit);
/// None: the audit has found nothing.
std::optional<Table> ProblemTable(const Audit& audit);
/// Which worker contributed how many microbatches to which stage; none: nobody knows.
std::optional<Table> WorkTable(const RunRecord& record);
/// Where the time of the workers went, by stage; none: the steps do not say it.
std::optional<Table> TimeTable(const std::vector<StageSeconds>& stages);
/// The versions and machines of the starts; none: there are no notes of them.
std::optional<Table> StartTable(const RunRecord& record);
/// The files of the data at the first start; none: there are no notes of them.
std::optional<Table> DataTable(const RunRecord& record);

}  // namespace swarm::ctl
