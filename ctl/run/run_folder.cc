#include "ctl/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "api/parse.h"
#include "base/files.h"
#include "ctl/manifest_file.h"

namespace swarm::ctl {
namespace {

// A descriptor that holds the folder's lock.
Result<int> Lock(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Unavailable("cannot make " + folder.string() + ": " + error.message());
  const int fd = ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Unavailable("cannot write in " + folder.string());
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return FailedPrecondition("another run uses " + folder.string() + ": give another --out");
  }
  return fd;
}

}  // namespace

Result<api::SwarmJob> LoadRunnableJob(const std::string& manifest,
                                      const std::vector<std::string>& overrides) {
  return Runnable(LoadManifest(manifest, overrides));
}

Result<api::SwarmJob> Runnable(api::Checked<api::SwarmJob> job) {
  if (!job.ok()) return InvalidArgument(api::ToString(job.errors()));
  if (job->spec.suspend) {
    return InvalidArgument("spec.suspend: is true; run it with --set suspend=false");
  }
  return *std::move(job);
}

Result<RunFolder> RunFolder::Claim(const std::filesystem::path& out, const api::SwarmJob& job,
                                   bool resume) {
  const std::filesystem::path path = out.empty() ? std::filesystem::path("out") / job.name : out;
  ASSIGN_OR_RETURN(const int lock, Lock(path));
  RunFolder folder(path, lock);
  if (!resume && std::filesystem::exists(JobFile(path))) {
    return FailedPrecondition(
        path.string() + " holds an earlier run: continue it with --resume, or give another --out");
  }
  return folder;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(other.path_), lock_(std::exchange(other.lock_, -1)) {}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

Status RunFolder::WriteJob(const api::SwarmJob& job) const {
  return WriteFile(JobFile(path_), api::ToJsonText(job));
}

std::filesystem::path RunFolder::JobFile(const std::filesystem::path& folder) {
  return folder / "job.json";
}

std::filesystem::path RunFolder::Checkpoints(const std::filesystem::path& folder) {
  return folder / "checkpoints";
}

}  // namespace swarm::ctl
