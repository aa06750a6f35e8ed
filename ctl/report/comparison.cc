#include "ctl/report/comparison.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "ctl/report/text.h"

namespace swarm::ctl {
namespace {

/// Whether the losses of two runs are the same, in the steps that both have.
std::string CompareLosses(const RunRecord& first, const RunRecord& other) {
  std::map<std::uint64_t, double> losses;
  for (const StepRow& row : first.steps) losses[row.step] = row.loss;
  std::uint64_t common = 0;
  for (const StepRow& row : other.steps) {
    const auto found = losses.find(row.step);
    if (found == losses.end()) continue;
    ++common;
    if (std::bit_cast<std::uint64_t>(found->second) != std::bit_cast<std::uint64_t>(row.loss)) {
      return "differ from step " + CountText(row.step) + " on";
    }
  }
  return common == 0 ? "no step in common" : "the same bits in " + Plural(common, "step");
}

std::string VerdictText(const Audit& audit) {
  switch (audit.verdict) {
    case Audit::Verdict::kPassed:
      return "passed";
    case Audit::Verdict::kFailed:
      return "failed";
    case Audit::Verdict::kNotRecorded:
      return "no ledger";
  }
  return "";
}

}  // namespace

Table CompareRuns(const std::vector<RunReport>& runs, const std::vector<RunRecord>& records) {
  Table table{.caption = "Numbers of the runs", .head = {""}, .numeric = {false}, .rows = {}};
  for (const RunReport& run : runs) table.head.push_back(run.folder);
  table.numeric.resize(table.head.size(), true);
  const auto row = [&](const char* name, const auto& text) {
    std::vector<std::string> cells{name};
    for (std::size_t i = 0; i < runs.size(); ++i) cells.push_back(text(runs[i], i));
    table.rows.push_back(std::move(cells));
  };
  using Run = const RunReport&;
  row("State", [](Run run, std::size_t) { return NameOf(run.state); });
  row("Steps", [](Run run, std::size_t) { return CountText(run.steps); });
  row("Tokens", [](Run run, std::size_t) { return CountText(run.tokens); });
  row("Loss of the last steps", [](Run run, std::size_t) { return LossText(run.loss); });
  row("Losses beside the first run's", [&](Run, std::size_t i) {
    return i == 0 ? std::string(kNothing) : CompareLosses(records.front(), records[i]);
  });
  row("Least validation loss", [](Run run, std::size_t) {
    return run.best_validation ? LossText(*run.best_validation) : kNothing;
  });
  row("Tokens a second", [](Run run, std::size_t) { return ShortNumber(run.tokens_per_second); });
  row("Usual step",
      [](Run run, std::size_t) { return SecondsText(run.disturbances.usual_seconds); });
  if (std::ranges::any_of(runs, [](Run run) { return run.cost.has_value(); })) {
    row("Dollars", [](Run run, std::size_t) {
      return run.cost ? api::DollarText(*run.cost) : std::string(kNothing);
    });
  }
  row("Incidents",
      [](Run run, std::size_t) { return CountText(run.disturbances.incidents.size()); });
  row("Lost to faults",
      [](Run run, std::size_t) { return SecondsText(run.disturbances.lost_seconds); });
  row("Audit", [](Run run, std::size_t) { return VerdictText(run.audit); });
  return table;
}

std::optional<Table> CompareJobs(const std::vector<RunReport>& runs,
                                 const std::vector<RunRecord>& records) {
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const JobField& field : AllFields(records[i].job)) {
      auto& of_field = values[field.path];
      of_field.resize(records.size(), kNothing);
      of_field[i] = field.value;
    }
  }
  Table table{.caption = "Fields of the jobs that differ", .head = {"Field"}, .rows = {}};
  for (const RunReport& run : runs) table.head.push_back(run.folder);
  table.numeric.resize(table.head.size(), false);
  for (auto& [path, of_runs] : values) {
    if (std::set<std::string>(of_runs.begin(), of_runs.end()).size() < 2) continue;
    std::vector<std::string> row{path};
    row.insert(row.end(), of_runs.begin(), of_runs.end());
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return std::nullopt;
  return table;
}

}  // namespace swarm::ctl
