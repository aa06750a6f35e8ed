#include "worker/net/grpc/revocations.h"

#include <sstream>

#include "base/files.h"
#include "worker/net/grpc/credentials.h"

namespace swarm::net {

bool Revocations::Refresh() {
  if (file_.empty()) return false;
  Result<std::string> text = ReadFile(file_);
  if (!text.ok() || *text == text_) return false;
  text_ = *std::move(text);
  const std::size_t before = uris_.size();
  std::istringstream lines(text_);
  for (std::string id; std::getline(lines, id);) {
    if (!id.empty()) uris_.insert(IdentityUri(job_, WorkerId(id)));
  }
  return uris_.size() > before;
}

Status Revocations::Check(const std::vector<std::string>& uris) const {
  for (const std::string& uri : uris) {
    if (uris_.contains(uri)) return PermissionDenied(uri + " was revoked");
  }
  return Status();
}

}  // namespace swarm::net
