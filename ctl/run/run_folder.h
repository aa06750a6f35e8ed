// What the commands that train on this machine begin with: a job that can be started, and a folder
// that no other run uses.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::ctl {

/// The job in a manifest (see manifest_file.h). Errors: kInvalidArgument with all that is wrong,
/// one thing a line; a suspended job is wrong too.
Result<api::SwarmJob> LoadRunnableJob(const std::string& manifest,
                                      const std::vector<std::string>& overrides);

/// The folder of one run, which is its alone for as long as this lives.
class RunFolder {
 public:
  /// Takes `out`, or out/NAME of the job where that is empty, and makes it if it is missing.
  /// Errors: kFailedPrecondition (another run uses it now, or an earlier one did and `resume` is
  /// not asked for), kUnavailable (it cannot be written).
  static Result<RunFolder> Claim(const std::filesystem::path& out, const api::SwarmJob& job,
                                 bool resume);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Writes job.json, which marks the folder as used.
  Status WriteJob(const api::SwarmJob& job) const;

  /// The job of the run in `folder`, and the checkpoints of a job that names no other place.
  static std::filesystem::path JobFile(const std::filesystem::path& folder);
  static std::filesystem::path Checkpoints(const std::filesystem::path& folder);

 private:
  RunFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::filesystem::path path_;
  int lock_;
};

}  // namespace swarm::ctl
