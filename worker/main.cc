// swarm-worker: the trainer, a worker, or several workers of one job, as a process or a pod.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>

#include "base/exit.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/signals.h"
#include "worker/enrol/proof.h"
#include "worker/flags/flags.h"
#include "worker/pod/launcher.h"
#include "worker/prove/keeper.h"
#include "worker/roles/exits.h"
#include "worker/roles/stage_role.h"
#include "worker/roles/trainer_role.h"

namespace swarm {
namespace {

/// The end of a worker that has left because a signal told it to. It ends by the signal, as its
/// sender expects, which tells it from an end for another reason.
[[noreturn]] void EndBySignal() {
  ::signal(SIGTERM, SIG_DFL);
  ::raise(SIGTERM);
  // The first process of a container is immune to its own signals.
  ExitWith(128 + SIGTERM);
}

/// Replaces this process by a new image of the program: no state is left over, and for the parent
/// the process goes on. Returns if that fails.
int StartAgain(char** argv) {
  ::execv("/proc/self/exe", argv);
  return roles::Refuse(Internal(std::string("cannot start again: ") + std::strerror(errno)),
                       WorkerExit::kFailed);
}

/// Of a pod that proves which one it is, for as long as it lives. Null: another program has put the
/// files there.
Result<std::unique_ptr<prove::Keeper>> KeepIdentity(const WorkerFlags& flags,
                                                    const Signals& signals) {
  std::unique_ptr<prove::Keeper> none;
  if (!flags.pod.empty()) return none;  // the launcher of the pod keeps it
  ASSIGN_OR_RETURN(const auto place, enrol::ReadProofPlace([](const char* name) {
                     const char* const text = std::getenv(name);
                     return std::string(text == nullptr ? "" : text);
                   }));
  if (!place) return none;
  return prove::Keeper::Start({.place = *place,
                               .job_uid = flags.job_uid,
                               .worker = flags.id,
                               .ca = flags.tls_ca,
                               .certificate = flags.tls_cert,
                               .key = flags.tls_key},
                              prove::AskAt(*place), signals.token());
}

/// Without an identity. Another pod may get one.
int RefuseIdentity(const Status& why) { return roles::Refuse(why, WorkerExit::kFailed); }

int RunStage(const WorkerFlags& flags, char** argv) {
  using Then = roles::StageEnd::Then;
  {
    Signals signals({SIGTERM, SIGINT});
    const auto keeper = KeepIdentity(flags, signals);
    if (keeper.status().code() == StatusCode::kCancelled) EndBySignal();
    if (!keeper.ok()) return RefuseIdentity(keeper.status());
    const roles::StageEnd end = roles::RunStage(flags, signals);
    if (end.then == Then::kStartAgain) return StartAgain(argv);
    if (end.then == Then::kExit) return end.exit_code;
  }
  EndBySignal();
}

int RunPod(const WorkerFlags& flags) {
  {
    Signals signals({SIGTERM, SIGINT});
    const auto keeper = KeepIdentity(flags, signals);
    if (keeper.status().code() == StatusCode::kCancelled) EndBySignal();
    if (!keeper.ok()) return RefuseIdentity(keeper.status());
    const pod::PodEnd end = pod::RunPod(flags, signals);
    if (!end.by_signal) return end.exit_code;
  }
  EndBySignal();
}

int Main(int argc, char** argv) {
  const auto command = ParseWorkerFlags({argv + 1, argv + argc});
  if (!command.ok()) {
    std::cerr << command.status().message() << "\nRun with --help for more information.\n";
    return WorkerExit::kBadUsage;
  }
  if (!command->print.empty()) {
    std::cout << command->print;
    return WorkerExit::kOk;
  }
  const WorkerFlags& flags = command->flags;
  if (flags.role == WorkerRole::kStage) {
    StartLogging(flags.id, flags.log_level);
    return flags.devices.empty() ? RunStage(flags, argv) : RunPod(flags);
  }
  StartLogging("trainer", flags.log_level);
  Signals signals({SIGTERM, SIGINT});
  return roles::RunTrainer(flags, signals);
}

}  // namespace
}  // namespace swarm

int main(int argc, char** argv) {
  swarm::RunWithShortSpins(argv);
  swarm::ExitWith(swarm::Main(argc, argv));
}
