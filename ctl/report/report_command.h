// swarmctl report: one file that tells what a run was, and whether its account holds.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/status.h"
#include "ctl/exit_codes.h"

namespace swarm::ctl {

enum class ReportFormat { kHtml, kMarkdown, kJson };

struct ReportOptions {
  std::vector<std::filesystem::path> folders;  ///< of runs, at least one
  ReportFormat format = ReportFormat::kHtml;
  std::filesystem::path output;  ///< empty: report.html, .md or .json in the first folder; -: `out`
  /// Text by the newest checkpoint of a run's folder, after a prompt; none: no samples. Whoever has
  /// a model library gives it.
  std::function<Result<std::string>(const std::filesystem::path& folder, const std::string& prompt)>
      sample;
};

/// Writes the report, with a comparison if there are several runs. kFailed: it is written, and the
/// audit of a run has failed; or it cannot be written.
ExitCode ReportRuns(const ReportOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
