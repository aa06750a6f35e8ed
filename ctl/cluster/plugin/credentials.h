// The credentials that a plugin of the kubeconfig makes. swarmctl alone runs plugins: the operator
// does not include this folder.
#pragma once

#include <chrono>
#include <stop_token>

#include "base/time.h"
#include "operator/kube/config/config.h"
#include "operator/kube/timing/timing.h"

namespace swarm::ctl {

struct PluginOptions {
  /// How long one run may take. A user may have to log in meanwhile.
  Duration patience = std::chrono::minutes(3);
  std::stop_token stop;  ///< ends a run
};

/// Makes credentials that run the plugin at the first Authorization, when the credential has ended
/// by this machine's wall clock, as kubectl does it, and after a refusal by the server. What a run
/// says on its standard error is on ours. Errors of Authorization name the program, and repeat the
/// kubeconfig's installHint if there is none. `timing` must outlive the credentials.
kube::PluginMaker RunPlugins(const PluginOptions& options, kube::Timing& timing);

}  // namespace swarm::ctl
