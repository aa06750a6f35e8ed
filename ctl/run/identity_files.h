// The certificates of a job that runs on this machine, as files. swarmctl makes an authority for
// each run; its key never leaves the memory of swarmctl.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/identity/authority.h"
#include "base/status.h"

namespace swarm::ctl {

/// PEM files that only their owner can read.
struct IdentityFiles {
  std::filesystem::path ca;
  std::filesystem::path certificate;
  std::filesystem::path key;
};

/// Lets `authority` issue a key and a certificate with the identity `uri`, and writes ca.crt,
/// NAME.crt and NAME.key into `directory` (made if missing, for its owner only).
Result<IdentityFiles> WriteIdentity(const identity::JobAuthority& authority,
                                    const std::string& name, const std::string& uri,
                                    const std::filesystem::path& directory);

/// Those of a run's programs, which are made anew before they end: a run may last longer.
class RunIdentities {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  /// `authority` outlives this.
  RunIdentities(const identity::JobAuthority& authority, std::filesystem::path directory)
      : authority_(authority), directory_(std::move(directory)) {}

  /// As WriteIdentity.
  Result<IdentityFiles> Write(const std::string& name, const std::string& uri, WallTime now);
  /// Replaces the files whose certificates have half of their time left. Programs that run take
  /// them within seconds. Errors: as WriteIdentity; the others are replaced nevertheless.
  Status RenewDue(WallTime now);

 private:
  struct Written {
    std::string uri;
    WallTime at;
  };
  const identity::JobAuthority& authority_;
  const std::filesystem::path directory_;
  std::map<std::string, Written> written_;  // by name
};

}  // namespace swarm::ctl
