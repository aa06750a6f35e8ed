#include "worker/roles/trainer_role.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "api/parse.h"
#include "base/exit.h"
#include "base/files.h"
#include "base/log.h"
#include "worker/page/page_server.h"
#include "worker/page/state/view.h"
#include "worker/roles/exits.h"
#include "worker/roles/serving.h"
#include "worker/trainer/export_metrics.h"
#include "worker/trainer/trainer.h"

namespace swarm::roles {
namespace {

/// What a trainer serves, also before it exists: its start may wait long for a storage.
/// Thread-safe.
class TrainerPages {
 public:
  /// While it lives, the pages are those of `trainer`.
  class Scope {
   public:
    Scope(TrainerPages& pages, trainer::Trainer* trainer) : pages_(pages) { pages_.Set(trainer); }
    ~Scope() { pages_.Set(nullptr); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainerPages& pages_;
  };

  metrics::Pages Get() {
    return {.metrics = [this] { return Ask(std::vector<MetricSample>(), trainer::ExportMetrics); },
            .healthz =
                [this] {
                  return Ask(Status(),
                             [](auto& trainer) { return trainer.CheckHealth(kProbeLimit); });
                },
            .readyz =
                [this] {
                  return Ask(Unavailable("not serving yet"),
                             [](auto& trainer) { return trainer.CheckReady(kProbeLimit); });
                }};
  }

  std::optional<page::JobView> View(Duration limit) {
    return Ask(std::optional<page::JobView>(),
               [limit](auto& trainer) { return trainer.ViewWithin(limit); });
  }

  std::optional<page::LanesView> LanesSince(Duration limit, std::int64_t after) {
    return Ask(std::optional<page::LanesView>(),
               [=](auto& trainer) { return trainer.LanesWithin(limit, after); });
  }

 private:
  void Set(trainer::Trainer* trainer) {
    const std::unique_lock lock(mutex_);
    trainer_ = trainer;
  }
  template <typename Answer, typename Question>
  Answer Ask(Answer without, const Question& question) {
    const std::shared_lock lock(mutex_);
    return trainer_ == nullptr ? without : question(*trainer_);
  }

  std::shared_mutex mutex_;
  trainer::Trainer* trainer_ = nullptr;  // guarded
};

/// Null if the flags ask for no page, or if it cannot be served: training matters more.
Result<std::unique_ptr<page::PageServer>> ServePage(const WorkerFlags& flags,
                                                    const api::SwarmJob& job, TrainerPages& pages) {
  if (flags.page.empty()) return std::unique_ptr<page::PageServer>();
  auto server = page::PageServer::Start(
      {.listen = flags.page,
       .job = job.name,
       .folder = flags.out,
       .microbatches = job.microbatches(),
       .stages = job.spec.pipeline.stages,
       .look = [&pages](Duration limit) { return pages.View(limit); },
       .look_at_lanes = [&pages](Duration limit,
                                 std::int64_t after) { return pages.LanesSince(limit, after); }});
  if (server.status().code() == StatusCode::kUnavailable) {
    LOG_WARN("{}; the job goes on without it", server.status().message());
    return std::unique_ptr<page::PageServer>();
  }
  if (!server.ok()) return server.status();
  LOG_INFO("the page to watch the job is at http://{}/", (*server)->address());
  if (!flags.page_address_file.empty()) {
    RETURN_IF_ERROR(WriteFile(flags.page_address_file, (*server)->address() + "\n"));
  }
  return server;
}

Result<trainer::TrainerOptions> OptionsOf(const WorkerFlags& flags) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.job));
  auto job = api::FromJsonText(text);
  if (!job.ok()) return InvalidArgument(flags.job + ": " + job.status().message());
  trainer::TrainerOptions options{.job = *std::move(job),
                                  .job_uid = flags.job_uid,
                                  .replicas = flags.layout,
                                  .out_dir = flags.out,
                                  .region = flags.region,
                                  .term = protocol::Term(flags.term),
                                  .balance = flags.balance,
                                  .resume = flags.resume,
                                  .keep_workers = flags.keep_workers,
                                  .trace_progress = flags.trace_progress,
                                  .storage_patience = std::chrono::seconds(flags.storage_patience)};
  if (options.job.spec.checkpoint.uri.empty()) {
    options.job.spec.checkpoint.uri = std::filesystem::absolute(flags.out) / "checkpoints";
  }
  return options;
}

/// Logs how the job has ended; returns the exit code.
int Conclude(const trainer::Outcome& outcome, bool keep_workers) {
  if (outcome.superseded) {
    return Refuse(Internal(outcome.reason),
                  outcome.was_stopped ? WorkerExit::kWasStopped : WorkerExit::kSuperseded);
  }
  if (!outcome.succeeded) return Refuse(Internal(outcome.reason), ExitOf(outcome.failure_class));
  if (!outcome.stopped_early) return WorkerExit::kOk;
  const bool resumable = outcome.resumable || keep_workers;
  LOG_INFO("stopped before the last step; {}",
           resumable ? "it can be resumed" : "there is no checkpoint yet");
  return resumable ? WorkerExit::kStopped : WorkerExit::kNothingToResume;
}

}  // namespace

int RunTrainer(const WorkerFlags& flags, Signals& signals) {
  auto options = OptionsOf(flags);
  if (!options.ok()) return Refuse(options.status(), WorkerExit::kBadUsage);
  options->cancelled = signals.token();
  TrainerPages pages;
  const auto exporter = ServePages(flags, pages.Get());
  if (!exporter.ok()) return Refuse(exporter.status(), WorkerExit::kBadUsage);
  const auto page = ServePage(flags, options->job, pages);
  if (!page.ok()) return Refuse(page.status(), WorkerExit::kBadUsage);
  const auto revocations = RevocationsOf(flags);
  options->on_retired = [revocations](const protocol::Retired& workers) {
    revocations->Retire(workers);
  };
  auto started = trainer::Trainer::Start(*std::move(options),
                                         EndpointMaker(flags, trainer::kTrainerId, revocations));
  if (!started.ok()) return Refuse(started.status());
  trainer::Trainer& trainer = **started;
  const Signals::Listener stop(signals, [&trainer, &flags] {
    trainer.RequestStop(std::chrono::seconds(flags.stop_seconds));
  });
  const TrainerPages::Scope served(pages, &trainer);
  if (trainer.complete()) {
    LOG_INFO("nothing is left to do: the checkpoint is that of the last step");
    return WorkerExit::kOk;
  }
  const std::string address = trainer.addresses().front().dial;
  LOG_INFO("listening at {}", address);
  if (!flags.address_file.empty()) {
    const Status status = WriteFile(flags.address_file, address + "\n");
    if (!status.ok()) return Refuse(status, WorkerExit::kFailed);
  }
  const trainer::Outcome outcome = trainer.Wait();
  if (*page != nullptr) (*page)->Close();
  const int code = Conclude(outcome, flags.keep_workers);
  // The destructors would wait for a storage that does not answer.
  if (outcome.overdue) ExitWith(code);
  return code;
}

}  // namespace swarm::roles
