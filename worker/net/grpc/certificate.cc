#include "worker/net/grpc/certificate.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

namespace swarm::net {
namespace {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* t) const {
    Free(t);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

Bio BioOf(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<Certificate> ParseCertificate(const std::string& text, const std::string& path) {
  Certificate certificate(PEM_read_bio_X509(BioOf(text).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!certificate) return InvalidArgument(path + " holds no certificate in PEM");
  return certificate;
}

Result<Key> ParseKey(const std::string& text, const std::string& path) {
  // Without a password callback OpenSSL would ask the terminal.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  Key key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (!key) return InvalidArgument(path + " holds no private key in PEM without password");
  return key;
}

std::vector<std::string> UrisOf(const X509* certificate) {
  std::vector<std::string> uris;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<std::size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

Status CheckPair(const std::string& certificate_text, const std::string& key_text,
                 const TlsFiles& files, const std::string& uri) {
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ParseCertificate(certificate_text, files.certificate));
  ASSIGN_OR_RETURN(const Key key, ParseKey(key_text, files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return InvalidArgument(files.key + " is not the key of " + files.certificate);
  }
  const std::vector<std::string> uris = UrisOf(certificate.get());
  if (uris.size() != 1 || uris[0] != uri) {
    return InvalidArgument(files.certificate + " names " +
                           (uris.size() == 1 ? uris[0] : std::to_string(uris.size()) + " URIs") +
                           ", but this program is " + uri);
  }
  return Status();
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

CheckedCertificates::CheckedCertificates(TlsFiles files, std::string uri)
    : files_(std::move(files)), uri_(std::move(uri)) {}

Status CheckedCertificates::Refresh() {
  ASSIGN_OR_RETURN(std::string ca, ReadFile(files_.ca));
  ASSIGN_OR_RETURN(const std::string certificate, ReadFile(files_.certificate));
  ASSIGN_OR_RETURN(const std::string key, ReadFile(files_.key));
  std::string identity = certificate + "\n" + key;
  if (ca == ca_text_ && identity == identity_text_) return Status();
  RETURN_IF_ERROR(ParseCertificate(ca, files_.ca).status());
  RETURN_IF_ERROR(CheckPair(certificate, key, files_, uri_));
  RETURN_IF_ERROR(ca_.Replace(ca));
  RETURN_IF_ERROR(identity_.Replace(identity));
  ca_text_ = std::move(ca);
  identity_text_ = std::move(identity);
  return Status();
}

}  // namespace swarm::net
