// swarmctl satellite: which other clusters may have pods of this one's jobs.
#pragma once

#include <cstdio>
#include <string>

#include "base/time.h"
#include "ctl/cluster/cluster_commands.h"

namespace swarm::ctl {

struct SatelliteOptions {
  ClusterOptions cluster;  ///< the namespace is that of the operator
  std::string name;        ///< of the other cluster
  /// host:port at which its operator reaches the one here; empty: by the load balancer of home.
  std::string home;
  Duration lifetime = std::chrono::hours(24);  ///< of the token
};

/// Prints a token to `out`, with which the operator of another cluster enrols once, and to `err`
/// the address of home that was found.
ExitCode CreateSatelliteToken(const SatelliteOptions& options, std::FILE* out, std::FILE* err);
/// Prints a line for each cluster that has a token or has come: whether its satellite is connected,
/// as home's operator last wrote, and since when.
ExitCode ListSatellites(const SatelliteOptions& options, std::FILE* out, std::FILE* err);
/// Sends a satellite away, and makes its unused tokens useless.
ExitCode RevokeSatellite(const SatelliteOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
