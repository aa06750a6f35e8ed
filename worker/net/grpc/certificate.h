// The certificate files, checked before gRPC sees them. gRPC's own watcher ends the process when it
// finds an empty file, which happens while a new file is copied into place; and it accepts a
// certificate and a key that do not belong together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/identity/pem.h"
#include "base/status.h"
#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::net {

/// Whether `pair` is a certificate and its key, and its only URI SAN is one of `uris`, which are
/// not empty. Error messages use the names. Errors: kInvalidArgument.
Status CheckIdentity(const identity::KeyPair& pair, const std::string& certificate_name,
                     const std::string& key_name, const std::vector<std::string>& uris);

/// A file in memory, at a path that stays the same while its content is replaced in one step. Only
/// this process can open it. The destructor leaves it open: gRPC may look at the path a little
/// longer, and must not find another file that got the same descriptor. A process makes only a few.
class MemoryFile {
 public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  /// Errors: kUnavailable (the system has no descriptors or memory left).
  Status Replace(const std::string& content);
  /// After the first Replace.
  std::string path() const;

 private:
  int fd_ = -1;
};

/// The last good content of the files, for gRPC to watch. Not thread-safe, but gRPC may read the
/// paths at any time.
class CheckedCertificates {
 public:
  /// `uris`: one of them must be the only URI SAN of the certificate.
  CheckedCertificates(TlsFiles files, std::vector<std::string> uris);

  /// Reads the files and takes their content if it has changed. Errors, after which the old content
  /// stays: kNotFound (a file), kInvalidArgument (not PEM, the key of another certificate, another
  /// URI), kUnavailable.
  Status Refresh();

  /// Certificate, its chain, and key: one file, so that they change together.
  std::string identity_path() const { return identity_.path(); }
  std::string ca_path() const { return ca_.path(); }

 private:
  const TlsFiles files_;
  const std::vector<std::string> uris_;
  std::string identity_text_, ca_text_;
  MemoryFile identity_, ca_;
};

}  // namespace swarm::net
