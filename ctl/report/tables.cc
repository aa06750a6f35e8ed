#include "ctl/report/tables.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/gibibytes.h"
#include "ctl/report/text.h"

namespace swarm::ctl {
namespace {

constexpr std::size_t kRowsMax = 300;

std::string StepsText(const Incident& incident) {
  const std::uint64_t last = *incident.events.back().step;
  std::string text = CountText(incident.first_step);
  if (last > incident.first_step) text += " to " + CountText(last);
  return text;
}

std::string EventsText(const std::vector<PlacedEvent>& events) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, events.size()); ++i) {
    text += (i == 0 ? "" : "\n") + events[i].kind + ": " + events[i].text;
  }
  if (events.size() > kShown) text += "\nand " + CountText(events.size() - kShown) + " more";
  return text;
}

std::string AtText(const std::optional<double>& seconds) {
  return seconds ? SecondsText(*seconds) : kNothing;
}

/// "2026-01-31 12:00:00 UTC".
std::string DateText(double unix_seconds) {
  const auto seconds =
      std::chrono::sys_seconds(std::chrono::seconds(static_cast<std::int64_t>(unix_seconds)));
  const auto day = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(seconds - day);
  return Format("%d-%02u-%02u %02d:%02d:%02d UTC", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
}

}  // namespace

std::optional<Table> IncidentTable(const Disturbances& disturbances) {
  if (disturbances.incidents.empty()) return std::nullopt;
  Table table{.caption = "What went wrong, and what it cost",
              .head = {"Steps", "At", "What happened", "Time lost", "Tokens lost"},
              .numeric = {false, true, false, true, true},
              .rows = {}};
  for (const Incident& incident : disturbances.incidents) {
    if (table.rows.size() == kRowsMax) break;
    const bool measured = incident.lost_seconds.has_value();
    const bool cost = measured && *incident.lost_seconds > 0;
    table.rows.push_back({StepsText(incident), AtText(incident.events.front().seconds),
                          EventsText(incident.events),
                          cost       ? SecondsText(*incident.lost_seconds)
                          : measured ? "within the usual"
                                     : "not recorded",
                          cost ? ShortNumber(incident.lost_tokens) : kNothing});
  }
  table.note =
      "Time lost is what these steps and the two behind them took beyond the median of undisturbed"
      " steps (" +
      SecondsText(disturbances.usual_seconds) + "; nine of ten take at most " +
      SecondsText(disturbances.slow_seconds) +
      "), and the time without a trainer. Tokens lost are what undisturbed steps would have trained"
      " meanwhile.";
  const std::size_t count = disturbances.incidents.size();
  if (count > kRowsMax) {
    table.note += " " + CountText(count - kRowsMax) + " more are left out here, not in the sums.";
  }
  return table;
}

Table EventTable(const Disturbances& disturbances) {
  Table table{.caption = "All events",
              .head = {"At", "Step", "Event", "Text"},
              .numeric = {false, true, false, false},
              .rows = {}};
  const auto& events = disturbances.events;
  const auto add = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      table.rows.push_back({AtText(events[i].seconds),
                            events[i].step ? CountText(*events[i].step) : kNothing, events[i].kind,
                            events[i].text});
    }
  };
  if (events.size() <= kRowsMax) {
    add(0, events.size());
    return table;
  }
  // The beginning and the end say most.
  add(0, kRowsMax / 2);
  add(events.size() - kRowsMax / 2, events.size());
  table.note = CountText(events.size() - kRowsMax) +
               " between the first and the last are left out; events.jsonl has them.";
  return table;
}

Table AccountTable(const Audit& audit) {
  Table table{.caption = "Microbatches by stage, over all steps",
              .head = {"Stage", "Counted once", "Not counted", "More than once", "Not of the job",
                       "Workers"},
              .numeric = {false, true, true, true, true, true},
              .rows = {}};
  for (const StageAccount& stage : audit.stages) {
    table.rows.push_back({std::to_string(stage.stage), CountText(stage.counted),
                          CountText(stage.missing), CountText(stage.repeated),
                          CountText(stage.unknown), CountText(stage.workers)});
  }
  return table;
}

std::optional<Table> ProblemTable(const Audit& audit) {
  if (audit.problems.empty()) return std::nullopt;
  Table table{.caption = "What the audit found",
              .head = {"Line of ledger.jsonl", "What is wrong"},
              .numeric = {false, false},
              .rows = {}};
  for (const AuditProblem& problem : audit.problems) {
    table.rows.push_back({problem.line > 0 ? CountText(problem.line) : kNothing, problem.text});
  }
  if (audit.problem_count > audit.problems.size()) {
    table.note = CountText(audit.problem_count - audit.problems.size()) + " more are left out.";
  }
  return table;
}

