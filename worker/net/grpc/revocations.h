// The workers whose certificates count no more, although they are still valid: gRPC looks at a
// certificate when a connection begins, and knows no lists of revoked ones that change.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/status.h"

namespace swarm::net {

class Revocations {
 public:
  /// `file`: ids of workers of `job`, one a line; it may appear later. Empty: nobody is revoked.
  Revocations(std::string job, std::string file) : job_(std::move(job)), file_(std::move(file)) {}

  /// Reads the file again. Returns whether it names workers that it did not name before. Who was
  /// revoked once stays so, whatever becomes of the file.
  bool Refresh();

  /// Whether a certificate with these URIs counts. Errors: kPermissionDenied.
  Status Check(const std::vector<std::string>& uris) const;

 private:
  const std::string job_;
  const std::string file_;
  std::string text_;  // as last read
  std::set<std::string> uris_;
};

}  // namespace swarm::net
