// Signs certificates for pods that prove which ones they are: asks the API server of a pod's
// cluster, which may be the jobs' own, whose the token is, and decides by plan::JudgeProof.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "operator/controller/clusters.h"
#include "operator/controller/job_secrets.h"
#include "operator/controller/turns.h"
#include "operator/kube/leader/events.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/watch/store.h"
#include "operator/plan/proof.h"
#include "worker/enrol/failures.h"
#include "worker/enrol/service/prove.h"

namespace swarm::controller {

/// Thread-safe.
class Proofs {
 public:
  struct Parts {
    kube::Client& client;     ///< of the jobs' own cluster
    const kube::Store& pods;  ///< there, with the index kPodsByJob
    const kube::Store& jobs;
    const Clusters& clusters;
    const JobSecrets& secrets;
    kube::EventRecorder& events;
    kube::Timing& timing;
  };
  /// `parts` outlive this.
  explicit Proofs(const Parts& parts) : parts_(parts) {}

  /// As enrol::Prove. Several pods of a cluster are judged at once, the others in the order in
  /// which they have come; no cluster waits for another.
  void Prove(const enrol::Caller& caller, const enrol::ProveRequest& request, enrol::Proved done);

 private:
  struct Asking {
    enrol::Caller caller;
    enrol::ProveRequest request;
    /// Many pods may share one address, that of a router: one that fails does not stop the others.
    std::string source;
  };
  /// A request that home may ask an API server about.
  struct Question {
    kube::Object job;
    plan::ProvingJob proving;
    plan::ProofAsked asked;
    Cluster* cluster = nullptr;  ///< null: the jobs' own
  };
  /// Whether the pod may ask at all, as home knows it now.
  Result<Question> Consider(const Asking& asking);
  Result<Question> Look(const enrol::ProveRequest& request) const;
  /// Waits for the API server of the pod's cluster.
  Result<enrol::ProveReply> Judge(const Asking& asking);
  Result<plan::TokenReviewed> Review(const Question& question, const std::string& token);
  Status Refuse(const Question& question, const std::string& source, const Status& why);

  const Parts parts_;
  std::mutex mutex_;
  enrol::Failures failures_{enrol::FailureLimits()};  // guarded
  std::set<std::string> asking_;                      // guarded: sources that wait for an answer
  Turns turns_;                                       // last: its threads use the others
};

}  // namespace swarm::controller
