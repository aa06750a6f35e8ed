// The room of OpenSSL: who the programs of one job are to each other. A job run on this machine has
// a throw-away certificate authority whose key never leaves the memory of swarmctl.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"

namespace swarm::ctl {

/// The identity that stands in a certificate's URI SAN, below spiffe://swarmjob.local/job/UID:
/// /trainer, /observer, /worker/ID.
std::string TrainerUri(const std::string& job_uid);
std::string ObserverUri(const std::string& job_uid);
std::string WorkerUri(const std::string& job_uid, const std::string& worker_id);

/// PEM files, readable by their owner only.
struct IdentityFiles {
  std::filesystem::path ca;
  std::filesystem::path certificate;
  std::filesystem::path key;
};

/// The authority of one job. Certificates are for servers and clients, hold an EC P-256 key, the
/// URI, DNS:localhost and IP:127.0.0.1, and are valid for a week. Used from one thread.
class JobAuthority {
 public:
  static Result<JobAuthority> Create(const std::string& job_uid);
  JobAuthority(JobAuthority&&) noexcept;
  JobAuthority& operator=(JobAuthority&&) noexcept;
  ~JobAuthority();

  const std::string& job_uid() const;

  /// Makes a key and a certificate with the identity `uri`, and writes ca.crt, NAME.crt and
  /// NAME.key into `directory` (made if missing, for its owner only).
  Result<IdentityFiles> Issue(const std::string& name, const std::string& uri,
                              const std::filesystem::path& directory) const;

 private:
  struct State;
  explicit JobAuthority(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// 128 random bits in the form of a UUID, from the system's generator.
Result<std::string> MakeJobUid();

}  // namespace swarm::ctl
