// The Secrets of each job: one with its authority, and one with the pair of each pod. Authorities
// are read once and kept. The private keys of pods are not kept in memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/controller/identities.h"
#include "operator/kube/client/client.h"

namespace swarm::controller {

/// What the operator itself needs to talk to a job's trainer.
struct OwnIdentity {
  std::string ca;          ///< PEM
  identity::KeyPair self;  ///< of the operator
  WallTime renew_at;       ///< when Hold makes another one
  /// Pods that are older may have pairs of another authority.
  WallTime authority_since;
};

/// A Secret of pairs: its name, owner and type, without data, and what it should hold.
struct SecretOfPairs {
  nlohmann::json object;
  PairsWanted pairs;
};

/// Thread-safe, but Hold only once at a time per job.
///
/// Errors of Hold, Make and Check: kFailedPrecondition, a Secret of that name does not belong to
/// the owner, or contains no authority; those of the client (kAborted, kAlreadyExists: other
/// clients keep writing the Secret).
class JobSecrets {
 public:
  explicit JobSecrets(kube::Client& client) : client_(client) {}

  /// Makes sure that the job has an authority, of which `secret` is the Secret without data.
  Result<OwnIdentity> Hold(const std::string& job_uid, const nlohmann::json& secret, WallTime now);

  /// Make sure that `secret` holds its pairs, and return when they are to be renewed. Make expects
  /// that the Secret does not exist, Check that it does; so each needs one request then, by
  /// `client`, which is that of the pod's cluster. Require: Hold has succeeded for the job.
  Result<WallTime> Make(kube::Client& client, const std::string& job_uid,
                        const SecretOfPairs& secret, WallTime now);
  Result<WallTime> Check(kube::Client& client, const std::string& job_uid,
                         const SecretOfPairs& secret, WallTime now);

  /// For a key that stays where it is (identity::JobAuthority::Sign).
  struct Signed {
    std::string certificate, authority;  ///< PEM
  };
  /// Errors: kUnavailable (Hold has not succeeded for the job yet); kInvalidArgument (the request
  /// is none).
  Result<Signed> Sign(const std::string& job_uid, const std::string& request,
                      const std::string& name, const std::string& uri,
                      std::chrono::seconds validity) const;

  void Forget(const std::string& job_uid);

 private:
  /// What is kept of one job.
  struct Held {
    identity::JobAuthority authority;
    OwnIdentity own;
  };

  std::shared_ptr<const Held> Find(const std::string& job_uid) const;
  Result<identity::JobAuthority> ReadOrMakeAuthority(const std::string& job_uid,
                                                     const nlohmann::json& secret);
  static Result<WallTime> Create(kube::Client& client, const identity::JobAuthority& authority,
                                 const SecretOfPairs& secret, WallTime now);
  static Result<WallTime> Correct(kube::Client& client, const identity::JobAuthority& authority,
                                  const SecretOfPairs& secret, WallTime now);

  kube::Client& client_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Held>> held_;  // guarded; by UID
};

}  // namespace swarm::controller
