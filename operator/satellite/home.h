// Home's side of the satellites: its authority and its account, which are in a Secret, and who is
// let in.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/identity/authority.h"
#include "operator/kube/client/client.h"
#include "operator/kube/timing/timing.h"
#include "operator/machines/desk.h"
#include "operator/satellite/account_secret.h"
#include "operator/satellite/wire/home_door.h"
#include "worker/enrol/proof.h"

namespace swarm::satellite {

class Home final : public Reception, public enrol::JoinDesk {
 public:
  struct Options {
    std::string listen;       ///< host:port for satellites
    kube::ObjectName secret;  ///< of the authority and the account; is made if it does not exist
    std::uint64_t leader_term = 0;
    enrol::Prove prove = nullptr;        ///< judges the proofs of pods; null: there are none
    machines::Desk* machines = nullptr;  ///< lets machines join jobs; null: none may. Outlives home
    /// host:port at which the pods of the jobs' own cluster prove which ones they are; empty: they
    /// do not.
    std::string proof_home;
  };
  /// As Reception::OnCluster.
  using ClusterCame =
      std::function<void(const std::string& cluster, std::shared_ptr<kube::HttpTransport> transport,
                         std::function<bool()> reachable)>;

  /// Begins to serve. The references outlive this.
  /// Errors: those of the client; kFailedPrecondition (the Secret has no authority); kUnavailable
  /// (the port is taken).
  static Result<std::unique_ptr<Home>> Open(const Options& options, kube::Client& client,
                                            kube::Timing& timing, ClusterCame on_cluster);

  /// Tells all satellites which jobs exist, sends those away that were revoked, and keeps in the
  /// account which are connected. Call it every few seconds. Errors: those of the client.
  Status Tend(const std::set<std::string>& job_uids);
  const std::string& address() const { return door_->address(); }
  /// Where the pods of this cluster, maybe kHomeCluster, prove which ones they are, without their
  /// token file. None: they do not, or their satellite is not connected.
  std::optional<enrol::ProofPlace> ProofPlaceOf(const std::string& cluster) const;
  /// The clusters whose satellite is connected, with host:port of their gateways (empty: none).
  std::map<std::string, std::string> Connected() const;

 private:
  Home(const Options& options, kube::Client& client, kube::Timing& timing,
       identity::JobAuthority authority, std::string fingerprint, ClusterCame on_cluster)
      : secret_(options.secret),
        proof_home_(options.proof_home),
        client_(client),
        timing_(timing),
        authority_(std::move(authority)),
        fingerprint_(std::move(fingerprint)),
        on_cluster_(std::move(on_cluster)),
        machines_(options.machines),
        opened_(timing.Now()) {}

  // Reception
  Result<EnrolReply> Enrol(const Caller& caller, const EnrolRequest& request) override;
  Result<EnrolReply> Renew(const Caller& caller, const std::string& request) override;
  Result<std::string> ClusterOf(const Caller& caller) override;
  void OnCluster(const std::string& cluster, std::shared_ptr<kube::HttpTransport> transport,
                 std::function<bool()> reachable) override {
    on_cluster_(cluster, std::move(transport), std::move(reachable));
  }

  // enrol::JoinDesk
  void Enrol(const Caller& caller, const EnrolRequest& request, enrol::Enrolled done) override;
  void Refresh(const Caller& caller, const std::string& request, enrol::Refreshed done) override;

  /// Publishes the authority's certificate, by which those who make tokens tell machines whom to
  /// trust.
  Status Publish();
  /// A certificate with which a machine calls home.
  Result<std::string> SignFor(const machines::Seat& seat, const std::string& request) const;
  Result<EnrolReply> Sign(const std::string& seat, const std::string& request) const;
  /// What the caller's certificate says behind the identity of satellites (SeatOf).
  Result<std::string> SeatNamedBy(const Caller& caller) const;
  /// Whoever reaches the address may try tokens, and each try costs requests to the API server,
  /// which the jobs need. Errors: kResourceExhausted (too many within a second).
  Status AdmitTry();

  const kube::ObjectName secret_;
  const std::string proof_home_;  // of the jobs' own cluster
  kube::Client& client_;
  kube::Timing& timing_;
  const identity::JobAuthority authority_;
  const std::string fingerprint_;  // of the authority
  const ClusterCame on_cluster_;
  machines::Desk* const machines_;
  const Timepoint opened_;
  std::set<std::string> seen_;  // clusters, by Tend
  std::mutex mutex_;
  std::deque<Timepoint> tries_;     // guarded: of tokens, within the last second
  std::unique_ptr<HomeDoor> door_;  // last: calls the others
};

}  // namespace swarm::satellite
