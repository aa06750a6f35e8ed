// The service Proofs at home's operator (proto/swarmjob/v1/proof.proto), for the server that has
// it.
#pragma once

#include <functional>
#include <string>

#include "worker/enrol/service/messages.h"

namespace swarm::enrol {

inline constexpr const char* kProveMethod = "/swarmjob.v1.Proofs/Prove";

/// Judges a pod's proof, and signs. Runs on threads of gRPC, several at a time; may wait for the
/// API servers. Errors: kUnauthenticated and kPermissionDenied (the proof shows something else, and
/// why), kNotFound (home does not know such a pod, maybe not yet), kResourceExhausted (try again
/// later), kUnavailable (the pod's cluster cannot be asked).
using Prove = std::function<Result<ProveReply>(const Caller& caller, const ProveRequest& request)>;

/// The encoded reply to an encoded request.
Result<std::string> AnswerProve(const Prove& prove, const Caller& caller, const std::string& text);

}  // namespace swarm::enrol
