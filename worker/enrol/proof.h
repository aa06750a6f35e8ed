// How a pod becomes the worker that it is without a secret that anyone has given it: it shows home
// a token of its own API server, which says which pod has it. Pure.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"

namespace swarm::enrol {

/// Where a pod proves which one it is. It is told by its environment: programs that do not know
/// this pass over it.
struct ProofPlace {
  std::string home;         ///< host:port
  std::string fingerprint;  ///< of the authority that has signed home's certificate
  std::string cluster;      ///< home's name for the pod's cluster
  std::string token_file;   ///< the kubelet replaces it before the token ends
  bool operator==(const ProofPlace&) const = default;
};

inline constexpr const char* kProofHomeVariable = "SWARM_PROOF_HOME";
inline constexpr const char* kProofFingerprintVariable = "SWARM_PROOF_FINGERPRINT";
inline constexpr const char* kProofClusterVariable = "SWARM_PROOF_CLUSTER";
inline constexpr const char* kProofTokenVariable = "SWARM_PROOF_TOKEN_FILE";

/// None: the pod has its certificate from elsewhere. `variable` returns a variable's text; empty:
/// it is not set. Errors: kInvalidArgument, some of the variables are missing.
Result<std::optional<ProofPlace>> ReadProofPlace(
    const std::function<std::string(const char* name)>& variable);

/// How long a pod's certificate is valid.
inline constexpr std::chrono::seconds kProofValidity = std::chrono::hours(1);
/// How long a pod's token is valid: the least that Kubernetes allows.
inline constexpr std::chrono::seconds kProofTokenValidity = std::chrono::minutes(10);
/// No token is longer.
inline constexpr std::size_t kProofTokenBytesMax = 16 << 10;

/// Begins the audience of each token with which a pod of a job proves itself.
inline constexpr const char* kProofAudiencePrefix = "swarmjob.dev/enrol/";
/// The audience of those of one job: no other program takes them for its own.
std::string ProofAudience(const std::string& job_uid);

}  // namespace swarm::enrol
