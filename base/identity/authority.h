// The identities of the programs of a job. Each job has its own certificate authority; a program's
// certificate carries its identity in the URI SAN. `swarmctl run` keeps the authority's key in
// memory, the operator in a Secret of the job.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/identity/pem.h"
#include "base/status.h"

namespace swarm::identity {

/// URIs of identities. That of the whole job is spiffe://swarmjob.local/job/UID; those of programs
/// add /trainer, /operator, /observer, /worker/ID, or /home: that of the program which enrols
/// workers from other machines.
std::string JobUri(const std::string& job_uid);
std::string TrainerUri(const std::string& job_uid);
std::string OperatorUri(const std::string& job_uid);
std::string ObserverUri(const std::string& job_uid);
std::string HomeUri(const std::string& job_uid);
std::string WorkerUri(const std::string& job_uid, const std::string& worker_id);
/// Of the operator of another cluster. Operators have an authority of their own, with a UID as that
/// of a job.
std::string SatelliteUri(const std::string& home_uid, const std::string& cluster);
/// Of a machine that has joined a job of a cluster, for its calls to that cluster's operator.
std::string MachineUri(const std::string& home_uid, const std::string& job_uid,
                       const std::string& worker_id);

/// How long a certificate of Issue is valid.
inline constexpr std::chrono::seconds kLeafValidity = std::chrono::hours(7 * 24);
/// Of the authority's own certificate: longer than any job.
inline constexpr std::chrono::seconds kAuthorityValidity = std::chrono::hours(10 * 365 * 24);

/// The authority of one job. Certificates are for servers and clients, hold an EC P-256 key, the
/// URI, DNS:localhost and IP:127.0.0.1. Issue, Sign and the getters may be called by several
/// threads.
class JobAuthority {
 public:
  static Result<JobAuthority> Create(const std::string& job_uid);
  /// Restores an authority from its pair().
  /// Errors: kInvalidArgument (not PEM, no pair, not an authority's certificate).
  static Result<JobAuthority> Load(const std::string& job_uid, const KeyPair& pair);
  JobAuthority(JobAuthority&&) noexcept;
  JobAuthority& operator=(JobAuthority&&) noexcept;
  ~JobAuthority();

  const std::string& job_uid() const;
  /// The certificate and the key of the authority. The holder of the key can take the identity of
  /// any program of the job.
  const KeyPair& pair() const;

  /// Makes a key and a certificate with the identity `uri`; `name` is for people.
  /// Errors: kInvalidArgument (a uri with anything but letters, digits and -._~:/), kInternal.
  Result<KeyPair> Issue(const std::string& name, const std::string& uri) const;
  /// That of home, which lasts as long as the authority: home has the authority's key in the same
  /// memory, and serves longer than a certificate of Issue is valid.
  Result<KeyPair> IssueHome() const;
  /// The same for a key that stays where it is: of `request` (PKCS#10 in PEM) only the key counts.
  /// Returns the certificate.
  /// Errors: kInvalidArgument (as Issue; no request, or not signed with its key, or not P-256).
  Result<std::string> Sign(const std::string& request, const std::string& name,
                           const std::string& uri, std::chrono::seconds validity) const;

 private:
  struct State;
  explicit JobAuthority(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// 128 random bits in the form of a UUID, from the system's generator.
Result<std::string> MakeJobUid();

}  // namespace swarm::identity
