#include <algorithm>
#include <sstream>

#include "ctl/report/text.h"
#include "ctl/report/writers.h"

namespace swarm::ctl {
namespace {

/// One line, without what Markdown or HTML would read as markup.
std::string Plain(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if (c == '\n') {
      plain += "; ";
      continue;
    }
    if (std::string("\\`*_[]<>|#&").find(c) != std::string::npos) plain += '\\';
    plain += c;
  }
  return plain;
}

std::string TableText(const Table& table) {
  std::string text = "**" + Plain(table.caption) + "**\n\n|";
  for (const std::string& head : table.head) text += " " + Plain(head) + " |";
  text += "\n|";
  for (const bool numeric : table.numeric) text += numeric ? "---:|" : "---|";
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += "|";
    for (const std::string& cell : row) text += " " + Plain(cell) + " |";
    text += "\n";
  }
  if (!table.note.empty()) text += "\n" + Plain(table.note) + "\n";
  return text + "\n";
}

std::string BoldVerdict(const Audit& audit) {
  switch (audit.verdict) {
    case Audit::Verdict::kPassed:
      return "**The audit passed.** ";
    case Audit::Verdict::kFailed:
      return "**THE AUDIT FAILED.** ";
    case Audit::Verdict::kNotRecorded:
      return "**No audit.** ";
  }
  return "";
}

/// A chart as the numbers at its ends and its extremes.
std::string ChartRow(const CurveLine& line) {
  if (line.points.empty()) return "";
  const auto [least, greatest] =
      std::minmax_element(line.points.begin(), line.points.end(),
                          [](const Point& a, const Point& b) { return a.value < b.value; });
  return Format("| %s | %.4g | %.4g | %.4g | %.4g |\n", Plain(line.name).c_str(),
                line.points.front().value, line.points.back().value, least->value, greatest->value);
}

std::string CurvesText(const std::vector<Chart>& charts) {
  if (charts.empty()) return "No step is committed yet.\n\n";
  std::string text = "| Curve | First | Last | Least | Greatest |\n|---|---:|---:|---:|---:|\n";
  for (const Chart& chart : charts) {
    for (const CurveLine& line : chart.lines) text += ChartRow(line);
  }
  return text + "\n";
}

std::string RunText(const RunReport& run) {
  std::string text = "# " + Plain(run.name) + ": " + NameOf(run.state) + "\n\n" +
                     BoldVerdict(run.audit) + Plain(run.audit.sentence) + "\n\n" +
                     Plain(run.summary) + " The run is in " + Plain(run.folder) + ".\n\n";
  for (const Fact& fact : run.facts) {
    text += "- " + Plain(fact.label) + ": " + Plain(fact.value) +
            (fact.note.empty() ? "" : " (" + Plain(fact.note) + ")") + "\n";
  }
  text += "\n## Audit\n\n";
  if (run.audit_problems) text += TableText(*run.audit_problems);
  if (!run.accounts.rows.empty()) text += TableText(run.accounts);
  if (run.work) text += TableText(*run.work);
  if (run.times) text += TableText(*run.times);
  text += "## Curves\n\n" + CurvesText(run.charts) + "## Faults and events\n\n";
  text += run.incidents ? TableText(*run.incidents)
                        : std::string("Nothing went wrong that the run noted.\n\n");
  if (!run.events.rows.empty()) text += TableText(run.events);
  text +=
      "## Job\n\nThese fields had to be written; all others have their defaults, or follow from"
      " these.\n\n| Field | Value |\n|---|---|\n";
  for (const JobField& field : run.changed) {
    text += "| " + Plain(field.path) + " | " + Plain(field.value) + " |\n";
  }
  text += "\n";
  if (run.data) text += TableText(*run.data);
  if (run.starts) text += TableText(*run.starts);
  if (!run.sample.empty()) {
    text += "## A sample of text\n\n";
    std::string line;
    for (std::istringstream lines(run.sample); std::getline(lines, line);) {
      text += "    " + line + "\n";  // indented, so that nothing in it is markup
    }
    text += "\n";
  }
  text += "## Do it again\n\n```\n";
  for (const std::string& command : run.again) text += command + "\n";
  text += "```\n\n" + Plain(run.again_note) + "\n\n## Not recorded\n\n";
  for (const std::string& missing : run.not_recorded) text += "- " + Plain(missing) + "\n";
  return text + "\n";
}

}  // namespace

std::string ToMarkdown(const Report& report) {
  std::string text;
  if (report.comparison) text += TableText(*report.comparison);
  if (report.differences) text += TableText(*report.differences);
  for (const RunReport& run : report.runs) text += RunText(run);
  return text;
}

}  // namespace swarm::ctl
