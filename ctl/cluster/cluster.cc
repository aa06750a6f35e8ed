#include "ctl/cluster/cluster.h"

#include <chrono>
#include <utility>

#include "ctl/cluster/plugin/credentials.h"
#include "operator/kube/client/rest_client.h"
#include "operator/kube/transport/http_cpprest.h"

namespace swarm::ctl {

Status Renew(Cluster* cluster) {
  RETURN_IF_ERROR(cluster->config.credentials->Authorization().status());
  std::string certificate = cluster->config.tls().certificate;
  if (cluster->client && certificate == cluster->certificate) return Status();
  const kube::Config& config = cluster->config;
  ASSIGN_OR_RETURN(cluster->transport,
                   kube::MakeCpprestTransport(
                       {config.server, config.tls, config.proxy, config.tls_server_name}));
  kube::RestClientOptions client_options;
  client_options.user_agent = "swarmctl";
  client_options.call_timeout = std::chrono::seconds(30);
  client_options.stop = cluster->stop;
  cluster->client = kube::MakeRestClient(cluster->transport, config.credentials, client_options,
                                         kube::SystemTiming(), nullptr);
  cluster->certificate = std::move(certificate);
  return Status();
}

Result<Cluster> Connect(const ClusterOptions& options, std::FILE* err, std::stop_token stop) {
  kube::KubeconfigOptions kubeconfig;
  kubeconfig.context = options.context;
  kubeconfig.allow_insecure = true;
  kubeconfig.home = true;
  kubeconfig.plugin = RunPlugins({.stop = stop}, kube::SystemTiming());
  Cluster cluster;
  cluster.stop = std::move(stop);
  ASSIGN_OR_RETURN(cluster.config,
                   kube::FindConfig(options.kubeconfig, kubeconfig, kube::ProcessEnvironment,
                                    kube::SystemTiming()));
  if (cluster.config.tls().insecure && !options.allow_insecure) {
    std::fprintf(err,
                 "warning: insecure-skip-tls-verify: %s is trusted without a look at its"
                 " certificate, and gets your credentials\n",
                 cluster.config.server.c_str());
  }
  cluster.ns = options.ns.empty() ? cluster.config.ns : options.ns;
  if (cluster.ns.empty()) cluster.ns = "default";
  RETURN_IF_ERROR(Renew(&cluster));
  return cluster;
}

ExitCode Refuse(const Status& status, std::FILE* err) {
  std::fprintf(err, "%s\n", status.ToString().c_str());
  return ExitCodeOf(status);
}

}  // namespace swarm::ctl
