// The first steps of the commands that train on this machine: load a job that can run, and take a
// folder that no other run uses.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::ctl {

/// The job that `run` and `train` take from a manifest (see manifest_file.h). Errors:
/// kInvalidArgument with all errors, one on each line; a suspended job is an error, too.
Result<api::SwarmJob> Runnable(api::Checked<api::SwarmJob> job);
Result<api::SwarmJob> LoadRunnableJob(const std::string& manifest,
                                      const std::vector<std::string>& overrides);

/// The folder of one run. No other run can use the folder while this object lives.
class RunFolder {
 public:
  /// Takes `out`, or out/NAME of the job if that is empty, and makes it if it is missing.
  /// Errors: kFailedPrecondition (another run uses it now, or an earlier run has used it and
  /// `resume` is false), kUnavailable (it cannot be written).
  static Result<RunFolder> Claim(const std::filesystem::path& out, const api::SwarmJob& job,
                                 bool resume);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Writes job.json, which marks the folder as used.
  Status WriteJob(const api::SwarmJob& job) const;

  /// The files in `folder`: the job, and the checkpoints if the job names no other place for them.
  static std::filesystem::path JobFile(const std::filesystem::path& folder);
  static std::filesystem::path Checkpoints(const std::filesystem::path& folder);

 private:
  RunFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::filesystem::path path_;
  int lock_;
};

}  // namespace swarm::ctl
