#include <nlohmann/json.hpp>

#include "ctl/report/writers.h"

namespace swarm::ctl {
namespace {

using Json = nlohmann::ordered_json;

const char* NameOf(Audit::Verdict verdict) {
  switch (verdict) {
    case Audit::Verdict::kPassed:
      return "Passed";
    case Audit::Verdict::kFailed:
      return "Failed";
    case Audit::Verdict::kNotRecorded:
      return "NotRecorded";
  }
  return "";
}

const char* NameOf(EventClass what) {
  switch (what) {
    case EventClass::kFault:
      return "Fault";
    case EventClass::kTakeover:
      return "Takeover";
    case EventClass::kRoster:
      return "Roster";
    case EventClass::kCheckpoint:
      return "Checkpoint";
    case EventClass::kOther:
      return "Other";
  }
  return "";
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json DollarsJson(const std::optional<api::DollarRange>& dollars) {
  if (!dollars) return {};
  return {{"least", dollars->least}, {"most", dollars->most}};
}

Json AuditJson(const Audit& audit) {
  Json stages = Json::array(), problems = Json::array();
  for (const StageAccount& stage : audit.stages) {
    stages.push_back({{"stage", stage.stage},
                      {"countedOnce", stage.counted},
                      {"notCounted", stage.missing},
                      {"countedMoreThanOnce", stage.repeated},
                      {"notOfTheJob", stage.unknown},
                      {"workers", stage.workers}});
  }
  for (const AuditProblem& problem : audit.problems) {
    problems.push_back(
        {{"line", problem.line > 0 ? Json(problem.line) : Json()}, {"text", problem.text}});
  }
  return {{"verdict", NameOf(audit.verdict)},    {"sentence", audit.sentence},
          {"judgedSteps", audit.judged},         {"linesWithMatchingDigest", audit.chained},
          {"adoptedSteps", audit.adopted},       {"stages", std::move(stages)},
          {"problemCount", audit.problem_count}, {"problems", std::move(problems)}};
}

Json EventJson(const PlacedEvent& event) {
  return {{"seconds", OrNull(event.seconds)},
          {"step", OrNull(event.step)},
          {"class", NameOf(event.what)},
          {"kind", event.kind},
          {"text", event.text},
          {"worker", event.worker.empty() ? Json() : Json(event.worker)},
          {"stage", OrNull(event.stage)},
          {"cause", event.cause.empty() ? Json() : Json(event.cause)},
          {"lastedSeconds", OrNull(event.lasted)}};
}

Json DisturbancesJson(const Disturbances& disturbances) {
  Json incidents = Json::array();
  for (const Incident& incident : disturbances.incidents) {
    Json events = Json::array();
    for (const PlacedEvent& event : incident.events) events.push_back(EventJson(event));
    incidents.push_back({{"firstStep", incident.first_step},
                         {"lastStep", incident.last_step},
                         {"lostSeconds", OrNull(incident.lost_seconds)},
                         {"lostTokens", incident.lost_tokens},
                         {"events", std::move(events)}});
  }
  return {{"usualStepSeconds", disturbances.usual_seconds},
          {"slowStepSeconds", disturbances.slow_seconds},
          {"lostSeconds", disturbances.lost_seconds},
          {"lostTokens", disturbances.lost_tokens},
          {"incidents", std::move(incidents)}};
}

Json ChartsJson(const std::vector<Chart>& charts) {
  Json list = Json::array();
  for (const Chart& chart : charts) {
    for (const CurveLine& line : chart.lines) {
      Json points = Json::array();
      for (const Point& point : line.points) points.push_back({point.step, point.value});
      list.push_back({{"curve", chart.title},
                      {"line", line.name},
                      {"unit", chart.unit},
                      {"points", std::move(points)}});
    }
  }
  return list;
}

Json RowsJson(const Table& table) {
  Json rows = Json::array();
  for (const auto& cells : table.rows) {
    Json row = Json::object();
    for (std::size_t i = 0; i < cells.size(); ++i) row[table.head[i]] = cells[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

Json StageSecondsJson(const std::vector<StageSeconds>& stages) {
  Json list = Json::array();
  for (std::size_t s = 0; s < stages.size(); ++s) {
    list.push_back({{"stage", s},
                    {"presentSeconds", stages[s].present},
                    {"taskSeconds", stages[s].tasks},
                    {"stateSeconds", stages[s].state},
                    {"summingSeconds", stages[s].summing},
                    {"recoverySeconds", stages[s].recovery},
                    {"waitingSeconds", stages[s].waiting}});
  }
  return list;
}

Json RunJson(const RunReport& run) {
  Json changed = Json::object(), events = Json::array();
  for (const JobField& field : run.changed) {
    changed[field.path] = Json::parse(field.value, nullptr, /*allow_exceptions=*/false);
  }
  for (const PlacedEvent& event : run.disturbances.events) events.push_back(EventJson(event));
  return {{"name", run.name},
          {"folder", run.folder},
          {"state", swarm::ctl::NameOf(run.state)},
          {"steps", run.steps},
          {"maxSteps", run.max_steps},
          {"tokens", run.tokens},
          {"loss", run.loss},
          {"bestValidationLoss", OrNull(run.best_validation)},
          {"tokensPerSecond", run.tokens_per_second},
          {"dollars", DollarsJson(run.cost)},
          {"wallSeconds", OrNull(run.disturbances.wall_seconds)},
          {"audit", AuditJson(run.audit)},
          {"disturbances", DisturbancesJson(run.disturbances)},
          {"stages", StageSecondsJson(run.stage_seconds)},
          {"curves", ChartsJson(run.charts)},
          {"events", std::move(events)},
          {"changedFields", std::move(changed)},
          {"data", run.data ? RowsJson(*run.data) : Json::array()},
          {"starts", run.starts ? RowsJson(*run.starts) : Json::array()},
          {"sample", run.sample.empty() ? Json() : Json(run.sample)},
          {"again", run.again},
          {"notRecorded", run.not_recorded}};
}

Json TableJson(const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json cells = Json::object();
    for (std::size_t i = 1; i < row.size(); ++i) cells[table.head[i]] = row[i];
    rows.push_back({{"what", row[0]}, {"runs", std::move(cells)}});
  }
  return rows;
}

}  // namespace

std::string ToJson(const Report& report) {
  Json runs = Json::array();
  for (const RunReport& run : report.runs) runs.push_back(RunJson(run));
  Json json{{"runs", std::move(runs)}};
  if (report.comparison) json["comparison"] = TableJson(*report.comparison);
  if (report.differences) json["differences"] = TableJson(*report.differences);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace swarm::ctl
