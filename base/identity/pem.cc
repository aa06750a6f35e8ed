#include "base/identity/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>

#include "base/identity/openssl.h"

namespace swarm::identity {
namespace {

Memory MemoryOf(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<std::string> TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  if (size <= 0) return Failed("cannot write PEM");
  return std::string(data, static_cast<std::size_t>(size));
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

std::chrono::system_clock::time_point TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

}  // namespace

Status Failed(const std::string& what) {
  char reason[256];
  ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
  ERR_clear_error();
  return Internal(what + ": " + reason);
}

int NoPassword(char*, int, int, void*) { return -1; }

Result<Certificate> ParseCertificate(const std::string& text, const std::string& name) {
  Certificate certificate(PEM_read_bio_X509(MemoryOf(text).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (!certificate) return InvalidArgument(name + " holds no certificate in PEM");
  return certificate;
}

Result<Key> ParseKey(const std::string& text, const std::string& name) {
  Key key(PEM_read_bio_PrivateKey(MemoryOf(text).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (!key) return InvalidArgument(name + " holds no private key in PEM without password");
  return key;
}

Result<std::string> ToPem(X509* certificate) {
  const Memory memory(BIO_new(BIO_s_mem()));
  if (!memory || PEM_write_bio_X509(memory.get(), certificate) != 1)
    return Failed("cannot write PEM");
  return TextOf(memory.get());
}

Result<std::string> ToPem(X509_REQ* request) {
  const Memory memory(BIO_new(BIO_s_mem()));
  if (!memory || PEM_write_bio_X509_REQ(memory.get(), request) != 1)
    return Failed("cannot write PEM");
  return TextOf(memory.get());
}

Result<std::string> ToPem(EVP_PKEY* key) {
  const Memory memory(BIO_new(BIO_s_mem()));
  if (!memory ||
      PEM_write_bio_PrivateKey(memory.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed("cannot write PEM");
  }
  return TextOf(memory.get());
}

Result<CertificateFacts> ReadCertificate(const std::string& text, const std::string& name) {
  ASSIGN_OR_RETURN(const Certificate certificate, ParseCertificate(text, name));
  return CertificateFacts{UrisOf(certificate.get()), X509_check_ca(certificate.get()) > 0,
                          TimeOf(X509_get0_notBefore(certificate.get())),
                          TimeOf(X509_get0_notAfter(certificate.get()))};
}

Status CheckPair(const KeyPair& pair, const std::string& certificate_name,
                 const std::string& key_name) {
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ParseCertificate(pair.certificate, certificate_name));
  ASSIGN_OR_RETURN(const Key key, ParseKey(pair.key, key_name));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return InvalidArgument(key_name + " is not the key of " + certificate_name);
  }
  return Status();
}

}  // namespace swarm::identity
