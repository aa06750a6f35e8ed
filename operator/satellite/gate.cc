#include "operator/satellite/gate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "operator/names/names.h"
#include "operator/objects/token_review.h"

namespace swarm::satellite {
namespace {

/// A request, taken apart.
struct Asked {
  std::string collection;  ///< group, version and plural: "v1/pods", "policy/v1/…"
  std::string ns;
  std::string name;
};

std::vector<std::string> Split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

/// "/api/v1/namespaces/NS/pods/NAME", "/apis/GROUP/VERSION/namespaces/NS/PLURAL", "/api/v1/nodes".
/// Any other path is refused, with subresources or escaped characters too.
Result<Asked> TakeApart(const std::string& target) {
  const std::string path = target.substr(0, target.find('?'));
  const Status strange(StatusCode::kPermissionDenied, "home has no use for the path " + path);
  const bool plain = std::ranges::all_of(path, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '-' ||
           each == '.' || each == '/';
  });
  std::vector<std::string> parts = Split(path);
  if (!plain || parts.size() < 2 || !parts[0].empty() ||
      std::ranges::any_of(parts.begin() + 1, parts.end(), [](const std::string& part) {
        return part.empty() || part == "." || part == "..";
      })) {
    return strange;
  }
  const std::size_t group = parts[1] == "apis" ? 2 : parts[1] == "api" ? 1 : 0;
  if (group == 0 || parts.size() < 3 + group) return strange;
  Asked asked;
  for (std::size_t i = 0; i < group; ++i) asked.collection += parts[2 + i] + "/";
  parts.erase(parts.begin(), parts.begin() + 2 + static_cast<std::ptrdiff_t>(group));
  if (parts.size() >= 3 && parts[0] == "namespaces") {
    asked.ns = parts[1];
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  if (parts.size() > 2) return strange;
  asked.collection += parts[0];
  if (parts.size() == 2) asked.name = parts[1];
  return asked;
}

/// The name of an object that is created; empty: there is none.
std::string NameIn(const std::string& body) {
  const auto object = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer place("/metadata/name");
  const bool named = object.is_object() && object.contains(place) && object[place].is_string();
  return named ? object[place].get<std::string>() : "";
}

/// Whether a Secret of this name is that of a worker's pod: JOB-w7-identity.
bool IsIdentityOfWorker(std::string_view name) {
  const std::string end = names::IdentitySecretName("");
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  const std::size_t mark = name.rfind("-w");
  return mark != name.npos && mark > 0 && names::ParseNumber(name.substr(mark + 2)).has_value();
}

}  // namespace

Status CheckRequest(const kube::HttpRequest& request, const std::set<std::string>& namespaces) {
  ASSIGN_OR_RETURN(const Asked asked, TakeApart(request.target));
  const Status refused(StatusCode::kPermissionDenied,
                       "home may not " + request.method + " " + asked.collection +
                           (asked.name.empty() ? "" : " " + asked.name) +
                           (asked.ns.empty() ? "" : " in the namespace " + asked.ns));
  const bool reads = request.method == "GET";
  if (asked.collection == "v1/nodes") return reads && asked.ns.empty() ? Status() : refused;
  if (asked.collection == "authentication.k8s.io/v1/tokenreviews") {
    const bool asks = request.method == "POST" && asked.name.empty() && asked.ns.empty();
    const auto body = nlohmann::json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    return asks && objects::IsReviewOfProof(body) ? Status() : refused;
  }
  const bool in_scope = namespaces.empty() || namespaces.contains(asked.ns);
  if (!in_scope) return refused;
  if (asked.collection == "v1/pods") {
    const bool creates = request.method == "POST" && asked.name.empty();
    const bool deletes = request.method == "DELETE" && !asked.name.empty();
    return reads || ((creates || deletes) && !asked.ns.empty()) ? Status() : refused;
  }
  const bool creates = request.method == "POST" && asked.name.empty();
  const bool changes = request.method == "PATCH" && !asked.name.empty();
  const bool one = !asked.ns.empty() && (creates || (!asked.name.empty() && (reads || changes)));
  if (!one) return refused;
  const std::string name = creates ? NameIn(request.body) : asked.name;
  if (asked.collection == "v1/secrets") return IsIdentityOfWorker(name) ? Status() : refused;
  if (asked.collection == "v1/configmaps") {
    return name.ends_with(names::OutpostName("")) ? Status() : refused;
  }
  if (asked.collection == "policy/v1/poddisruptionbudgets") {
    return name.ends_with(names::DisruptionBudgetName("")) ? Status() : refused;
  }
  const bool of_outposts = asked.collection == "v1/services" ||
                           asked.collection == "discovery.k8s.io/v1/endpointslices" ||
                           asked.collection == "networking.k8s.io/v1/networkpolicies";
  return of_outposts ? Status() : refused;
}

}  // namespace swarm::satellite
