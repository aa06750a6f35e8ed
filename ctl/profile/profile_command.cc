#include "ctl/profile/profile_command.h"

#include <string>

#include "base/files.h"
#include "ctl/profile/findings.h"
#include "ctl/profile/read_spans.h"
#include "ctl/profile/summary.h"
#include "ctl/profile/trace.h"
#include "ctl/run/run_folder.h"
#include "ctl/run/run_plan.h"

namespace swarm::ctl {
namespace {

/// What `run` gets: as many steps as there are to be, at a learning rate of which the time does not
/// depend, and no checkpoint where the job has its own.
RunOptions RunOf(const ProfileOptions& options) {
  RunOptions run = options.run;
  const std::uint64_t steps = options.steps_before + options.steps;
  for (const std::string& each :
       {"training.maxSteps=" + std::to_string(steps), std::string("schedule.type=Constant"),
        std::string("schedule.warmupSteps=0"), std::string("checkpoint.uri=")}) {
    run.overrides.push_back(each);
  }
  run.profile = true;
  run.moves = false;
  run.page = "none";
  return run;
}

Result<std::string> WriteTrace(const ProfileOptions& options) {
  const std::filesystem::path& folder = options.run.out;
  ASSIGN_OR_RETURN(const auto workers, ReadSpans(RunPlan::ProfileDirectory(folder)));
  const std::vector<Transfer> transfers = FindTransfers(workers);
  ASSIGN_OR_RETURN(const ProfileSummary summary,
                   Summarize(workers, transfers, options.steps_before));
  const std::filesystem::path trace = folder / "profile.json";
  RETURN_IF_ERROR(WriteFile(trace, ToTrace(workers, transfers, summary.window)));
  return ToText(summary) + "Wrote " + trace.string() +
         ": open it at ui.perfetto.dev or chrome://tracing\n";
}

}  // namespace

ExitCode ProfileJob(const ProfileOptions& options, std::FILE* out, std::FILE* err) {
  if (std::filesystem::exists(RunFolder::JobFile(options.run.out))) {
    std::fprintf(err, "%s holds an earlier run: give another --out\n", options.run.out.c_str());
    return ExitCode::kBadUsage;
  }
  const ExitCode code = RunJob(RunOf(options), out, err);
  if (code != ExitCode::kOk) return code;
  const Result<std::string> text = WriteTrace(options);
  if (!text.ok()) {
    std::fprintf(err, "%s\n", text.status().message().c_str());
    return ExitCode::kFailed;
  }
  std::fputs(text->c_str(), out);
  return ExitCode::kOk;
}

}  // namespace swarm::ctl
