#include "operator/plan/proof.h"

#include <algorithm>

namespace swarm::plan {
namespace {

std::string In(const std::string& cluster) {
  return cluster.empty() ? "" : " in the cluster " + cluster;
}

}  // namespace

Result<ObservedPod> FindProver(const ProofAsked& asked, const ProvingJob& job) {
  const auto found = std::ranges::find_if(job.pods, [&](const ObservedPod& pod) {
    return pod.name == asked.worker && pod.cluster == asked.cluster && pod.role == PodRole::kWorker;
  });
  if (asked.job_uid != job.uid || found == job.pods.end()) {
    return NotFound("home knows no worker " + asked.worker + " of the job " + asked.job_uid +
                    In(asked.cluster) + "; one that was just made is known soon");
  }
  if (!found->proves_itself) {
    return PermissionDenied("the pod " + asked.worker + " has its certificate from a Secret");
  }
  if (found->deleted || HasEnded(*found)) {
    return PermissionDenied("the pod " + asked.worker + " is told to end, or has ended");
  }
  return *found;
}

Status JudgeProof(const ProofAsked& asked, const ProvingJob& job, const TokenReviewed& reviewed,
                  const std::string& audience) {
  ASSIGN_OR_RETURN(const ObservedPod pod, FindProver(asked, job));
  if (!reviewed.authenticated) {
    return Status(StatusCode::kUnauthenticated,
                  "the API server does not accept the token" +
                      (reviewed.error.empty() ? "" : ": " + reviewed.error));
  }
  if (!reviewed.audiences.contains(audience)) {
    return Status(StatusCode::kUnauthenticated, "the token is not for " + audience);
  }
  if (reviewed.pod_uid.empty()) {
    return PermissionDenied("the token is bound to no pod");
  }
  // A name may be used again, a UID is not.
  if (reviewed.pod != pod.name || reviewed.pod_uid != pod.uid) {
    return PermissionDenied("the token is that of the pod " + reviewed.pod + " with the UID " +
                            reviewed.pod_uid + ", which is not " + asked.worker);
  }
  if (!reviewed.user.starts_with("system:serviceaccount:" + job.ns + ":")) {
    return PermissionDenied("the token is of " + reviewed.user +
                            ", which is not in the namespace " + job.ns);
  }
  return Status();
}

}  // namespace swarm::plan
