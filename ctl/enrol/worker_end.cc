#include "ctl/enrol/worker_end.h"

#include "base/exit.h"

namespace swarm::ctl {

AfterWorker DecideAfterWorker(const ObservedProgram& worker, bool leaving) {
  if (leaving) return {.words = worker.name + " has left the job"};
  if (worker.exit_signal == 0) {
    switch (worker.exit_code) {
      case WorkerExit::kOk:
        return {.words = "home has dismissed " + worker.name};
      case WorkerExit::kBadUsage:
      case WorkerExit::kStorageRefused:
        return {.code = ExitCode::kBadUsage,
                .words = worker.name + " " + DescribeEnd(worker) + ", and would again"};
      case WorkerExit::kNoTrainer:
        return {.code = ExitCode::kFailed,
                .words = worker.name + " has heard no trainer for too long, and has ended"};
      default:
        break;
    }
  }
  return {.again = true, .words = worker.name + " " + DescribeEnd(worker)};
}

}  // namespace swarm::ctl
