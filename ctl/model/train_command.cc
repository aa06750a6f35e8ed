#include "ctl/model/train_command.h"

#include <poll.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/loop.h"
#include "base/signals.h"
#include "ctl/model/threads.h"
#include "ctl/run/prompt_hint.h"
#include "ctl/run/reporter.h"
#include "ctl/run/run_folder.h"
#include "worker/trainer/reference.h"

namespace swarm::ctl {
namespace {

constexpr int kTickMilliseconds = 100;          // how often the watch checks whether to end
constexpr std::size_t kReportsWaitingMax = 64;  // above this, training waits for the screen

// One training. Threads: the main one computes; `view_` owns the reporter; `watch_` waits for
// Ctrl-C.
class Training {
 public:
  Training(const TrainOptions& options, const RunFolder& folder, api::SwarmJob job,
           Reporter& reporter)
      : options_(options),
        folder_(folder),
        job_(std::move(job)),
        reporter_(reporter),
        view_("view", nullptr, kReportsWaitingMax),
        watch_([this](const std::stop_token& stop) { Watch(stop); }) {}

  RunSummary Execute() {
    const Status status = Train();
    watch_.request_stop();
    watch_.join();
    RunSummary summary = Summarize(status);
    view_.Post([this, summary] { reporter_.OnSummary(summary); });
    view_.Stop();
    return summary;
  }

 private:
  Status Train() {
    RETURN_IF_ERROR(folder_.WriteJob(job_));
    RETURN_IF_ERROR(
        NoteStart(folder_.path(), options_.started_by, job_.spec.data, options_.resume));
    trainer::ReferenceOptions reference{
        .job = job_,
        .out_dir = folder_.path().string(),
        .threads = ComputeThreads(options_.threads, job_.spec.model.config),
        .device = options_.device,
        .resume = options_.resume,
        .on_step = [this](const auto& record, double seconds) { return OnStep(record, seconds); },
        .on_validation = [this](double loss) { status_.validation_loss = loss; }};
    std::string& checkpoints = reference.job.spec.checkpoint.uri;
    if (checkpoints.empty()) {
      checkpoints = std::filesystem::absolute(RunFolder::Checkpoints(folder_.path())).string();
    }
    const Status status = trainer::TrainReference(reference);
    if (!status.ok() && !begun_ && !options_.resume) {
      // No step was trained, so another attempt may use the folder.
      std::error_code ignored;
      std::filesystem::remove(RunFolder::JobFile(folder_.path()), ignored);
    }
    return status;
  }

  bool OnStep(const protocol::CommitRecord& record, double seconds) {
    const api::Training& training = job_.spec.training;
    const std::uint64_t tokens = training.globalBatchSize * training.sequenceLength;
    const std::uint64_t step = record.step.value + 1;
    mean_seconds_ = begun_ ? mean_seconds_ + 0.1 * (seconds - mean_seconds_) : seconds;
    begun_ = true;
    status_.step = protocol::Step(step);
    status_.max_steps = training.maxSteps;
    status_.state =
        step >= training.maxSteps ? protocol::JobState::kFinishing : protocol::JobState::kTraining;
    status_.loss = record.loss;
    status_.tokens_per_second = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
    status_.seconds_left = mean_seconds_ * static_cast<double>(training.maxSteps - step);
    view_.Post([this, status = status_] { reporter_.OnStatus(status); });
    return !stopping_;
  }

  void Watch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting{signals_.fd(), POLLIN, 0};
      ::poll(&waiting, 1, kTickMilliseconds);
      const int count = signals_.count();
      if (count >= 2) return view_.Post([this] { Kill(); });
      if (count == 1 && !stopping_.exchange(true)) {
        view_.Post([this] {
          reporter_.OnEvent(
              "Interrupted: finishing the step and writing a checkpoint; once more kills");
        });
      }
    }
  }

  // A step in progress cannot be interrupted, so the process ends with it.
  [[noreturn]] void Kill() {
    RunSummary summary{"Interrupted", "everything was killed"};
    summary.exit_code = ExitCode::kKilled;
    reporter_.OnSummary(Complete(summary));
    std::_Exit(static_cast<int>(ExitCode::kKilled));
  }

  RunSummary Summarize(const Status& status) const {
    RunSummary summary;
    const bool done = status_.step.value >= job_.spec.training.maxSteps;
    summary.result = stopping_ && !done ? "Interrupted" : "Succeeded";
    if (!status.ok()) {
      summary.result = "Failed";
      summary.reason = status.message();
      summary.exit_code = begun_ ? ExitCode::kFailed : ExitCodeOf(status);
    }
    return Complete(summary);
  }

  RunSummary Complete(RunSummary summary) const {
    summary.out = folder_.path().string();
    summary.prompt = SuggestPrompt(job_.spec);
    summary.seconds = ToSeconds(Clock::now() - begin_);
    return summary;
  }

  const TrainOptions& options_;
  const RunFolder& folder_;
  const api::SwarmJob job_;
  const Timepoint begin_ = Clock::now();
  Reporter& reporter_;  // of view_
  Signals signals_{SIGINT, SIGTERM, SIGHUP};
  std::atomic<bool> stopping_ = false;
  bool begun_ = false;  // a step was trained
  double mean_seconds_ = 0;
  protocol::JobStatus status_;
  Loop view_;
  std::jthread watch_;
};

}  // namespace

ExitCode TrainJob(const TrainOptions& options, std::FILE* out, std::FILE* err) {
  const auto refuse = [err](const Status& why) {
    std::fprintf(err, "%s\n", why.message().c_str());
    return ExitCode::kBadUsage;
  };
  const Result<api::SwarmJob> job = LoadRunnableJob(options.manifest, options.overrides);
  if (!job.ok()) return refuse(job.status());
  const Result<RunFolder> folder = RunFolder::Claim(options.out, *job, options.resume);
  if (!folder.ok()) return refuse(folder.status());
  Reporter reporter(out, err, options.json);
  return Training(options, *folder, *job, reporter).Execute().exit_code;
}

}  // namespace swarm::ctl
