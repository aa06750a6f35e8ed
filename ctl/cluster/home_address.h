// Where the operators of other clusters reach the one here, by what its Services say. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "operator/kube/object/object.h"

namespace swarm::ctl {

/// host:port of the load balancer before the operator, if one of the `services` of its namespace is
/// for satellites. Errors: kNotFound (none is), kUnavailable (the load balancer has no address
/// yet), kFailedPrecondition (it has no load balancer, so nobody here knows the address).
Result<std::string> HomeAddress(const std::vector<kube::Object>& services);

}  // namespace swarm::ctl
