// The address of the API server and the credentials for it: from the pod of this process, or from a
// kubeconfig file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/transport/proxy.h"
#include "operator/kube/transport/tls.h"

namespace swarm::kube {

struct Config {
  std::string server;  ///< https://host:port, perhaps with a path
  std::string ns;      ///< the namespace of the pod, or of the context
  std::shared_ptr<Credentials> credentials;
  TlsSource tls;
  std::string proxy;  ///< URL; empty: none
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

struct KubeconfigOptions {
  std::string context;  ///< empty: the current context
  /// Obey insecure-skip-tls-verify. Without this flag, a file with it is refused.
  bool allow_insecure = false;
};

/// A context of a kubeconfig file. Supported credentials are a token, a token file, a client
/// certificate (as data or as a file, which is read for each connection), or none.
///
/// Errors: kNotFound; kInvalidArgument, the file is not a kubeconfig, or it uses a password or a
/// plugin (exec, auth-provider). Plugins are not run: use the token of a service account.
Result<Config> KubeconfigFile(const std::filesystem::path& path, const KubeconfigOptions& options,
                              const Environment& environment, Timing& timing);

/// Uses the file `path` if it is not empty, or the file in KUBECONFIG, or the service account of
/// the pod, in this order.
Result<Config> FindConfig(const std::string& path, const KubeconfigOptions& options,
                          const Environment& environment, Timing& timing);

}  // namespace swarm::kube
