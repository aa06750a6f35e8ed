#include "ctl/report/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "api/format/enum_names.h"
#include "base/enum_names.h"
#include "ctl/report/again.h"
#include "ctl/report/comparison.h"
#include "ctl/report/tables.h"
#include "ctl/report/text.h"
#include "worker/protocol/coordinator/event_kind.h"

namespace swarm::ctl {
namespace {

constexpr std::size_t kBuckets = 300;   // of a curve: a phone shows fewer, a screen not many more
constexpr std::size_t kLastSteps = 20;  // whose mean is the loss of a run
constexpr double kMarkPlaces = 500;     // marks of a class that are not drawn over each other

std::vector<Point> Curve(const RunRecord& record, double StepRow::* field) {
  std::vector<Point> points;
  points.reserve(record.steps.size());
  for (const StepRow& row : record.steps) {
    points.push_back({static_cast<double>(row.step), row.*field});
  }
  return Thin(points, kBuckets);
}

std::vector<Point> Validations(const RunRecord& record) {
  std::vector<Point> points;
  for (const EventRow& event : record.events) {
    if (event.kind == "Validation" && event.version) {
      points.push_back({static_cast<double>(*event.version), event.loss});
    }
  }
  return Thin(points, kBuckets);
}

std::vector<Chart> ChartsOf(const RunRecord& record) {
  if (record.steps.empty()) return {};
  Chart loss{.title = "Loss", .unit = "nats per token", .lines = {}};
  loss.lines.push_back({.name = "training", .points = Curve(record, &StepRow::loss)});
  if (auto validations = Validations(record); !validations.empty()) {
    loss.lines.push_back({.name = "validation", .points = std::move(validations), .dots = true});
  }
  const auto single = [&](const char* title, const char* unit, ScaleKind scale,
                          double StepRow::* field) {
    return Chart{.title = title,
                 .unit = unit,
                 .scale = scale,
                 .lines = {{.name = title, .points = Curve(record, field)}}};
  };
  return {std::move(loss), single("Gradient norm", "", ScaleKind::kSpread, &StepRow::grad_norm),
          single("Learning rate", "", ScaleKind::kFromZero, &StepRow::learning_rate),
          single("Time of a step", "seconds", ScaleKind::kSpread, &StepRow::seconds)};
}

/// Events of a class at about the same step are one mark.
std::vector<Mark> MarksOf(const RunRecord& record, const Disturbances& disturbances) {
  if (record.steps.empty()) return {};
  const double width = static_cast<double>(record.steps.back().step + 1) / kMarkPlaces;
  std::map<std::pair<EventClass, std::uint64_t>, Mark> marks;
  for (const PlacedEvent& event : disturbances.events) {
    if (event.what == EventClass::kOther || !event.step) continue;
    const double step = static_cast<double>(*event.step);
    const auto place = static_cast<std::uint64_t>(step / std::max(1.0, width));
    const std::string text = event.kind + ": " + event.text;
    const auto [mark, added] = marks.try_emplace({event.what, place}, event.what, step, text);
    if (!added && mark->second.text.size() < 200) mark->second.text += "\n" + text;
  }
  std::vector<Mark> list;
  for (auto& [place, mark] : marks) list.push_back(std::move(mark));
  return list;
}

RunState StateOf(const RunRecord& record) {
  if (record.running) return RunState::kRunning;
  const bool complete =
      !record.steps.empty() && record.steps.back().step + 1 >= record.job.spec.training.maxSteps;
  using protocol::EventKind;
  std::optional<EventKind> last;
  for (const EventRow& event : record.events) {
    const auto kind = FindEnum<EventKind>(event.kind);
    if (kind == EventKind::kTrainingStarted || kind == EventKind::kTookOver ||
        kind == EventKind::kSucceeded || kind == EventKind::kFailed) {
      last = kind;
    }
  }
  if (last == EventKind::kFailed) return RunState::kFailed;
  if (complete) return RunState::kSucceeded;
  return last == EventKind::kSucceeded ? RunState::kStopped : RunState::kEnded;
}

std::string SummaryOf(const RunRecord& record) {
  const api::Spec& spec = record.job.spec;
  const api::DecoderConfig& config = spec.model.config;
  std::string model = spec.model.uri.empty()
                          ? Format("A decoder of %lld layers and %lld channels",
                                   static_cast<long long>(config.num_hidden_layers),
                                   static_cast<long long>(config.hidden_size))
                          : "The model " + spec.model.uri;
  const auto sources = spec.data.AllSources();
  std::string data = sources.front().uri;
  if (sources.size() > 1) data += " and " + Plural(sources.size() - 1, "other source");
  return model + ", trained on " + data + " with " +
         Plural(spec.training.globalBatchSize, "sequence") + " of " +
         Plural(spec.training.sequenceLength, "token") + " a step, in " +
         Plural(spec.pipeline.stages, "stage") + " (" +
         std::string(swarm::NameOf(spec.training.stepMode)) + ", " +
         std::string(swarm::NameOf(spec.optimizer.type)) + ").";
}

double MeanOfLast(const RunRecord& record) {
  const std::size_t count = std::min(kLastSteps, record.steps.size());
  double sum = 0;
  for (std::size_t i = record.steps.size() - count; i < record.steps.size(); ++i) {
    sum += record.steps[i].loss;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

double TrainingSeconds(const RunRecord& record) {
  double seconds = 0;
  for (const StepRow& row : record.steps) seconds += std::isfinite(row.seconds) ? row.seconds : 0;
  return seconds;
}

std::vector<std::string> NotRecorded(const RunRecord& record) {
  std::vector<std::string> missing;
  if (record.starts.empty()) {
    missing.emplace_back("The version of the programs and the machines they ran on.");
  }
  if (record.starts.empty() || record.starts.front().data.empty()) {
    missing.push_back("A digest of the data: only its name is known, " +
                      record.job.spec.data.AllSources().front().uri + ".");
  }
  if (record.has_ledger &&
      record.steps.end() ==
          std::ranges::find_if(record.steps, [](const auto& row) { return !row.stages.empty(); })) {
    missing.emplace_back("The seconds that each stage computed and waited: an older trainer ran.");
  }
  if (record.sample.empty()) {
    missing.push_back("A sample of text" +
                      (record.no_sample.empty() ? "" : " (" + record.no_sample + ")") +
                      ": the second command above prints one.");
  }
  if (record.job.spec.data.validationUri.empty()) {
    missing.emplace_back("Validation losses: the job has no validation data.");
  }
  if (!record.has_ledger) {
    missing.emplace_back("Contributions of workers: swarmctl train has none.");
  }
  return missing;
}

std::vector<Fact> FactsOf(const RunReport& run, const RunRecord& record) {
  const Disturbances& disturbances = run.disturbances;
  std::vector<Fact> facts;
  facts.push_back({"Steps", CountText(run.steps), "of " + CountText(run.max_steps)});
  if (!record.steps.empty()) {
    facts.push_back(
        {"Loss", LossText(run.loss),
         "mean of the last " + Plural(std::min(kLastSteps, record.steps.size()), "step")});
  }
  if (run.best_validation) {
    facts.push_back({"Validation loss", LossText(*run.best_validation), "the least"});
  }
  facts.push_back({"Tokens", ShortNumber(static_cast<double>(run.tokens)), ""});
  if (run.tokens_per_second > 0) {
    const double usual =
        record.steps.empty() || disturbances.usual_seconds <= 0
            ? 0
            : static_cast<double>(record.steps.front().tokens) / disturbances.usual_seconds;
    facts.push_back({"Tokens a second", ShortNumber(run.tokens_per_second),
                     usual > 0 ? ShortNumber(usual) + " in a usual step" : ""});
  }
  const double seconds = disturbances.wall_seconds.value_or(TrainingSeconds(record));
  facts.push_back(
      {"Time", SecondsText(seconds),
       disturbances.wall_seconds ? "from the first event to the last" : "of all steps"});
  if (run.cost) {
    facts.push_back({"Dollars", api::DollarText(*run.cost),
                     "of the workers in these steps, by the manifest's prices"});
  }
  if (!disturbances.incidents.empty()) {
    const double part = seconds > 0 ? disturbances.lost_seconds / seconds : 0;
    facts.push_back({"Lost to faults", SecondsText(disturbances.lost_seconds),
                     Format("%.1f %% of the time", 100 * part)});
  }
  return facts;
}

RunReport MakeRun(const RunRecord& record) {
  RunReport run;
  run.name = record.job.name;
  run.folder = record.folder;
  run.state = StateOf(record);
  run.summary = SummaryOf(record);
  run.steps = record.steps.empty() ? 0 : record.steps.back().step + 1;
  run.max_steps = record.job.spec.training.maxSteps;
  for (const StepRow& row : record.steps) run.tokens += row.tokens;
  run.loss = MeanOfLast(record);
  for (const EventRow& event : record.events) {
    if (event.kind != "Validation" || !std::isfinite(event.loss)) continue;
    run.best_validation = std::min(run.best_validation.value_or(event.loss), event.loss);
  }
  run.disturbances = FindDisturbances(record);
  const double seconds = run.disturbances.wall_seconds.value_or(TrainingSeconds(record));
  if (seconds > 0) run.tokens_per_second = static_cast<double>(run.tokens) / seconds;
  run.audit = AuditRun(record);
  run.accounts = AccountTable(run.audit);
  run.audit_problems = ProblemTable(run.audit);
  run.charts = ChartsOf(record);
  run.marks = MarksOf(record, run.disturbances);
  run.incidents = IncidentTable(run.disturbances);
  run.events = EventTable(run.disturbances);
  run.work = WorkTable(record);
  run.stage_seconds = WhereTimeWent(record, run.disturbances);
  run.cost = CostOf(record);
  run.times = TimeTable(run.stage_seconds);
  run.starts = StartTable(record);
  run.data = DataTable(record);
  run.changed = ChangedFields(record.job);
  run.sample = record.sample;
  Again again = CommandsOf(record);
  run.again = std::move(again.commands);
  run.again_note = std::move(again.note);
  run.not_recorded = NotRecorded(record);
  run.facts = FactsOf(run, record);
  return run;
}

Chart CompareCurves(const char* title, const char* unit, ScaleKind scale,
                    const std::vector<RunRecord>& records, double StepRow::* field) {
  Chart chart{.title = title, .unit = unit, .scale = scale, .lines = {}};
  for (const RunRecord& record : records) {
    chart.lines.push_back({.name = record.folder, .points = Curve(record, field)});
  }
  return chart;
}
}  // namespace

std::string NameOf(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "Running";
    case RunState::kSucceeded:
      return "Succeeded";
    case RunState::kFailed:
      return "Failed";
    case RunState::kStopped:
      return "Stopped early";
    case RunState::kEnded:
      return "Ended without a result";
  }
  return "";
}

bool Report::AuditFailed() const {
  return std::any_of(runs.begin(), runs.end(), [](const RunReport& run) {
    return run.audit.verdict == Audit::Verdict::kFailed;
  });
}

Report MakeReport(const std::vector<RunRecord>& records) {
  Report report;
  for (const RunRecord& record : records) report.runs.push_back(MakeRun(record));
  if (records.size() < 2) return report;
  report.compared.push_back(
      CompareCurves("Loss", "nats per token", ScaleKind::kLinear, records, &StepRow::loss));
  report.compared.push_back(
      CompareCurves("Time of a step", "seconds", ScaleKind::kSpread, records, &StepRow::seconds));
  report.comparison = CompareRuns(report.runs, records);
  report.differences = CompareJobs(report.runs, records);
  return report;
}

}  // namespace swarm::ctl
