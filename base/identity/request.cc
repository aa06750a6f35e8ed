#include "base/identity/request.h"

#include <openssl/pem.h>

#include "base/identity/openssl.h"

namespace swarm::identity {

Result<KeyAndRequest> MakeRequest(const std::string& name) {
  ASSIGN_OR_RETURN(const Key key, MakeKey());
  const Request request(X509_REQ_new());
  X509_REQ* const made = request.get();
  if (!made || X509_REQ_set_version(made, X509_REQ_VERSION_1) != 1 ||
      !SetCommonName(X509_REQ_get_subject_name(made), name) ||
      X509_REQ_set_pubkey(made, key.get()) != 1 ||
      X509_REQ_sign(made, key.get(), EVP_sha256()) == 0) {
    return Failed("cannot make a request for a certificate");
  }
  KeyAndRequest result;
  ASSIGN_OR_RETURN(result.key, ToPem(key.get()));
  ASSIGN_OR_RETURN(result.request, ToPem(made));
  return result;
}

}  // namespace swarm::identity
