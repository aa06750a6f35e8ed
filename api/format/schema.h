// The structs of api/ as structural schemas of Kubernetes (OpenAPI v3): types, defaults,
// enumerations, required fields. Unsigned numbers have the minimum 0, and RawJson becomes
// {x-kubernetes-preserve-unknown-fields: true}. crds/crd_test.cc compares these schemas with the
// CustomResourceDefinition, so that both have the same fields.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace swarm::api {

nlohmann::json SpecSchema();
/// A status has no defaults, because the operator writes all of it.
nlohmann::json StatusSchema();

}  // namespace swarm::api
