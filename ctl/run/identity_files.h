// The certificates of a job that runs on this machine, as files. swarmctl makes an authority for
// each run; its key never leaves the memory of swarmctl.
#pragma once

#include <filesystem>
#include <string>

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

}  // namespace swarm::ctl
