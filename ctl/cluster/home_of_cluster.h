// What who makes tokens needs of the operator of a cluster: where it is reached, and whom those who
// dial it trust. Waits for what comes by itself after the chart was installed.
#pragma once

#include <cstdio>
#include <string>

#include "base/time.h"
#include "operator/kube/client/client.h"

namespace swarm::ctl {

/// An address by which home is reached from outside, as HomeAddress: a cloud gives it a minute
/// after the Service. `ns` is the namespace of the operator. Errors: kFailedPrecondition (no
/// operator there expects anybody), those of the client.
Result<std::string> AwaitHomeAddress(kube::Client& client, const std::string& ns, std::FILE* err);

/// An object that home's operator makes when it first leads. Errors: as AwaitHomeAddress.
Result<kube::Object> AwaitFromHome(kube::Client& client, const kube::Resource& resource,
                                   const kube::ObjectName& name, std::FILE* err);

/// Says that no operator in this namespace is home.
Status NobodyExpects(const std::string& ns);

}  // namespace swarm::ctl
