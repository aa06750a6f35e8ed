#include "worker/pod/launcher.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/exit.h"
#include "base/files.h"
#include "base/log.h"
#include "base/machine_memory.h"
#include "worker/net/pod/pod_memory.h"
#include "worker/pod/pages.h"
#include "worker/pod/supervise.h"
#include "worker/pod/worker_flags.h"
#include "worker/processes/processes.h"

namespace swarm::pod {
namespace {

/// A worker that has not ended so long after its time to leave is killed.
constexpr Duration kGrace = std::chrono::seconds(5);
/// Between two looks where nothing wakes the launcher.
constexpr Duration kTick = std::chrono::seconds(60);

class Launcher {
 public:
  Launcher(const WorkerFlags& flags, Signals& signals)
      : flags_(flags),
        signals_(signals),
        memory_(UsableMemory()),
        supervisor_(flags.devices.size(), {}),
        runs_(flags.devices.size(), false),
        pages_(SourcesOf(flags, memory_)) {}

  PodEnd Run() {
    const auto exporter = ServePages();
    if (!exporter.ok()) return Refuse(exporter.status());
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return Refuse(Internal("cannot find this program: " + error.message()));
    Processes processes({program, /*log_directory=*/""});
    if (auto shared = net::PodMemory::Create(flags_.devices.size()); shared.ok()) {
      shared_ = *std::move(shared);
    } else {
      LOG_WARN("workers send all over the network: {}", shared.status().message());
    }
    LOG_INFO("a pod of {} workers", flags_.devices.size());
    while (!supervisor_.HasEnded()) {
      const Status started = StartDue(processes);
      if (!started.ok()) return Refuse(started);
      const Timepoint tick = Clock::now() + kTick;
      processes.Wait(std::min(tick, supervisor_.NextDue().value_or(tick)), signals_.fd());
      OnSignals(processes);
      NoteEnds(processes);
    }
    return {.by_signal = signals_seen_ > 0, .exit_code = supervisor_.exit_code()};
  }

 private:
  static std::vector<PodPages::Source> SourcesOf(const WorkerFlags& flags, std::uint64_t memory) {
    std::vector<PodPages::Source> sources;
    for (std::size_t i = 0; i < flags.devices.size(); ++i) {
      const WorkerFlags worker = WorkerOf(flags, i, memory);
      const bool fixed = !worker.metrics_listen.ends_with(":0");
      sources.push_back({worker.id, [worker, fixed] {
                           if (fixed) return worker.metrics_listen;
                           const auto written = ReadFile(worker.metrics_address_file);
                           return written.ok() ? written->substr(0, written->find('\n'))
                                               : std::string();
                         }});
    }
    return sources;
  }

  static PodEnd Refuse(const Status& status) {
    LOG_ERROR("{}", status.message());
    return {.exit_code = WorkerExit::kFailed};
  }

  Result<std::unique_ptr<metrics::Exporter>> ServePages() {
    if (flags_.metrics_listen.empty()) return std::unique_ptr<metrics::Exporter>();
    ASSIGN_OR_RETURN(auto exporter, metrics::Exporter::Start(flags_.metrics_listen, pages_.Get()));
    LOG_INFO("metrics of all workers at http://{}/metrics", exporter->address());
    if (!flags_.metrics_address_file.empty()) {
      RETURN_IF_ERROR(WriteFile(flags_.metrics_address_file, exporter->address() + "\n"));
    }
    return exporter;
  }

  Status StartDue(Processes& processes) {
    for (const std::size_t i : supervisor_.TakeDue(Clock::now())) {
      WorkerFlags worker = WorkerOf(flags_, i, memory_);
      if (shared_ != nullptr) {
        worker.pod_memory = static_cast<std::uint64_t>(shared_->fd());
        worker.pod_worker = i;
      }
      RETURN_IF_ERROR(processes.Start({worker.id, WorkerRole::kStage, ToArguments(worker)}));
      runs_[i] = true;
      pages_.OnStarted(i);
    }
    return Status();
  }

  void OnSignals(Processes& processes) {
    const int count = signals_.count();
    for (; signals_seen_ < count; ++signals_seen_) {
      supervisor_.BeginLeaving();
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        if (!runs_[i]) continue;
        processes.Terminate(WorkerName(flags_, i),
                            std::chrono::seconds(flags_.drain_seconds) + kGrace);
      }
    }
  }

  void NoteEnds(Processes& processes) {
    for (const ObservedProgram& program : processes.Observe()) {
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        if (!runs_[i] || program.name != WorkerName(flags_, i)) continue;
        if (program.phase == Phase::kRunning) continue;
        runs_[i] = false;
        pages_.OnEnded(i);
        const std::string follows = supervisor_.OnEnded(i, program, Clock::now());
        LOG_INFO("{} {}; {}", program.name, DescribeEnd(program), follows);
      }
    }
  }

  const WorkerFlags& flags_;
  Signals& signals_;
  const std::uint64_t memory_;
  std::shared_ptr<net::PodMemory> shared_;  // the workers inherit it; null: there is none
  Supervisor supervisor_;
  std::vector<bool> runs_;
  PodPages pages_;
  int signals_seen_ = 0;
};

}  // namespace

PodEnd RunPod(const WorkerFlags& flags, Signals& signals) { return Launcher(flags, signals).Run(); }

}  // namespace swarm::pod
