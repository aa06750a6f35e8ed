// The two Secrets of each job. They are read once, and then changed when a change is due. The
// private keys of pods are not kept in memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/controller/identities.h"
#include "operator/kube/client/client.h"

namespace swarm::controller {

/// What the operator keeps of a job's identities.
struct HeldIdentities {
  std::string ca;          ///< PEM
  identity::KeyPair self;  ///< of the operator, for its connection to the trainer
  WallTime renew_at;       ///< when Ensure is due again
};

/// Thread-safe, but only one call at a time per job.
class JobSecrets {
 public:
  /// Makes a Secret of the job without data: metadata with this name, labels and owner.
  using MakeSecret = std::function<nlohmann::json(const std::string& name)>;

  explicit JobSecrets(kube::Client& client) : client_(client) {}

  /// Makes sure that the two Secrets contain what `wanted` needs. Keys that are no longer wanted
  /// are removed with the next write that adds one, and cause no write of their own.
  ///
  /// Errors: kFailedPrecondition, a Secret of that name does not belong to the job, or contains no
  /// authority; those of the client (kAborted, kAlreadyExists: other clients keep writing the
  /// Secret). After an error, the next call reads the Secrets again.
  Result<HeldIdentities> Ensure(const kube::ObjectName& job, const std::string& job_uid,
                                const IdentitiesWanted& wanted, const MakeSecret& make_secret,
                                WallTime now);
  void Forget(const std::string& job_uid);

 private:
  /// What is kept of one job.
  struct Held {
    std::shared_ptr<const identity::JobAuthority> authority;
    IdentitiesWanted wanted;
    HeldPairs pairs;
    std::string resource_version;  // of the Secret of identities; empty: it does not exist
    HeldIdentities identities;
  };
  /// Where and how to write the Secrets.
  struct Place {
    kube::ObjectName job;
    std::string job_uid;
    const MakeSecret& make_secret;
  };

  std::shared_ptr<Held> Find(const std::string& job_uid) const;
  Result<std::shared_ptr<Held>> Read(const Place& place, WallTime now);
  Result<identity::JobAuthority> ReadOrMakeAuthority(const Place& place);
  Result<std::string> Write(const Place& place, const IdentityChange& change,
                            const std::string& resource_version);
  Status Renew(const Place& place, const IdentitiesWanted& wanted, WallTime now, Held* held);

  kube::Client& client_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Held>> held_;  // guarded; by UID
};

}  // namespace swarm::controller
