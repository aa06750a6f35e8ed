#include <algorithm>

#include "ctl/report/html_chart.h"
#include "ctl/report/html_style.h"
#include "ctl/report/html_text.h"
#include "ctl/report/text.h"
#include "ctl/report/writers.h"

namespace swarm::ctl {
namespace {

constexpr std::size_t kShownRows = 40;  // longer tables are folded

/// Line breaks of a text are line breaks of the page.
std::string CellHtml(const std::string& text) {
  std::string html = Escape(text);
  for (std::size_t at = 0; (at = html.find('\n', at)) != html.npos; at += 4) {
    html.replace(at, 1, "<br>");
  }
  return html;
}

std::string HeadHtml(const Table& table) {
  std::string html = "<thead><tr>";
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    const char* number = table.numeric[i] ? " class=\"number\"" : "";
    html += table.head[i].empty()
                ? std::string("<td></td>")
                : Format("<th scope=\"col\"%s>", number) + Escape(table.head[i]) + "</th>";
  }
  return html + "</tr></thead>\n";
}

std::string TableHtml(const Table& table) {
  // Numbers alone are easier to read close to each other.
  const bool narrow =
      std::find(table.numeric.begin() + 1, table.numeric.end(), false) == table.numeric.end();
  std::string html =
      Format("<div class=\"scroll\"><table%s>\n<caption>", narrow ? " class=\"narrow\"" : "") +
      Escape(table.caption) + "</caption>\n" + HeadHtml(table) + "<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* tag = i == 0 ? "th" : "td";
      const char* style = table.numeric[i]     ? " class=\"number\""
                          : row[i].size() > 40 ? " class=\"long\""
                                               : "";
      html += Format("<%s%s%s>", tag, i == 0 ? " scope=\"row\"" : "", style) + CellHtml(row[i]) +
              Format("</%s>", tag);
    }
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  if (!table.note.empty()) html += "<p class=\"note\">" + Escape(table.note) + "</p>\n";
  if (table.rows.size() <= kShownRows) return html;
  return "<details><summary>" + Escape(table.caption) + ": " + Plural(table.rows.size(), "row") +
         "</summary>\n" + html + "</details>\n";
}

const char* ToneOf(const RunReport& run) {
  switch (run.state) {
    case RunState::kSucceeded:
      return " good";
    case RunState::kFailed:
    case RunState::kEnded:
      return " bad";
    case RunState::kRunning:
    case RunState::kStopped:
      return "";
  }
  return "";
}

std::string VerdictHtml(const Audit& audit) {
  const bool passed = audit.verdict == Audit::Verdict::kPassed;
  const bool failed = audit.verdict == Audit::Verdict::kFailed;
  return Format("<p class=\"verdict%s\"><b>%s</b> ",
                passed   ? " good"
                : failed ? " bad"
                         : "",
                passed   ? "The audit passed."
                : failed ? "The audit failed."
                         : "No audit.") +
         Escape(audit.sentence) + "</p>\n";
}

/// Stands above all else, so nobody reads the curves of a run whose account is wrong unwarned.
std::string AlarmHtml(const Report& report) {
  std::string html;
  for (const RunReport& run : report.runs) {
    if (run.audit.verdict != Audit::Verdict::kFailed) continue;
    html += "<p class=\"verdict bad\" role=\"alert\"><b>The audit of " + Escape(run.folder) +
            " failed.</b> " + Escape(run.audit.sentence) + "</p>\n";
  }
  return html.empty() ? "" : "<div class=\"alarm\">\n" + html + "</div>\n";
}

/// The page of one run, or a part of a page of several: then `number` tells their places apart.
class RunHtml {
 public:
  RunHtml(const RunReport& run, const std::string& number) : run_(run), number_(number) {}

  std::string Take() {
    Head();
    AuditSection();
    Curves();
    Faults();
    Job();
    Sample();
    Again();
    return std::move(html_);
  }

 private:
  void Begin(const char* place, const char* title) {
    html_ += Format("<section id=\"%s%s\">\n<h2>%s</h2>\n", place, number_.c_str(), title);
  }
  void End() { html_ += "</section>\n"; }

  void Head() {
    html_ += "<header>\n<div class=\"head\"><h1>" + Escape(run_.name) +
             Format("</h1><span class=\"state%s\">", ToneOf(run_)) + NameOf(run_.state) +
             "</span></div>\n<p class=\"folder\">" + Escape(run_.folder) + "</p>\n<p>" +
             Escape(run_.summary) + "</p>\n<nav>";
    for (const auto& [place, title] : {std::pair{"audit", "Audit"},
                                       {"curves", "Curves and time"},
                                       {"faults", "Faults and events"},
                                       {"job", "Job"},
                                       {"again", "Do it again"}}) {
      html_ += Format("<a href=\"#%s%s\">%s</a>", place, number_.c_str(), title);
    }
    html_ += "</nav>\n<dl class=\"facts\">\n";
    for (const Fact& fact : run_.facts) {
      html_ += "<div><dt>" + Escape(fact.label) + "</dt><dd>" + Escape(fact.value);
      if (!fact.note.empty()) html_ += "<small>" + Escape(fact.note) + "</small>";
      html_ += "</dd></div>\n";
    }
    html_ += "</dl>\n</header>\n";
  }

