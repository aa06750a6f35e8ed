#include "base/identity/trust.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <vector>

#include "base/identity/openssl.h"

namespace swarm::identity {
namespace {

using Store = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
using Check = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;

constexpr int kSecretBytesMax = 64;

std::string Hex(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string FingerprintOf(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  SWARM_CHECK(X509_digest(certificate, EVP_sha256(), digest.data(), &size) == 1, "SHA-256 failed");
  return Hex(digest.data(), size);
}

Status Untrusted(std::string message) {
  return Status(StatusCode::kUnauthenticated, std::move(message));
}

}  // namespace

std::string Sha256(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return Hex(digest.data(), digest.size());
}

Result<std::string> MakeSecret(int bytes) {
  SWARM_CHECK(bytes > 0 && bytes <= kSecretBytesMax, "a secret of an unusual size");
  std::array<unsigned char, kSecretBytesMax> random;
  if (RAND_bytes(random.data(), bytes) != 1) return Failed("no random bytes");
  return Hex(random.data(), static_cast<std::size_t>(bytes));
}

Result<std::string> Fingerprint(const std::string& text, const std::string& name) {
  ASSIGN_OR_RETURN(const Certificate certificate, ParseCertificate(text, name));
  return FingerprintOf(certificate.get());
}

Status CheckSigned(const std::string& text, const std::string& authority) {
  ASSIGN_OR_RETURN(const Certificate leaf, ParseCertificate(text, "the certificate"));
  ASSIGN_OR_RETURN(const Certificate root, ParseCertificate(authority, "the authority"));
  const Store store(X509_STORE_new());
  const Check check(X509_STORE_CTX_new());
  if (!store || !check || X509_STORE_add_cert(store.get(), root.get()) != 1 ||
      X509_STORE_CTX_init(check.get(), store.get(), leaf.get(), nullptr) != 1) {
    return Failed("cannot check a certificate");
  }
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    if (X509_check_purpose(leaf.get(), purpose, /*ca=*/0) != 1) {
      ERR_clear_error();
      return Untrusted("the certificate is not one of a program");
    }
  }
  if (X509_verify_cert(check.get()) == 1) return Status();
  const int error = X509_STORE_CTX_get_error(check.get());
  ERR_clear_error();
  return Untrusted(std::string("the certificate is not trusted: ") +
                   X509_verify_cert_error_string(error));
}

Result<std::string> FindByFingerprint(const std::string& chain, const std::string& fingerprint) {
  const Memory memory(BIO_new_mem_buf(chain.data(), static_cast<int>(chain.size())));
  while (memory) {
    const Certificate each(PEM_read_bio_X509(memory.get(), nullptr, NoPassword, nullptr));
    if (!each) break;
    if (FingerprintOf(each.get()) == fingerprint) return ToPem(each.get());
  }
  ERR_clear_error();
  return Untrusted("none of the certificates has the fingerprint " + fingerprint);
}

}  // namespace swarm::identity