std::optional<Table> WorkTable(const RunRecord& record) {
  const std::uint64_t stages = record.job.spec.pipeline.stages;
  std::map<std::string, std::vector<std::uint64_t>> work;
  std::uint64_t all = 0;
  for (const LedgerRow& row : record.ledger) {
    for (const LedgerGroup& group : row.groups) {
      for (const LedgerPart& part : group.parts) {
        if (group.group >= stages || part.stage != group.group) continue;
        auto& of_worker = work[part.worker];
        of_worker.resize(stages);
        of_worker[part.stage] += part.microbatches.size();
        all += part.microbatches.size();
      }
    }
  }
  if (all == 0) return std::nullopt;
  Table table{.caption = "Microbatches by worker and stage",
              .head = {"Worker"},
              .numeric = {false},
              .rows = {}};
  for (std::uint64_t s = 0; s < stages; ++s) table.head.push_back("Stage " + std::to_string(s));
  table.head.emplace_back("Part of all");
  table.numeric.resize(table.head.size(), true);
  for (const auto& [worker, by_stage] : work) {
    if (table.rows.size() == kRowsMax) {
      table.note = CountText(work.size() - kRowsMax) + " further workers are left out.";
      break;
    }
    std::vector<std::string> row{worker};
    std::uint64_t sum = 0;
    for (const std::uint64_t count : by_stage) {
      row.push_back(count > 0 ? CountText(count) : kNothing);
      sum += count;
    }
    row.push_back(Format("%.1f %%", 100 * static_cast<double>(sum) / static_cast<double>(all)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::optional<Table> TimeTable(const std::vector<StageSeconds>& stages) {
  if (stages.empty()) return std::nullopt;
  Table table{.caption = "Where the time of the workers went, by stage",
              .head = {"Stage", "Time of its workers", "Forward, backward", "Other work", "Summing",
                       "Recovery", "Waiting"},
              .numeric = std::vector<bool>(7, true),
              .rows = {}};
  table.numeric[0] = false;
  const auto part = [](double seconds, const StageSeconds& stage) {
    return stage.present > 0 ? Format("%.1f %%", 100 * seconds / stage.present)
                             : std::string(kNothing);
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (table.rows.size() == kRowsMax) break;
    const StageSeconds& stage = stages[s];
    table.rows.push_back({std::to_string(s), SecondsText(stage.present), part(stage.tasks, stage),
                          part(stage.state, stage), part(stage.summing, stage),
                          part(stage.recovery, stage), part(stage.waiting, stage)});
  }
  table.note =
      "Other work of the devices: gradients that are added up, updates, copies of the state. "
      "Without"
      " work, a worker is summing while a sum of its stage lasts; in recovery, as far as a fault "
      "made"
      " the step longer; else it waits for microbatches, which are on their way or at other "
      "stages.";
  return table;
}

std::optional<Table> StartTable(const RunRecord& record) {
  if (record.starts.empty()) return std::nullopt;
  Table table{.caption = "Starts: program and machine",
              .head = {"Start", "Version", "Machine", "System", "Processor", "Memory"},
              .numeric = {false, false, false, false, false, true},
              .rows = {}};
  for (const StartRow& start : record.starts) {
    if (table.rows.size() == kRowsMax) break;
    table.rows.push_back({DateText(start.time), start.version, start.host, start.system,
                          CountText(start.processors) + " x " +
                              (start.processor.empty() ? "processor" : start.processor),
                          Format("%.1f GiB", static_cast<double>(start.memory_bytes) / kGibibyte)});
  }
  table.note = "The processors and the memory are those that the run could use.";
  return table;
}
std::optional<Table> DataTable(const RunRecord& record) {
  if (record.starts.empty() || record.starts.front().data.empty()) return std::nullopt;
  Table table{.caption = "Files of the data",
              .head = {"File", "Bytes", "XXH3-128"},
              .numeric = {false, true, false},
              .rows = {}};
  for (const DataFile& file : record.starts.front().data) {
    if (table.rows.size() == kRowsMax) break;
    table.rows.push_back(
        {file.uri, CountText(file.bytes), file.digest.empty() ? kNothing : file.digest});
  }
  return table;
}

}  // namespace swarm::ctl
