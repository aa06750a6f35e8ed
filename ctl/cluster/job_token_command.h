// swarmctl token, for a SwarmJob: its owner decides which machines without Kubernetes may join it.
#pragma once

#include <cstdio>
#include <string>

#include "ctl/cluster/cluster_commands.h"
#include "worker/enrol/register.h"

namespace swarm::ctl {

struct JobTokenOptions {
  ClusterOptions cluster;  ///< the namespace is that of the job
  std::string job;
  std::string pool;  ///< of a new token: as in spec.workers.machinePools
  std::string operator_namespace = "swarmjob";
  /// host:port at which machines reach home; empty: by the load balancer of home.
  std::string home;
  enrol::TokenTerms terms;  ///< of a new token
  std::string name;         ///< to revoke: of a token, or a worker
  bool json = false;        ///< list
};

/// Prints to `out` the command for the machine that shall join, and to `err` the address of home
/// that was found.
ExitCode CreateJobToken(const JobTokenOptions& options, std::FILE* out, std::FILE* err);
ExitCode ListJobTokens(const JobTokenOptions& options, std::FILE* out, std::FILE* err);
ExitCode RevokeJobToken(const JobTokenOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