  void AuditSection() {
    Begin("audit", "Audit");
    html_ += VerdictHtml(run_.audit);
    if (run_.audit_problems) html_ += TableHtml(*run_.audit_problems);
    if (!run_.accounts.rows.empty()) html_ += TableHtml(run_.accounts);
    if (run_.work) html_ += TableHtml(*run_.work);
    End();
  }

  void Curves() {
    Begin("curves", "Curves and time");
    if (run_.charts.empty()) html_ += "<p>No step is committed yet.</p>\n";
    html_ += "<div class=\"charts\">\n";
    for (std::size_t i = 0; i < run_.charts.size(); ++i) {
      html_ += ChartHtml(run_.charts[i], run_.marks);
      if (i == 0) html_ += MarkLegendHtml(run_.marks);
    }
    html_ += "</div>\n";
    if (run_.times) html_ += TableHtml(*run_.times);
    End();
  }

  void Faults() {
    Begin("faults", "Faults and events");
    html_ += run_.incidents ? TableHtml(*run_.incidents)
                            : std::string("<p>Nothing went wrong that the run noted.</p>\n");
    if (!run_.events.rows.empty()) html_ += TableHtml(run_.events);
    End();
  }

  void Job() {
    Begin("job", "Job and machine");
    html_ +=
        "<p>These fields had to be written; all others have their defaults, or follow from"
        " these.</p>\n<div class=\"scroll\"><table class=\"narrow\">\n<caption>Fields below "
        "spec</caption>\n"
        "<thead><tr><th scope=\"col\">Field</th><th scope=\"col\">Value</th></tr></thead>\n"
        "<tbody>\n";
    for (const JobField& field : run_.changed) {
      html_ += "<tr><th scope=\"row\"><code>" + Escape(field.path) + "</code></th><td><code>" +
               Escape(field.value) + "</code></td></tr>\n";
    }
    html_ += "</tbody></table></div>\n";
    if (run_.data) html_ += TableHtml(*run_.data);
    if (run_.starts) html_ += TableHtml(*run_.starts);
    End();
  }

  void Sample() {
    if (run_.sample.empty()) return;
    Begin("sample", "A sample of text");
    html_ += "<pre class=\"sample\">" + Escape(run_.sample) +
             "</pre>\n<p class=\"note\">The newest checkpoint wrote it, after a prompt from the"
             " data.</p>\n";
    End();
  }

  void Again() {
    Begin("again", "Do it again");
    for (const std::string& command : run_.again) html_ += "<pre>" + Escape(command) + "</pre>\n";
    html_ += "<p class=\"note\">" + Escape(run_.again_note) +
             "</p>\n<h2>Not recorded</h2>\n<p>The folder of the run does not have:</p>\n<ul>\n";
    for (const std::string& text : run_.not_recorded) html_ += "<li>" + Escape(text) + "</li>\n";
    html_ += "</ul>\n";
    End();
  }

  const RunReport& run_;
  const std::string number_;
  std::string html_;
};

std::string ComparisonHtml(const Report& report) {
  std::string html = "<header>\n<div class=\"head\"><h1>" + Plural(report.runs.size(), "run") +
                     " compared</h1></div>\n<nav>";
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    html += "<a href=\"#run-" + std::to_string(i) + "\">" + Escape(report.runs[i].folder) + "</a>";
  }
  html += "</nav>\n</header>\n<section>\n<h2>Comparison</h2>\n<div class=\"charts two\">\n";
  for (const Chart& chart : report.compared) html += ChartHtml(chart, {});
  html += "</div>\n</section>\n<section>\n<h2>Beside each other</h2>\n";
  if (report.comparison) html += TableHtml(*report.comparison);
  if (report.differences) html += TableHtml(*report.differences);
  return html + "</section>\n";
}

}  // namespace

std::string ToHtml(const Report& report) {
  const bool single = report.runs.size() == 1;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // The browser refuses whatever would be loaded, should a text of the run ever ask for it.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src"
      " 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>" +
      (single ? Escape(report.runs[0].name) : Plural(report.runs.size(), "run")) +
      ": report</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n" + AlarmHtml(report);
  if (single) {
    html += "<main>\n" + RunHtml(report.runs[0], "").Take() + "</main>\n";
  } else {
    html += "<main>\n" + ComparisonHtml(report);
    for (std::size_t i = 0; i < report.runs.size(); ++i) {
      const std::string number = "-" + std::to_string(i);
      html += "<article id=\"run" + number + "\">\n" + RunHtml(report.runs[i], number).Take() +
              "</article>\n";
    }
    html += "</main>\n";
  }
  return html +
         "<footer>Written by swarmctl report. Steps are numbered from 0.</footer>\n<script>" +
         kScript + "</script>\n</body>\n</html>\n";
}

}  // namespace swarm::ctl
