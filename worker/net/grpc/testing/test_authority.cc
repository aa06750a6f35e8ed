#include "worker/net/grpc/testing/test_authority.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <vector>

namespace swarm::net {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using File = std::unique_ptr<std::FILE, Free>;

void Add(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  SWARM_CHECK(extension != nullptr, value);
  SWARM_CHECK(X509_add_ext(certificate, extension, -1) == 1, value);
  X509_EXTENSION_free(extension);
}

/// A certificate for `key` without extensions or signature.
Certificate Begin(EVP_PKEY* key, const std::string& name, long seconds) {
  Certificate certificate(X509_new());
  std::uint64_t serial = 0;
  SWARM_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1, "serial");
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_set_version(certificate.get(), X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds - 3600);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

File Open(const std::filesystem::path& path) {
  File file(std::fopen(path.c_str(), "wb"));
  SWARM_CHECK(file != nullptr, "cannot write " + path.string());
  return file;
}

}  // namespace

struct TestAuthority::State {
  Key key{EVP_EC_gen("P-256")};
  Certificate certificate = Begin(key.get(), "test authority", 7200);
};

TestAuthority::TestAuthority() : state_(std::make_unique<State>()) {
  X509* certificate = state_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  Add(certificate, NID_basic_constraints, "critical,CA:TRUE");
  Add(certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  SWARM_CHECK(X509_sign(certificate, state_->key.get(), EVP_sha256()) > 0, "signing");
}

TestAuthority::~TestAuthority() = default;

TlsFiles TestAuthority::Issue(const std::filesystem::path& folder, const std::string& uri,
                              long seconds) const {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate = Begin(key.get(), "test program", seconds);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(state_->certificate.get()));
  Add(certificate.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  Add(certificate.get(), NID_subject_alt_name, "URI:" + uri);
  SWARM_CHECK(X509_sign(certificate.get(), state_->key.get(), EVP_sha256()) > 0, "signing");
  std::filesystem::create_directories(folder);
  const TlsFiles files = {folder / "ca.crt", folder / "tls.crt", folder / "tls.key"};
  PEM_write_X509(Open(files.ca).get(), state_->certificate.get());
  PEM_write_X509(Open(files.certificate).get(), certificate.get());
  PEM_write_PrivateKey(Open(files.key).get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return files;
}

}  // namespace swarm::net
