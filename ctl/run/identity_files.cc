#include "ctl/run/identity_files.h"

#include <system_error>

#include "base/files.h"

namespace swarm::ctl {
namespace {

Status MakePrivateFolder(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  return error ? Unavailable("cannot make " + directory.string() + ": " + error.message())
               : Status();
}

}  // namespace

Result<IdentityFiles> WriteIdentity(const identity::JobAuthority& authority,
                                    const std::string& name, const std::string& uri,
                                    const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const identity::KeyPair pair, authority.Issue(name, uri));
  RETURN_IF_ERROR(MakePrivateFolder(directory));
  const IdentityFiles files{directory / "ca.crt", directory / (name + ".crt"),
                            directory / (name + ".key")};
  RETURN_IF_ERROR(WriteFile(files.ca, authority.pair().certificate, 0600));
  RETURN_IF_ERROR(WriteFile(files.certificate, pair.certificate, 0600));
  RETURN_IF_ERROR(WriteFile(files.key, pair.key, 0600));
  return files;
}

Result<IdentityFiles> RunIdentities::Write(const std::string& name, const std::string& uri,
                                           WallTime now) {
  ASSIGN_OR_RETURN(IdentityFiles files, WriteIdentity(authority_, name, uri, directory_));
  written_[name] = {uri, now};
  return files;
}

Status RunIdentities::RenewDue(WallTime now) {
  Status failed;
  for (auto& [name, written] : written_) {
    if (now - written.at < identity::kLeafValidity / 2) continue;
    const Status status = WriteIdentity(authority_, name, written.uri, directory_).status();
    if (!status.ok()) failed = status;
    written.at = now;
  }
  return failed;
}

}  // namespace swarm::ctl
