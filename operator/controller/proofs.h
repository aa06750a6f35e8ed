// Signs certificates for pods that prove which ones they are: asks the API server of a pod's
// cluster whose the token is, and decides by plan::JudgeProof.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "operator/controller/clusters.h"
#include "operator/controller/job_secrets.h"
#include "operator/kube/leader/events.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/watch/store.h"
#include "operator/plan/proof.h"
#include "worker/enrol/failures.h"
#include "worker/enrol/service/messages.h"

namespace swarm::controller {

/// Thread-safe.
class Proofs {
 public:
  struct Parts {
    const kube::Store& jobs;
    const Clusters& clusters;
    const JobSecrets& secrets;
    kube::EventRecorder& events;
    kube::Timing& timing;
  };
  /// `parts` outlive this.
  explicit Proofs(const Parts& parts) : parts_(parts) {}

  /// As enrol::Prove. Waits for the API server of the pod's cluster.
  Result<enrol::ProveReply> Prove(const enrol::Caller& caller, const enrol::ProveRequest& request);

 private:
  /// A request that home may ask an API server about.
  struct Question {
    kube::Object job;
    plan::ProvingJob proving;
    plan::ProofAsked asked;
    Cluster* cluster = nullptr;
  };
  Result<Question> Look(const enrol::ProveRequest& request) const;
  Result<plan::TokenReviewed> Review(const Question& question, const std::string& token);
  Status Refuse(const Question& question, const std::string& source, const Status& why);

  const Parts parts_;
  std::mutex mutex_;
  enrol::Failures failures_{enrol::FailureLimits()};  // guarded
  std::size_t reviews_ = 0;                           // guarded: that are under way
};

}  // namespace swarm::controller
