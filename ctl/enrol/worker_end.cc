#include "ctl/enrol/worker_end.h"

#include "base/exit.h"

namespace swarm::ctl {

AfterWorker DecideAfterWorker(const ObservedProgram& worker, bool leaving, bool home_lost) {
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
        if (home_lost) break;
        return {.code = ExitCode::kFailed,
                .words = worker.name + " has heard no trainer for too long, and has ended"};
      default:
        break;
    }
  }
  return {.again = true, .words = worker.name + " " + DescribeEnd(worker)};
}

AfterRefusal DecideAfterRefusal(const Status& why, const std::string& worker, bool enrolling) {
  switch (why.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      return {.again = true,
              .words = why.message() +
                       "; the worker goes on as far as it can, and this machine tries again"};
    case StatusCode::kResourceExhausted:  // too many tries from this address
      return {.again = true, .words = why.message()};
    default:
      break;
  }
  if (!enrolling) {
    return {.code = ExitCode::kFailed, .words = "home refuses " + worker + ": " + why.message()};
  }
  return {.code = ExitCodeOf(why),
          .words = "the certificate of " + worker +
                   " has ended, and home gives no other: " + why.message()};
}

}  // namespace swarm::ctl
