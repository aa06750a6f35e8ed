// A cluster as a user of kubectl has configured it.
#pragma once

#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "ctl/cluster/cluster_commands.h"
#include "operator/kube/client/client.h"
#include "operator/kube/config/config.h"
#include "operator/kube/transport/http.h"

namespace swarm::ctl {

/// A client, and the namespace to work in.
struct Cluster {
  kube::Config config;
  std::string ns;
  std::stop_token stop;
  std::string certificate;  ///< ours, with which `client` began
  std::shared_ptr<kube::HttpTransport> transport;
  std::unique_ptr<kube::Client> client;
};

/// Prepares the next requests. Runs the user's plugin if its credential has ended: within a
/// request, a login could exceed the time of the request. A connection keeps the
/// client certificate that it began with, so another certificate needs new connections.
Status Renew(Cluster* cluster);

/// Warnings go to `err`.
Result<Cluster> Connect(const ClusterOptions& options, std::FILE* err, std::stop_token stop);

/// Says what is wrong, for a command that ends with it.
ExitCode Refuse(const Status& status, std::FILE* err);

}  // namespace swarm::ctl
