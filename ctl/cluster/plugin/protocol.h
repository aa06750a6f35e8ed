// What a credential plugin of a kubeconfig is told, and what it answers:
// client.authentication.k8s.io in the versions v1 and v1beta1, which the programs of EKS, GKE and
// AKS speak. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/format/wall_time.h"
#include "base/status.h"
#include "operator/kube/kubeconfig/kubeconfig.h"

namespace swarm::ctl {

/// Whether the plugin reads standard input. `terminal`: standard input is one.
///
/// Errors, with what to do: kInvalidArgument, another version of the protocol, a mode that is
/// unknown, or none in v1; kFailedPrecondition, the plugin must ask its user, and there is no
/// terminal.
Result<bool> ReadsInput(const kube::ExecPlugin& plugin, bool terminal);

/// The value of KUBERNETES_EXEC_INFO. `authority` is the PEM of the cluster's; it may be empty.
std::string ExecInfo(const kube::ExecPlugin& plugin, const kube::KubeCluster& cluster,
                     const std::string& authority, bool reads_input);

/// The answer of a plugin.
struct PluginCredential {
  std::string token;                     ///< empty: none
  std::string certificate, key;          ///< PEM; both or none
  std::optional<api::WallTime> expires;  ///< none: when the server refuses it
};

/// Reads the standard output of a plugin. Errors: kInvalidArgument, without a word of the output,
/// which has secrets.
Result<PluginCredential> ReadCredential(std::string_view output, const std::string& api_version);

}  // namespace swarm::ctl
