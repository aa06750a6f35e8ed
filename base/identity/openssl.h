// Helpers for OpenSSL: owners of its objects, its errors as Status, PEM in memory. Private to this
// folder.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace swarm::identity {

template <auto Free>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Key = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using Request = std::unique_ptr<X509_REQ, FreeWith<X509_REQ_free>>;
using Memory = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using Extension = std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>>;

/// kInternal with OpenSSL's newest reason; empties its list of errors.
Status Failed(const std::string& what);

/// What to give to functions that read PEM: it may be encrypted, whatever it is, and without a
/// callback OpenSSL would ask the terminal for the password and wait.
int NoPassword(char* buffer, int size, int writing, void* data);

/// Errors: kInvalidArgument, naming `name`.
Result<Certificate> ParseCertificate(const std::string& text, const std::string& name);
/// Errors: kInvalidArgument, naming `name`; also for a key with a password.
Result<Key> ParseKey(const std::string& text, const std::string& name);

Result<Key> MakeKey();
/// False if OpenSSL refuses it.
bool SetCommonName(X509_NAME* subject, const std::string& name);

Result<std::string> ToPem(X509* certificate);
Result<std::string> ToPem(X509_REQ* request);
Result<std::string> ToPem(EVP_PKEY* key);

}  // namespace swarm::identity
