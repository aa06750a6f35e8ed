// The two Secrets of each job as they are in the cluster: read once, then changed when something is
// due. Of the pods' keys none is kept in memory.
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

/// What an operator holds of a job's identities.
struct HeldIdentities {
  std::string ca;          ///< PEM
  identity::KeyPair self;  ///< the operator's own, for talking to the trainer
  WallTime renew_at;       ///< when Ensure has something to do again
};

/// Thread-safe; of one job only one call runs at a time.
class JobSecrets {
 public:
  /// Makes the Secret NAME of the job without its data: metadata with labels and owner.
  using MakeSecret = std::function<nlohmann::json(const std::string& name)>;

  explicit JobSecrets(kube::Client& client) : client_(client) {}

  /// Sees to it that JOB-ca and JOB-identities hold what `wanted` asks for. What nobody asks for
  /// any more is removed when something is put there for the next time: no write of its own.
  /// Errors: kFailedPrecondition (a Secret of that name belongs to somebody else, or holds no
  /// authority), those of the client (kAborted and kAlreadyExists: others write it all the time).
  /// What is in memory is then read anew next time.
  Result<HeldIdentities> Ensure(const kube::ObjectName& job, const std::string& job_uid,
                                const IdentitiesWanted& wanted, const MakeSecret& make_secret,
                                WallTime now);
  void Forget(const std::string& job_uid);

 private:
  /// What is known of one job.
  struct Held {
    std::shared_ptr<const identity::JobAuthority> authority;
    IdentitiesWanted wanted;
    HeldPairs pairs;
    std::string resource_version;  // of JOB-identities; empty: there is none
    HeldIdentities identities;
  };
  /// Where and how to write.
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
