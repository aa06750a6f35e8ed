// What the structs of api/ look like, as structural schemas of Kubernetes (OpenAPI v3): types,
// defaults, enumerations, required fields; unsigned numbers have the minimum 0, and what is kept as
// RawJson is {x-kubernetes-preserve-unknown-fields: true}. A test holds the schema of the
// CustomResourceDefinition to it, so that no field stands in one of them only.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace swarm::api {

nlohmann::json SpecSchema();
/// A status has no defaults: the operator writes all of it.
nlohmann::json StatusSchema();

}  // namespace swarm::api
