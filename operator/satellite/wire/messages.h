// What satellites ask home, and what it answers. proto/swarmjob/v1/satellite.proto has the same on
// the wire.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "operator/kube/transport/http.h"
#include "worker/enrol/service/messages.h"

namespace swarm::satellite {

using enrol::Caller;
using enrol::EnrolRequest;

struct EnrolReply {
  std::string cluster;      ///< the name that home gives to the satellite's cluster
  std::string certificate;  ///< PEM
  Duration validity{};      ///< of the certificate, from now on
};

/// What home decides. Called on gRPC's threads, several at a time; may wait for the API server.
class Reception {
 public:
  virtual ~Reception() = default;
  virtual Result<EnrolReply> Enrol(const Caller& caller, const EnrolRequest& request) = 0;
  virtual Result<EnrolReply> Renew(const Caller& caller, const std::string& request) = 0;
  /// The cluster whose satellite calls. Errors: kPermissionDenied (it is none, or was revoked).
  virtual Result<std::string> ClusterOf(const Caller& caller) = 0;
  /// The first time that a satellite of this cluster has come: from now on `transport` reaches the
  /// API server of the cluster while a satellite is connected, which `reachable` says, and is
  /// kUnavailable otherwise.
  virtual void OnCluster(const std::string& cluster, std::shared_ptr<kube::HttpTransport> transport,
                         std::function<bool()> reachable) = 0;
};

}  // namespace swarm::satellite
