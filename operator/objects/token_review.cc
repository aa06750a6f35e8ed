#include "operator/objects/token_review.h"

#include <nlohmann/json.hpp>

#include "worker/enrol/proof.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

constexpr const char* kReviewVersion = "authentication.k8s.io/v1";
constexpr const char* kReviewKind = "TokenReview";

/// Null: there is nothing at the place.
const json& PartOf(const json& object, const char* pointer) {
  static const json nothing;
  const json::json_pointer place(pointer);
  return object.is_structured() && object.contains(place) ? object.at(place) : nothing;
}

std::string ReviewText(const json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

/// Of a user's extra, which has a list for each key.
std::string ExtraOf(const json& object, const char* key) {
  const json& extra = PartOf(object, "/status/user/extra");
  if (!extra.is_object() || !extra.contains(key)) return "";
  const json& values = extra.at(key);
  return values.is_array() && values.size() == 1 ? ReviewText(values[0]) : "";
}

}  // namespace

json BuildTokenReview(const std::string& token, const std::string& audience) {
  return {{"apiVersion", kReviewVersion},
          {"kind", kReviewKind},
          {"spec", {{"token", token}, {"audiences", json::array({audience})}}}};
}

bool IsReviewOfProof(const json& object) {
  const std::string token = ReviewText(PartOf(object, "/spec/token"));
  const std::string audience = ReviewText(PartOf(object, "/spec/audiences/0"));
  return !token.empty() && audience.starts_with(enrol::kProofAudiencePrefix) &&
         object == BuildTokenReview(token, audience);
}

plan::TokenReviewed ReadTokenReview(const json& object) {
  plan::TokenReviewed reviewed;
  reviewed.authenticated = PartOf(object, "/status/authenticated") == true;
  reviewed.error = ReviewText(PartOf(object, "/status/error"));
  if (const json& audiences = PartOf(object, "/status/audiences"); audiences.is_array()) {
    for (const json& each : audiences) reviewed.audiences.insert(ReviewText(each));
  }
  reviewed.user = ReviewText(PartOf(object, "/status/user/username"));
  reviewed.pod = ExtraOf(object, "authentication.kubernetes.io/pod-name");
  reviewed.pod_uid = ExtraOf(object, "authentication.kubernetes.io/pod-uid");
  return reviewed;
}

}  // namespace swarm::objects
