// Where the API server is and who we are to it: from the pod we run in, or from a kubeconfig file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/transport/proxy.h"
#include "operator/kube/transport/timing.h"
#include "operator/kube/transport/tls.h"

namespace swarm::kube {

struct Config {
  std::string server;  ///< https://host:port, perhaps with a path
  std::string ns;      ///< ours: the pod's, or that of the context
  std::shared_ptr<Credentials> credentials;
  TlsSource tls;
  std::string proxy;  ///< URL; empty: none
};

inline constexpr const char* kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";

/// The service account of the pod: token, ca.crt and namespace in `folder`, the address in
/// KUBERNETES_SERVICE_HOST and _PORT. There is never a proxy within the cluster. `timing` must
/// outlive the credentials.
///
/// Errors: kFailedPrecondition if we are in no pod; kUnavailable, kNotFound for files that are not
/// there.
Result<Config> InClusterConfig(const std::filesystem::path& folder, const Environment& environment,
                               Timing& timing);

struct KubeconfigOptions {
  std::string context;  ///< empty: the current one
  /// Obey insecure-skip-tls-verify. Without this, such a file is refused.
  bool allow_insecure = false;
};

/// The context of a kubeconfig file: token, token file, client certificate (as data or as a file,
/// which are read anew for each connection), or nothing.
///
/// Errors: kNotFound; kInvalidArgument, naming the place, for what is no kubeconfig, for passwords,
/// and for plugins (exec, auth-provider), which are not run: make a token for a service account.
Result<Config> KubeconfigFile(const std::filesystem::path& path, const KubeconfigOptions& options,
                              const Environment& environment, Timing& timing);

/// `path` if given, else the file that KUBECONFIG names, else the pod's service account.
Result<Config> FindConfig(const std::string& path, const KubeconfigOptions& options,
                          const Environment& environment, Timing& timing);

}  // namespace swarm::kube
