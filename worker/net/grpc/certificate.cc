#include "worker/net/grpc/certificate.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

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

Result<Certificate> ReadCertificate(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Certificate certificate(PEM_read_bio_X509(BioOf(text).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!certificate) return InvalidArgument(path + " holds no certificate in PEM");
  return certificate;
}

Result<Key> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
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

}  // namespace

Status CheckCertificateFiles(const TlsFiles& files, const std::string& uri) {
  RETURN_IF_ERROR(ReadCertificate(files.ca).status());
  ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(files.certificate));
  ASSIGN_OR_RETURN(const Key key, ReadKey(files.key));
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

}  // namespace swarm::net
