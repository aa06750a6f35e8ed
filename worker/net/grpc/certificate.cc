#include "worker/net/grpc/certificate.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace swarm::net {
namespace {

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

Status WriteAll(int fd, const std::string& content) {
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t written = write(fd, content.data() + at, content.size() - at);
    if (written < 0) return Unavailable("cannot keep certificates in memory");
    at += static_cast<std::size_t>(written);
  }
  return Status();
}

}  // namespace

Status CheckIdentity(const identity::KeyPair& pair, const std::string& certificate_name,
                     const std::string& key_name, const std::vector<std::string>& uris) {
  RETURN_IF_ERROR(identity::CheckPair(pair, certificate_name, key_name));
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::ReadCertificate(pair.certificate, certificate_name));
  if (facts.uris.size() != 1 || std::ranges::find(uris, facts.uris[0]) == uris.end()) {
    return InvalidArgument(
        certificate_name + " names " +
        (facts.uris.size() == 1 ? facts.uris[0] : std::to_string(facts.uris.size()) + " URIs") +
        ", but this program is " + uris.front());
  }
  return Status();
}

Status MemoryFile::Replace(const std::string& content) {
  const int fresh = memfd_create("certificates", MFD_CLOEXEC);
  if (fresh < 0) return Unavailable("cannot keep certificates in memory: no file descriptor");
  Status status = WriteAll(fresh, content);
  if (status.ok() && fd_ < 0) {
    fd_ = fresh;
    return Status();
  }
  if (status.ok() && dup3(fresh, fd_, O_CLOEXEC) < 0) {
    status = Unavailable("cannot replace certificates in memory");
  }
  close(fresh);
  return status;
}

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(fd_); }

CheckedCertificates::CheckedCertificates(TlsFiles files, std::vector<std::string> uris)
    : files_(std::move(files)), uris_(std::move(uris)) {}

Status CheckedCertificates::Refresh() {
  ASSIGN_OR_RETURN(std::string ca, ReadFile(files_.ca));
  ASSIGN_OR_RETURN(const std::string certificate, ReadFile(files_.certificate));
  ASSIGN_OR_RETURN(const std::string key, ReadFile(files_.key));
  std::string identity = certificate + "\n" + key;
  if (ca == ca_text_ && identity == identity_text_) return Status();
  RETURN_IF_ERROR(identity::ReadCertificate(ca, files_.ca).status());
  RETURN_IF_ERROR(CheckIdentity({certificate, key}, files_.certificate, files_.key, uris_));
  RETURN_IF_ERROR(ca_.Replace(ca));
  RETURN_IF_ERROR(identity_.Replace(identity));
  ca_text_ = std::move(ca);
  identity_text_ = std::move(identity);
  return Status();
}

}  // namespace swarm::net
