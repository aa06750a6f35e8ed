// The question to an API server whose token one is. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/plan/proof.h"

namespace swarm::objects {

/// A TokenReview of this token for this audience alone.
nlohmann::json BuildTokenReview(const std::string& token, const std::string& audience);

/// Whether an object is one of BuildTokenReview's, for an audience of a job: it asks for no other
/// token to be judged than those of pods that prove themselves. Never throws.
bool IsReviewOfProof(const nlohmann::json& object);

/// The answer. It is untrusted: a field of the wrong type counts as absent. Never throws.
plan::TokenReviewed ReadTokenReview(const nlohmann::json& object);

}  // namespace swarm::objects
