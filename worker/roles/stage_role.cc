#include "worker/roles/stage_role.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "api/format/enum_names.h"
#include "base/exit.h"
#include "base/files.h"
#include "base/log.h"
#include "base/spans.h"
#include "worker/chaos/corruption.h"
#include "worker/chaos/holds.h"
#include "worker/model/attention.h"
#include "worker/model/numeric_class.h"
#include "worker/roles/exits.h"
#include "worker/roles/serving.h"
#include "worker/stage/export_metrics.h"
#include "worker/stage/worker.h"
#include "worker/trainer/trainer.h"

namespace swarm::roles {
namespace {

using Then = StageEnd::Then;

/// No two processes of a worker id begin in the same nanosecond.
protocol::Incarnation NewIncarnation() {
  return protocol::Incarnation(
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
}

/// Says by which kernels the stage attends: libtorch chooses them, and its speed depends on them.
Result<std::unique_ptr<model::Stage>> CreateStage(const model::StageOptions& options) {
  ASSIGN_OR_RETURN(auto stage, model::Stage::Create(options));
  ASSIGN_OR_RETURN(const std::string kernels,
                   model::AttentionKernels(options.config, options.precision, options.device));
  LOG_INFO("stage {} of {} on {}: products in {}, attention by {}", options.stage,
           options.stage_count, options.device, NameOf(options.precision), kernels);
  return stage;
}

Result<stage::WorkerOptions> OptionsOf(const WorkerFlags& flags, Spans* spans) {
  ASSIGN_OR_RETURN(const auto numeric_class, model::NumericClass(flags.threads, flags.device));
  stage::WorkerOptions options{.id = protocol::WorkerId(flags.id),
                               .cluster = flags.cluster,
                               .region = flags.region,
                               .pod = flags.pod,
                               .trainer = trainer::kTrainerId,
                               .trainer_addresses = WaysToTrainer(flags),
                               .threads = flags.threads,
                               .device = flags.device,
                               .numeric_class = numeric_class,
                               .trainer_patience = std::chrono::seconds(flags.trainer_patience),
                               .memory = flags.memory,
                               .memory_budget = flags.memory_budget,
                               .spans = spans,
                               .create_stage = [spans](model::StageOptions options) {
                                 options.spans = spans;
                                 return CreateStage(options);
                               }};
  if (!flags.chaos_file.empty()) {
    const auto point = std::make_shared<chaos::HoldPoint>(flags.chaos_file, options.id);
    options.at_phase = [point](chaos::WorkPhase phase, protocol::Step step) {
      point->Pass(phase, step);
    };
    options.errs = [file = flags.chaos_file, self = flags.id] {
      return chaos::IsCorrupt(file, self);
    };
  }
  return options;
}

StageEnd EndOf(const Status& status) {
  if (status.ok()) return {Then::kExit, WorkerExit::kOk};
  if (status.code() == StatusCode::kAborted) {
    LOG_INFO("{}; coming back", status.message());
    return {Then::kStartAgain};
  }
  const bool no_trainer = status.code() == StatusCode::kDeadlineExceeded;
  return {Then::kExit, Refuse(status, no_trainer ? WorkerExit::kNoTrainer : ExitOf(status))};
}

/// One incarnation. `kept`: the state of the one before; then that of this one, if it may come
/// back.
StageEnd RunIncarnation(const WorkerFlags& flags, const stage::WorkerOptions& options,
                        const std::shared_ptr<net::Revocations>& revocations, Signals& signals,
                        std::shared_ptr<const stage::KeptState>& kept) {
  auto started = stage::Worker::Start(options, EndpointMaker(flags, options.id, revocations),
                                      std::exchange(kept, nullptr));
  if (!started.ok()) return {Then::kExit, Refuse(started.status())};
  stage::Worker& worker = **started;
  const auto exporter =
      ServePages(flags, {.metrics = [&worker] { return stage::ExportMetrics(worker); },
                         .healthz = [&worker] { return worker.CheckHealth(kProbeLimit); },
                         .readyz = [&worker] { return worker.CheckReady(kProbeLimit); }});
  if (!exporter.ok()) return {Then::kExit, Refuse(exporter.status(), WorkerExit::kBadUsage)};
  std::atomic<int> signals_seen{0};
  const Signals::Listener leave(signals, [&] {
    if (signals_seen++ == 0) {
      worker.Leave(std::chrono::seconds(flags.drain_seconds));
    } else {
      worker.Stop(Cancelled("asked to leave at once"));
    }
  });
  const Status status = worker.Wait();
  if (signals_seen > 0) return {Then::kTerminate};
  if (status.code() == StatusCode::kAborted) kept = worker.TakeState();
  return EndOf(status);
}

StageEnd Serve(const WorkerFlags& flags, Signals& signals, Spans* spans) {
  auto options = OptionsOf(flags, spans);
  if (!options.ok()) return {Then::kExit, Refuse(options.status())};
  const auto revocations = RevocationsOf(flags);
  options->on_retired = [revocations](const protocol::Retired& workers) {
    revocations->Retire(workers);
  };
  std::shared_ptr<const stage::KeptState> kept;
  for (;;) {
    options->incarnation = NewIncarnation();
    const StageEnd end = RunIncarnation(flags, *options, revocations, signals, kept);
    if (end.then != Then::kStartAgain || !kept) return end;
  }
}

}  // namespace

StageEnd RunStage(const WorkerFlags& flags, Signals& signals) {
  if (flags.profile.empty()) return Serve(flags, signals, nullptr);
  Spans spans;
  const StageEnd end = Serve(flags, signals, &spans);
  const Status written = WriteFile(flags.profile, ToJsonLines(spans));
  if (!written.ok()) LOG_WARN("the profile is lost: {}", written.message());
  return end;
}

}  // namespace swarm::roles
