// What home may ask the API server of a satellite's cluster. The satellite judges each request
// before it carries it out with its own rights, which are no wider. Pure.
#pragma once

#include <set>
#include <string>

#include "base/status.h"
#include "operator/kube/transport/http.h"

namespace swarm::satellite {

/// Whether the request is one that home needs: to read nodes; to read, create and delete pods; to
/// read, create and change the other objects of an outpost (operator/objects/outpost.h), of
/// Secrets only those with the pair of a pod; and to have tokens judged that are for a job of
/// home's (objects::IsReviewOfProof). `namespaces` are those of the satellite; empty: all. Errors:
/// kPermissionDenied, naming what was asked for.
Status CheckRequest(const kube::HttpRequest& request, const std::set<std::string>& namespaces);

}  // namespace swarm::satellite
