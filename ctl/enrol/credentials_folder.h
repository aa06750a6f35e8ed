// The identity of a worker that has joined, as files for its process. They are its owner's alone,
// and end with the command.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "base/identity/pem.h"
#include "base/status.h"

namespace swarm::ctl {

class CredentialsFolder {
 public:
  explicit CredentialsFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// Removes the folder.
  ~CredentialsFolder();
  CredentialsFolder(const CredentialsFolder&) = delete;
  CredentialsFolder& operator=(const CredentialsFolder&) = delete;

  /// Makes the folder, with nobody revoked yet.
  Status Create(const std::string& authority, const identity::KeyPair& pair);
  /// Replaces the identity. The process goes on with the old one until both files are there.
  Status Replace(const identity::KeyPair& pair) const;
  Status SetRevoked(const std::set<std::string>& workers) const;

  std::string authority() const { return folder_ / "ca.crt"; }
  std::string certificate() const { return folder_ / "worker.crt"; }
  std::string key() const { return folder_ / "worker.key"; }
  std::string revoked() const { return folder_ / "revoked"; }

 private:
  const std::filesystem::path folder_;
};

}  // namespace swarm::ctl
