// swarmctl top, ui and drain: show the SwarmJobs of a cluster, as text and as a page, and let some
// of their workers leave. kubectl can do most of it as well (get, port-forward, delete), in terms
// of objects and pods.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "ctl/exit_codes.h"

namespace swarm::ctl {

/// Selects a cluster and a namespace.
struct ClusterOptions {
  std::string kubeconfig;       ///< file; empty: as kubectl finds it (kube::FindConfig)
  std::string context;          ///< empty: the current one
  std::string ns;               ///< empty: that of the context
  bool allow_insecure = false;  ///< do not warn of insecure-skip-tls-verify
};

struct TopOptions {
  ClusterOptions cluster;
  std::string job;  ///< empty: all jobs of the namespace
  bool all_namespaces = false;
  bool once = false;  ///< print once and end, as without a terminal
  Duration interval = std::chrono::seconds(2);
};

/// Shows the jobs until a signal comes. Call it before other threads: it takes SIGINT, SIGTERM and
/// SIGHUP.
ExitCode ShowTop(const TopOptions& options, std::FILE* out, std::FILE* err);

struct DrainOptions {
  ClusterOptions cluster;
  std::vector<std::string> pods;     ///< workers: JOB-wN
  std::optional<int> grace_seconds;  ///< none: that of the pod
};

/// Deletes the pods of workers. Each worker hands over what it holds and ends; the operator
/// replaces it. Deletes none if one of the pods is not a worker of a SwarmJob. Errors go to `err`.
/// Signals are as for ShowTop: one ends the command with an error.
ExitCode DrainWorkers(const DrainOptions& options, std::FILE* out, std::FILE* err);

struct UiOptions {
  ClusterOptions cluster;
  std::string job;                     ///< empty: the page of all jobs of the namespace
  bool all_namespaces = false;         ///< on that page
  std::string listen = "127.0.0.1:0";  ///< on loopback
};

/// Shows a page at an address of this machine, until a signal comes. Asks the job's trainer for it
/// through the API server, also the next trainer; the page of all jobs is made here, of what the
/// user may list. Signals are as for ShowTop.
ExitCode ShowPage(const UiOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
