// The address of the API server and the credentials for it: from the pod of this process, or from
// kubeconfig files.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/kubeconfig/kubeconfig.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/transport/proxy.h"
#include "operator/kube/transport/tls.h"

namespace swarm::kube {

struct Config {
  std::string server;  ///< https://host:port, perhaps with a path
  std::string ns;      ///< the namespace of the pod, or of the context
  std::shared_ptr<Credentials> credentials;
  TlsSource tls;
  std::string proxy;            ///< http:// URL; empty: none
  std::string tls_server_name;  ///< the name in the server's certificate; empty: its host
};

inline constexpr const char* kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";

/// The service account of the pod: token, ca.crt and namespace in `folder`, and the address in
/// KUBERNETES_SERVICE_HOST and _PORT. No proxy is used within the cluster. `timing` must outlive
/// the credentials.
///
/// Errors: kFailedPrecondition, this process does not run in a pod; kUnavailable or kNotFound, a
/// file cannot be read or does not exist.
Result<Config> InClusterConfig(const std::filesystem::path& folder, const Environment& environment,
                               Timing& timing);

/// Both are PEM; both may be empty.
struct ClientCertificate {
  std::string certificate, key;
};

/// What the plugin of a user makes.
struct PluginIdentity {
  std::shared_ptr<Credentials> credentials;
  /// The certificate that came with the newest Authorization. Thread-safe, must not throw.
  std::function<ClientCertificate()> certificate;
};

/// Turns a plugin into an identity. `authority` is the PEM of the cluster's; it may be empty.
/// Errors: kInvalidArgument, kFailedPrecondition: this plugin cannot be run.
using PluginMaker = std::function<Result<PluginIdentity>(
    const ExecPlugin& plugin, const KubeCluster& cluster, const std::string& authority)>;

struct KubeconfigOptions {
  std::string context;  ///< empty: the current context
  /// Obey insecure-skip-tls-verify. Without this flag, an entry with it is refused.
  bool allow_insecure = false;
  /// If neither a file nor KUBECONFIG is given, look for ~/.kube/config.
  bool home = false;
  /// Empty: a user whose credentials a plugin makes is refused. This library runs no programs, so
  /// the operator, which leaves it empty, cannot be made to.
  PluginMaker plugin;
};

/// A context of kubeconfig files. In this order: the file `path` alone, if it is not empty; the
/// files that KUBECONFIG lists, of which some may be missing; ~/.kube/config, if `options` say so;
/// and where there is no file, the service account of the pod.
///
/// The user's credentials are a token, a token file, a client certificate (as data or as a file,
/// which is read for each connection), what a plugin makes if there is none of these, or none. Over
/// http:// none are used. The cluster's proxy-url is used, else that of the environment. `timing`
/// must outlive the credentials.
///
/// Errors: those of ChooseContext, InClusterConfig and the PluginMaker; kNotFound, `path` or a file
/// that an entry names does not exist; kInvalidArgument, the proxy is not http://.
Result<Config> FindConfig(const std::string& path, const KubeconfigOptions& options,
                          const Environment& environment, Timing& timing);

}  // namespace swarm::kube
