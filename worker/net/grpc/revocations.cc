#include "worker/net/grpc/revocations.h"

#include <sstream>
#include <utility>

#include "base/files.h"
#include "worker/net/grpc/credentials.h"

namespace swarm::net {

void Revocations::Retire(const protocol::Retired& workers) {
  const std::lock_guard lock(mutex_);
  has_more_ |= retired_.Learn(workers);
}

bool Revocations::Refresh() {
  Result<std::string> text = file_.empty() ? std::string() : ReadFile(file_);
  const std::lock_guard lock(mutex_);
  const std::size_t before = uris_.size();
  if (text.ok() && *text != text_) {
    text_ = *std::move(text);
    std::istringstream lines(text_);
    for (std::string id; std::getline(lines, id);) {
      if (!id.empty()) uris_.insert(IdentityUri(job_, WorkerId(id)));
    }
  }
  return std::exchange(has_more_, false) || uris_.size() > before;
}

bool Revocations::IsRetired(const std::string& uri) const {
  // A worker's URI is that of its id: what stands before any id is that of the empty one.
  const std::string before = IdentityUri(job_, WorkerId(""));
  return uri.starts_with(before) && retired_.Has(WorkerId(uri.substr(before.size())));
}

Status Revocations::Check(const std::vector<std::string>& uris) const {
  const std::lock_guard lock(mutex_);
  for (const std::string& uri : uris) {
    if (uris_.contains(uri)) return PermissionDenied(uri + " was revoked");
    if (IsRetired(uri)) return PermissionDenied(uri + " was revoked: its pod is gone");
  }
  return Status();
}

}  // namespace swarm::net
