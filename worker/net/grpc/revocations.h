// The workers whose certificates count no more, although they are still valid: gRPC looks at a
// certificate when a connection begins, and knows no lists of revoked ones that change.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/protocol/messages/retired.h"

namespace swarm::net {

/// Thread-safe. Several endpoints of a program, one after the other, may share it.
class Revocations {
 public:
  /// `file`: ids of workers of `job`, one a line; it may appear later. Empty: nobody is revoked.
  Revocations(std::string job, std::string file) : job_(std::move(job)), file_(std::move(file)) {}

  /// These have ended for good.
  void Retire(const protocol::Retired& workers);

  /// Reads the file again. Returns whether workers are revoked that were not when it was called
  /// before. Who was revoked once stays so, whatever becomes of the file.
  bool Refresh();

  /// Whether a certificate with these URIs counts. Errors: kPermissionDenied.
  Status Check(const std::vector<std::string>& uris) const;

 private:
  bool IsRetired(const std::string& uri) const;

  const std::string job_;
  const std::string file_;
  mutable std::mutex mutex_;  // guards the rest
  std::string text_;          // as last read
  std::set<std::string> uris_;
  protocol::Retired retired_;
  bool has_more_ = false;  // since the last Refresh
};

}  // namespace swarm::net
