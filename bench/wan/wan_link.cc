// wan_link: carries packets between network namespaces as a wide-area network would (wan.py makes
// the namespaces). Runs until SIGTERM or SIGINT; prints "ready" when packets are carried.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "bench/wan/emulator.h"

namespace swarm::wan {
namespace {

struct Flags {
  std::string topology, namespaces = "/run/netns", device = "wan0", report;
  std::uint64_t seed = 1;
};

/// Wakes up on time: no slack of timers, and before programs that compute.
void BecomePunctual() {
  ::prctl(PR_SET_TIMERSLACK, 1);
  const sched_param priority{.sched_priority = 10};
  if (::sched_setscheduler(0, SCHED_RR, &priority) != 0) {
    LOG_WARN("no right to a real-time priority: packets may be late while others compute");
  }
}

Status Carry(const Flags& flags) {
  std::ifstream file(flags.topology);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return NotFound(flags.topology + ": cannot be read");
  ASSIGN_OR_RETURN(const Topology topology, ParseTopology(text.str()));
  ASSIGN_OR_RETURN(const auto emulator,
                   Emulator::Open(topology, flags.namespaces, flags.device, flags.seed));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const Descriptor stop(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (stop.get() < 0) return Unavailable("signalfd: no descriptor");
  BecomePunctual();
  std::printf("ready\n");
  std::fflush(stdout);
  RETURN_IF_ERROR(emulator->Run(stop.get()));
  if (flags.report.empty()) return Status();
  std::ofstream report(flags.report);
  report << emulator->Report() << "\n";
  report.close();
  return report ? Status() : Unavailable(flags.report + ": cannot be written");
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("A wide-area network between network namespaces of this machine");
  app.add_option("--topology", flags.topology, "JSON file (bench/wan/topology.h)")->required();
  app.add_option("--namespaces", flags.namespaces, "Folder with a namespace a node");
  app.add_option("--device", flags.device, "The TUN device in each of them");
  app.add_option("--report", flags.report, "Written at the end: what each link has carried");
  app.add_option("--seed", flags.seed, "Decides which packets are lost");
  CLI11_PARSE(app, argc, argv);
  StartLogging("wan_link", "info");
  const Status status = Carry(flags);
  if (!status.ok()) LOG_ERROR("{}", status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace swarm::wan

int main(int argc, char** argv) { return swarm::wan::Main(argc, argv); }
