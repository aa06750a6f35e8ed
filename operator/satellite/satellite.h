// The operator of another cluster than the jobs' own: enrols at home, carries out home's requests
// with its own rights, and removes what is left of jobs that are gone. Without home it makes
// nothing new, and its pods go on.
#pragma once

#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "operator/kube/client/client.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/transport/http.h"
#include "operator/satellite/metrics.h"
#include "operator/satellite/sweep.h"

namespace swarm::satellite {

struct SatelliteOptions {
  std::string token;  ///< of `swarmctl satellite token`; is used once, if `secret` has no pair
  kube::ObjectName secret;           ///< of this satellite's identity; is made when it has enrolled
  std::set<std::string> namespaces;  ///< empty: all
  SweepOptions sweep;
  /// Pods of this cluster make their keys themselves, and prove to home which ones they are.
  bool pods_prove = false;
  /// host:port at which they reach home; empty: as this satellite does.
  std::string proof_home = {};
  kube::ObjectName gateway = {};  ///< Service of this cluster's gateway; without a name: none
};

/// The API server of the satellite's own cluster.
struct OwnCluster {
  kube::Client& client;
  std::shared_ptr<kube::HttpTransport> transport;
  std::shared_ptr<kube::Credentials> credentials;  ///< null: none
};

/// Serves until `stop` is requested; tries again, with pauses, what may work later. Errors:
/// kInvalidArgument (the token is none), kUnauthenticated and kPermissionDenied (home does not want
/// this satellite), kFailedPrecondition (the Secret has no identity).
Status RunSatellite(const SatelliteOptions& options, const OwnCluster& own, kube::Timing& timing,
                    SatelliteMetrics* metrics, std::stop_token stop);

}  // namespace swarm::satellite
