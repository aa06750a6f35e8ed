// Whether a pod that shows a token of its API server becomes the worker that it asks to be.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "operator/plan/observed.h"

namespace swarm::plan {

/// What the pod asks for, in words that anyone can send.
struct ProofAsked {
  std::string job_uid;
  std::string cluster;  ///< empty: the job's own
  std::string worker;   ///< the id
};

/// What the API server of that cluster says of the token: a TokenReview's status.
struct TokenReviewed {
  bool authenticated = false;
  std::string error;                ///< why it is not, where the server says so
  std::set<std::string> audiences;  ///< of those that it was asked for, the token's
  std::string user;                 ///< "system:serviceaccount:NS:NAME"
  std::string pod, pod_uid;         ///< to which the token is bound; empty: to none
};

/// A job as home's operator knows it.
struct ProvingJob {
  std::string uid;
  std::string ns;
  std::vector<ObservedPod> pods;  ///< in all clusters
};

/// The pod that may ask at all: the job's worker of this id, in this cluster, that proves itself
/// and goes on. Errors: kNotFound (there is none, or home has not seen it yet), kPermissionDenied
/// (it ends, or has its certificate from a Secret).
Result<ObservedPod> FindProver(const ProofAsked& asked, const ProvingJob& job);

/// Whether the pod of FindProver gets its certificate. `audience` is that of the job. Errors:
/// kUnauthenticated (the API server does not know the token, or it is for others),
/// kPermissionDenied (it is another pod's).
Status JudgeProof(const ProofAsked& asked, const ProvingJob& job, const TokenReviewed& reviewed,
                  const std::string& audience);

}  // namespace swarm::plan
