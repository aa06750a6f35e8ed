#include "ctl/report/report_command.h"

#include <ostream>

#include "base/files.h"
#include "ctl/report/read_run.h"
#include "ctl/report/writers.h"

namespace swarm::ctl {
namespace {

const char* EndingOf(ReportFormat format) {
  switch (format) {
    case ReportFormat::kHtml:
      return "html";
    case ReportFormat::kMarkdown:
      return "md";
    case ReportFormat::kJson:
      return "json";
  }
  return "";
}

std::string TextOf(const Report& report, ReportFormat format) {
  switch (format) {
    case ReportFormat::kHtml:
      return ToHtml(report);
    case ReportFormat::kMarkdown:
      return ToMarkdown(report);
    case ReportFormat::kJson:
      return ToJson(report);
  }
  return "";
}

/// The folder as the reader of the report may type it.
std::filesystem::path WithoutSlash(const std::filesystem::path& folder) {
  return folder.has_filename() || !folder.has_parent_path() ? folder : folder.parent_path();
}

}  // namespace

ExitCode ReportRuns(const ReportOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<RunRecord> records;
  for (const std::filesystem::path& folder : options.folders) {
    auto record = ReadRun(WithoutSlash(folder));
    if (!record.ok()) {
      err << record.status().message() << "\n";
      return ExitCodeOf(record.status());
    }
    if (options.sample) {
      auto sample = options.sample(folder, record->prompt);
      if (sample.ok()) {
        record->sample = *std::move(sample);
      } else {
        record->no_sample = sample.status().message();
      }
    }
    records.push_back(*std::move(record));
  }
  const Report report = MakeReport(records);
  const std::string text = TextOf(report, options.format);
  if (options.output == "-") {
    out << text;
  } else {
    const std::filesystem::path file =
        options.output.empty()
            ? options.folders.front() / ("report." + std::string(EndingOf(options.format)))
            : options.output;
    if (const Status status = WriteFile(file, text); !status.ok()) {
      err << status.message() << "\n";
      return ExitCode::kFailed;
    }
    out << "Wrote " << file.string() << "\n";
  }
  for (const RunReport& run : report.runs) {
    if (run.audit.verdict != Audit::Verdict::kFailed) continue;
    err << "The audit of " << run.folder << " failed. " << run.audit.sentence << "\n";
  }
  return report.AuditFailed() ? ExitCode::kFailed : ExitCode::kOk;
}

}  // namespace swarm::ctl
