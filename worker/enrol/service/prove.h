// The service Proofs at home's operator (proto/swarmjob/v1/proof.proto), for the server that has
// it.
#pragma once

#include <functional>
#include <string>

#include "worker/enrol/service/messages.h"

namespace swarm::enrol {

inline constexpr const char* kProveMethod = "/swarmjob.v1.Proofs/Prove";

/// Takes the outcome of one question. Is called once, on any thread.
using Proved = std::function<void(Result<ProveReply> reply)>;

/// Judges a pod's proof, and signs. Is called on threads of gRPC, several at a time, and returns
/// without waiting for an API server; `done` is called then or later. Errors: kUnauthenticated and
/// kPermissionDenied (the proof shows something else, and why), kNotFound (home does not know such
/// a pod, maybe not yet), kResourceExhausted (try again later), kUnavailable (the pod's cluster
/// cannot be asked).
using Prove = std::function<void(const Caller& caller, const ProveRequest& request, Proved done)>;

/// Gives `done` the encoded reply to an encoded request.
void AnswerProve(const Prove& prove, const Caller& caller, const std::string& text,
                 std::function<void(Result<std::string> answer)> done);

}  // namespace swarm::enrol
