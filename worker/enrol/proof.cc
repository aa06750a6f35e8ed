#include "worker/enrol/proof.h"

namespace swarm::enrol {

Result<std::optional<ProofPlace>> ReadProofPlace(
    const std::function<std::string(const char* name)>& variable) {
  ProofPlace place;
  std::string missing;
  bool any = false;
  for (const auto& [name, field] : {std::pair(kProofHomeVariable, &place.home),
                                    std::pair(kProofFingerprintVariable, &place.fingerprint),
                                    std::pair(kProofClusterVariable, &place.cluster),
                                    std::pair(kProofTokenVariable, &place.token_file)}) {
    *field = variable(name);
    any = any || !field->empty();
    if (field->empty()) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (!any) return std::optional<ProofPlace>();
  if (missing.empty()) return std::optional(std::move(place));
  return InvalidArgument("the environment lacks " + missing +
                         "; the operator sets it for a pod that proves which one it is");
}

std::string ProofAudience(const std::string& job_uid) { return kProofAudiencePrefix + job_uid; }

}  // namespace swarm::enrol
