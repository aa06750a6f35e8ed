// The report of runs: what a reader sees, as values, before it becomes HTML, Markdown or JSON.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/prices.h"
#include "base/curve.h"
#include "ctl/report/audit.h"
#include "ctl/report/changed_fields.h"
#include "ctl/report/disturbances.h"
#include "ctl/report/run_record.h"
#include "ctl/report/stage_times.h"
#include "ctl/scale.h"

namespace swarm::ctl {

/// A number at the head of a report.
struct Fact {
  std::string label;
  std::string value;
  std::string note;  ///< in small letters; may be empty
};

struct Table {
  std::string caption;
  std::vector<std::string> head;
  std::vector<bool> numeric;                   ///< by column: aligned to the right
  std::vector<std::vector<std::string>> rows;  ///< as long as `head`; the first cell names the row
  std::string note;                            ///< a sentence below; may be empty
};

/// One line of a chart.
struct CurveLine {
  std::string name;
  std::vector<Point> points;  ///< thinned
  bool dots = false;          ///< single values, such as validations
};

struct Chart {
  std::string title;
  std::string unit;  ///< may be empty
  ScaleKind scale = ScaleKind::kLinear;
  std::vector<CurveLine> lines;
};

/// Something that happened at a step, for the charts.
struct Mark {
  EventClass what = EventClass::kOther;
  double step = 0;
  std::string text;
};

enum class RunState { kRunning, kSucceeded, kFailed, kStopped, kEnded };

/// "Succeeded", and so on. Ended: without a last word, as when everything was killed.
std::string NameOf(RunState state);

struct RunReport {
  std::string name;    ///< of the job
  std::string folder;  ///< of the run
  RunState state = RunState::kEnded;
  std::string summary;  ///< what was trained, in a sentence
  std::vector<Fact> facts;
  Audit audit;
  Table accounts;  ///< of the audit, by stage; no rows without a ledger
  std::optional<Table> audit_problems;
  std::vector<Chart> charts;
  std::vector<Mark> marks;
  Disturbances disturbances;
  std::optional<Table> incidents;
  Table events;
  std::optional<Table> work;                ///< who contributed what
  std::vector<StageSeconds> stage_seconds;  ///< where time went; empty: not measured
  std::optional<Table> times;               ///< the same
  std::optional<Table> starts;              ///< versions and machines
  std::optional<Table> data;                ///< its files
  std::vector<JobField> changed;
  std::string sample;              ///< of text, by the newest checkpoint; empty: none
  std::vector<std::string> again;  ///< commands
  std::string again_note;
  std::vector<std::string> not_recorded;  ///< sentences

  // Numbers for comparisons.
  std::uint64_t steps = 0;
  std::uint64_t max_steps = 0;
  std::uint64_t tokens = 0;
  double loss = 0;  ///< the mean of the last steps; NaN without steps
  double tokens_per_second = 0;
  std::optional<double> best_validation;
  std::optional<api::DollarRange> cost;  ///< of the workers during the steps; none: not known
};

struct Report {
  std::vector<RunReport> runs;  ///< at least one
  std::vector<Chart> compared;  ///< all runs in one chart; none of a single run
  std::optional<Table> comparison;
  std::optional<Table> differences;  ///< fields that are not the same in all runs

  bool AuditFailed() const;
};

/// Requires at least one record.
Report MakeReport(const std::vector<RunRecord>& records);

}  // namespace swarm::ctl
