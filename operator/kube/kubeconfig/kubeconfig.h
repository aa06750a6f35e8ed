// What kubeconfig files say: several are read as one, and a context is chosen. Pure: it gets the
// texts of the files, and the paths in them stay names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace swarm::kube {

/// A kubeconfig file.
struct KubeconfigText {
  std::string path;  ///< relative paths in the text count from its folder
  std::string text;  ///< YAML or JSON
};

/// PEM, or the file that has it. Empty: neither is given.
struct PemPlace {
  std::string text;
  std::string file;  ///< counts if `text` is empty

  bool empty() const { return text.empty() && file.empty(); }
  bool operator==(const PemPlace&) const = default;
};

/// A program that makes the credentials of a user (`exec`), as the file describes it.
struct ExecPlugin {
  std::string api_version;  ///< of client.authentication.k8s.io
  std::string command;      ///< a path, or a name without '/' that is looked for in PATH
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< in addition to that of this process
  std::string interactive_mode;                    ///< empty: the file does not say
  std::string install_hint;                        ///< how to get the program; may be empty
  bool wants_cluster = false;  ///< provideClusterInfo: the program is told of the cluster
};

/// An API server, and the way to it.
struct KubeCluster {
  std::string server;           ///< https:// or http:// URL, without a slash at its end
  std::string tls_server_name;  ///< the name in its certificate; empty: the host of `server`
  std::string proxy;            ///< URL; empty: the environment decides
  PemPlace authority;           ///< empty: the authorities of this machine
  bool insecure = false;        ///< do not verify the server
  std::string plugin_config;    ///< JSON that a plugin is told with the cluster; empty: none
};

/// What proves the identity of a user. All may be empty.
struct KubeUser {
  std::string token;
  std::string token_file;
  PemPlace certificate, key;  ///< both or none
  std::optional<ExecPlugin> plugin;
};

struct KubeContext {
  std::string ns;  ///< "default" if the context has none
  KubeCluster cluster;
  KubeUser user;
};

/// The context with that name, or the current one if the name is empty. The files are read as
/// kubectl does: the first file that has a context, cluster or user of some name decides about it
/// alone, entries are never mixed, and the first file with a current-context decides about that.
///
/// Errors: kInvalidArgument, with the file: a text is no kubeconfig; there is no such context,
/// cluster or user; an entry is malformed; a user has a password, an auth-provider, or acts as
/// another (`as`), which are not supported.
Result<KubeContext> ChooseContext(const std::vector<KubeconfigText>& files,
                                  const std::string& context);

}  // namespace swarm::kube
