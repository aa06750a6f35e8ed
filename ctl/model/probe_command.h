// swarmctl probe: measures this machine, for the file of a fleet.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct ProbeOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  std::string out;     ///< a file to write; empty: the output
  std::string name;    ///< of the group; empty: the machine's
  std::string region;  ///< of the machine; empty: the name, where links are measured
  /// REGION=HOST or REGION=HOST:PORT, of machines that run `iperf3 -s` (MeasureLink).
  std::vector<std::string> links;
  std::string scratch;         ///< a folder on the disk to measure; empty: none is
  double scratch_gib = 2;      ///< written and read there
  int threads = 0;             ///< 0: all cores
  std::string device = "cpu";  ///< or "cuda:N"
  double seconds = 3;          ///< of each measurement
};

/// Prints a fleet of this one machine as YAML, or writes it to a file (docs/planner.md): its rate
/// on layers of the job's model, as the planner counts operations; its memory, and how fast the
/// host copies and updates; a device's memory and the link to it; the rate of the disk; links to
/// others. Nothing else should run meanwhile.
ExitCode ProbeMachine(const ProbeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
