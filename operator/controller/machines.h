// Machines that join jobs with tokens: looks their tokens up, and lists them in the status of their
// job, by operator/machines.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "operator/controller/clusters.h"
#include "operator/controller/job_secrets.h"
#include "operator/controller/turns.h"
#include "operator/kube/leader/events.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/watch/store.h"
#include "operator/machines/account.h"
#include "operator/machines/desk.h"
#include "operator/objects/job_view.h"
#include "worker/enrol/failures.h"

namespace swarm::controller {

/// Thread-safe.
class Machines final : public machines::Desk {
 public:
  struct Parts {
    kube::Client& client;
    const kube::Store& jobs;
    const Clusters& clusters;  ///< their gateways
    const JobSecrets& secrets;
    kube::EventRecorder& events;
    kube::Timing& timing;
  };
  /// `parts` outlive this.
  explicit Machines(const Parts& parts) : parts_(parts) {}

  // machines::Desk
  void Enrol(const enrol::Caller& caller, const enrol::EnrolRequest& request,
             enrol::Enrolled done) override;
  void Refresh(const machines::Seat& seat, const std::string& request,
               enrol::Refreshed done) override;

  /// Puts out the machines that were revoked, or whose certificate has ended long ago. Call it
  /// every few seconds, from one thread; a job's tokens are read every ten, as long as it has
  /// machines.
  void Tend();

 private:
  /// Judges the status of a job, and changes it.
  using Change = std::function<Status(const objects::JobView& view, api::SwarmJobStatus* status)>;

  /// Waits for the API server.
  Result<enrol::EnrolReply> Admit(const enrol::Caller& caller, const enrol::EnrolRequest& request);
  Result<enrol::RefreshReply> Renew(const machines::Seat& seat, const std::string& request);
  /// The job of this UID, as the cache has it. Errors: kNotFound.
  Result<kube::Object> Find(const std::string& uid) const;
  /// The tokens of the job. Errors: those of the client; kUnauthenticated (it has none of its own).
  Result<machines::Account> ReadAccount(const nlohmann::json& job) const;
  /// Writes the status of the job as `change` makes it, begins again if another client has written
  /// the job meanwhile, and returns the job. Errors: those of `change` and of the client.
  Result<kube::Object> ChangeStatus(const kube::ObjectName& name, const std::string& uid,
                                    const Change& change) const;
  Status PutOut(const nlohmann::json& job);
  void Tell(const nlohmann::json& job, const std::string& reason, const std::string& message);

  const Parts parts_;
  std::mutex mutex_;
  enrol::Failures failures_{enrol::FailureLimits()};  // guarded
  std::map<std::string, Timepoint> next_look_;        // of Tend; by UID
  Turns turns_;                                       // last: its threads use the others
};

}  // namespace swarm::controller
