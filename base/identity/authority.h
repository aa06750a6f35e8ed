// Who the programs of one job are to each other: a certificate authority of the job's own, whose
// certificates carry the identity in their URI SAN. `swarmctl run` keeps its key in memory, the
// operator in a Secret of the job.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/identity/pem.h"
#include "base/status.h"

namespace swarm::identity {

/// The identity that stands in a certificate's URI SAN, for all of a job's programs together:
/// spiffe://swarmjob.local/job/UID, and below it: /trainer, /operator, /observer, /worker/ID.
std::string JobUri(const std::string& job_uid);
std::string TrainerUri(const std::string& job_uid);
std::string OperatorUri(const std::string& job_uid);
std::string ObserverUri(const std::string& job_uid);
std::string WorkerUri(const std::string& job_uid, const std::string& worker_id);

/// How long what Issue makes is valid.
inline constexpr std::chrono::seconds kLeafValidity = std::chrono::hours(7 * 24);
/// Of the authority's own certificate: longer than any job.
inline constexpr std::chrono::seconds kAuthorityValidity = std::chrono::hours(10 * 365 * 24);

/// The authority of one job. Certificates are for servers and clients, hold an EC P-256 key, the
/// URI, DNS:localhost and IP:127.0.0.1. Issue and the getters may be called by several threads.
class JobAuthority {
 public:
  static Result<JobAuthority> Create(const std::string& job_uid);
  /// The authority that `pair` was the pair() of.
  /// Errors: kInvalidArgument (not PEM, no pair, not an authority's certificate).
  static Result<JobAuthority> Load(const std::string& job_uid, const KeyPair& pair);
  JobAuthority(JobAuthority&&) noexcept;
  JobAuthority& operator=(JobAuthority&&) noexcept;
  ~JobAuthority();

  const std::string& job_uid() const;
  /// Its own certificate and key: whoever has the key speaks for everyone of the job.
  const KeyPair& pair() const;

  /// Makes a key and a certificate with the identity `uri`; `name` is for people.
  /// Errors: kInvalidArgument (a uri with anything but letters, digits and -._~:/), kInternal.
  Result<KeyPair> Issue(const std::string& name, const std::string& uri) const;

 private:
  struct State;
  explicit JobAuthority(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// 128 random bits in the form of a UUID, from the system's generator.
Result<std::string> MakeJobUid();

}  // namespace swarm::identity
