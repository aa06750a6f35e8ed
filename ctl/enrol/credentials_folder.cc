#include "ctl/enrol/credentials_folder.h"

#include <system_error>

#include "base/files.h"

namespace swarm::ctl {

CredentialsFolder::~CredentialsFolder() {
  std::error_code ignored;  // nothing can be done about it
  std::filesystem::remove_all(folder_, ignored);
}

Status CredentialsFolder::Create(const std::string& authority, const identity::KeyPair& pair) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!error) std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  if (error) return Unavailable("cannot make " + folder_.string() + ": " + error.message());
  RETURN_IF_ERROR(WriteFile(this->authority(), authority, 0600));
  RETURN_IF_ERROR(SetRevoked({}));
  return Replace(pair);
}

Status CredentialsFolder::Replace(const identity::KeyPair& pair) const {
  RETURN_IF_ERROR(WriteFile(key(), pair.key, 0600));
  return WriteFile(certificate(), pair.certificate, 0600);
}

Status CredentialsFolder::SetRevoked(const std::set<std::string>& workers) const {
  std::string lines;
  for (const std::string& worker : workers) lines += worker + "\n";
  return WriteFile(revoked(), lines, 0600);
}

}  // namespace swarm::ctl
