// swarmctl top and swarmctl drain: a look at the SwarmJobs of a cluster, and a hand on one of their
// workers. Both are what kubectl can do as well (get, delete), in the words of SwarmJob.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "ctl/exit_codes.h"

namespace swarm::ctl {

/// Which cluster, and where in it.
struct ClusterOptions {
  std::string kubeconfig;  ///< empty: $KUBECONFIG, else the pod's service account
  std::string context;
  std::string ns;  ///< empty: the context's
  bool allow_insecure = false;
};

struct TopOptions {
  ClusterOptions cluster;
  std::string job;  ///< empty: all of the namespace
  bool all_namespaces = false;
  bool once = false;  ///< print and end, as where the output is no terminal
  Duration interval = std::chrono::seconds(2);
};

/// Shows the jobs until it is interrupted.
ExitCode ShowTop(const TopOptions& options, std::FILE* out, std::FILE* err);

struct DrainOptions {
  ClusterOptions cluster;
  std::vector<std::string> pods;     ///< workers: JOB-wN
  std::optional<int> grace_seconds;  ///< none: as the pod says
};

/// Deletes the pods of workers: each hands over what it has and ends, and the operator replaces it.
/// Anything but a worker of a SwarmJob is refused, and then nothing is deleted.
ExitCode DrainWorkers(const DrainOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
