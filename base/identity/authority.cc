#include "base/identity/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <string_view>
#include <utility>

#include "base/identity/openssl.h"

namespace swarm::identity {
namespace {

constexpr long kClockSkewSeconds = 300;  // certificates begin this much in the past

bool SetSerial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  bytes[0] &= 0x7f;  // serial numbers are positive
  std::unique_ptr<BIGNUM, FreeWith<BN_free>> number(BN_bin2bn(bytes, sizeof bytes, nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate));
}

bool AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// In a line of OpenSSL's configuration a comma would begin another name.
bool IsPlainUri(const std::string& uri) {
  return !uri.empty() && uri.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789-._~:/") == std::string::npos;
}

struct Subject {
  std::string name;
  bool is_authority = false;
  std::string uri;  // of a leaf
  std::chrono::seconds validity = kLeafValidity;
};

bool AddExtensions(X509* certificate, X509* issuer, const Subject& subject) {
  const auto add = [&](int id, const std::string& value) {
    return AddExtension(certificate, issuer, id, value);
  };
  if (subject.is_authority) {
    return add(NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add(NID_key_usage, "critical,keyCertSign,cRLSign") &&
           add(NID_subject_key_identifier, "hash");
  }
  return add(NID_basic_constraints, "critical,CA:FALSE") &&
         add(NID_key_usage, "critical,digitalSignature") &&
         add(NID_ext_key_usage, "serverAuth,clientAuth") &&
         add(NID_subject_key_identifier, "hash") && add(NID_authority_key_identifier, "keyid") &&
         add(NID_subject_alt_name, "URI:" + subject.uri + ",DNS:localhost,IP:127.0.0.1");
}

// Signed by the key of `issuer`; an authority signs itself (issuer null).
Result<Certificate> MakeCertificate(const Subject& subject, EVP_PKEY* key, X509* issuer,
                                    EVP_PKEY* issuer_key) {
  Certificate certificate(X509_new());
  X509* const made = certificate.get();
  X509* const signer = issuer ? issuer : made;
  if (!made || X509_set_version(made, X509_VERSION_3) != 1 || !SetSerial(made) ||
      !SetCommonName(X509_get_subject_name(made), subject.name) ||
      X509_set_issuer_name(made, X509_get_subject_name(signer)) != 1 ||
      !X509_gmtime_adj(X509_getm_notBefore(made), -kClockSkewSeconds) ||
      !X509_gmtime_adj(X509_getm_notAfter(made), subject.validity.count()) ||
      X509_set_pubkey(made, key) != 1 || !AddExtensions(made, signer, subject) ||
      X509_sign(made, issuer_key, EVP_sha256()) == 0) {
    return Failed("cannot make the certificate of " + subject.name);
  }
  return certificate;
}

// The key of a request whose sender has the private key.
Result<Key> KeyOf(const std::string& text) {
  const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  const Request request(PEM_read_bio_X509_REQ(memory.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (!request) return InvalidArgument("there is no request for a certificate in PEM");
  Key key(X509_REQ_get_pubkey(request.get()));
  char curve[32] = "";
  const bool known = key && EVP_PKEY_get_group_name(key.get(), curve, sizeof curve, nullptr) == 1 &&
                     std::string_view(curve) == SN_X9_62_prime256v1;
  ERR_clear_error();
  if (!known) {
    return InvalidArgument("the request for a certificate has a key of another kind than P-256");
  }
  const bool signed_with_it = X509_REQ_verify(request.get(), key.get()) == 1;
  ERR_clear_error();
  if (!signed_with_it) {
    return InvalidArgument("the request for a certificate is not signed with its own key");
  }
  return key;
}

}  // namespace

Result<Key> MakeKey() {
  Key key(EVP_EC_gen("P-256"));
  if (!key) return Failed("cannot make a P-256 key");
  return key;
}

bool SetCommonName(X509_NAME* subject, const std::string& name) {
  // A common name has at most 64 characters; the identity is in the SAN, whole.
  const std::string common = name.substr(0, 64);
  return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(common.data()),
                                    static_cast<int>(common.size()), -1, 0) == 1;
}

struct JobAuthority::State {
  std::string job_uid;
  KeyPair pair;
  Key key;
  Certificate certificate;
};

std::string JobUri(const std::string& job_uid) { return "spiffe://swarmjob.local/job/" + job_uid; }
std::string TrainerUri(const std::string& job_uid) { return JobUri(job_uid) + "/trainer"; }
std::string OperatorUri(const std::string& job_uid) { return JobUri(job_uid) + "/operator"; }
std::string ObserverUri(const std::string& job_uid) { return JobUri(job_uid) + "/observer"; }
std::string HomeUri(const std::string& job_uid) { return JobUri(job_uid) + "/home"; }
std::string WorkerUri(const std::string& job_uid, const std::string& worker_id) {
  return JobUri(job_uid) + "/worker/" + worker_id;
}

std::string SatelliteUri(const std::string& home_uid, const std::string& cluster) {
  return JobUri(home_uid) + "/satellite/" + cluster;
}

std::string MachineUri(const std::string& home_uid, const std::string& job_uid,
                       const std::string& worker_id) {
  return JobUri(home_uid) + "/machine/" + job_uid + "/" + worker_id;
}

JobAuthority::JobAuthority(std::unique_ptr<State> state) : state_(std::move(state)) {}
JobAuthority::JobAuthority(JobAuthority&&) noexcept = default;
JobAuthority& JobAuthority::operator=(JobAuthority&&) noexcept = default;
JobAuthority::~JobAuthority() = default;

const std::string& JobAuthority::job_uid() const { return state_->job_uid; }
const KeyPair& JobAuthority::pair() const { return state_->pair; }

Result<JobAuthority> JobAuthority::Create(const std::string& job_uid) {
  ASSIGN_OR_RETURN(Key key, MakeKey());
  const Subject subject{"SwarmJob " + job_uid, /*is_authority=*/true, "", kAuthorityValidity};
  ASSIGN_OR_RETURN(Certificate certificate,
                   MakeCertificate(subject, key.get(), /*issuer=*/nullptr, key.get()));
  KeyPair pair;
  ASSIGN_OR_RETURN(pair.certificate, ToPem(certificate.get()));
  ASSIGN_OR_RETURN(pair.key, ToPem(key.get()));
  return JobAuthority(std::make_unique<State>(
      State{job_uid, std::move(pair), std::move(key), std::move(certificate)}));
}

Result<JobAuthority> JobAuthority::Load(const std::string& job_uid, const KeyPair& pair) {
  constexpr char kWhose[] = "the authority's ";
  RETURN_IF_ERROR(
      CheckPair(pair, std::string(kWhose) + "certificate", std::string(kWhose) + "key"));
  ASSIGN_OR_RETURN(Certificate certificate, ParseCertificate(pair.certificate, "certificate"));
  ASSIGN_OR_RETURN(Key key, ParseKey(pair.key, "key"));
  if (X509_check_ca(certificate.get()) == 0) {
    return InvalidArgument("the certificate is not an authority's");
  }
  return JobAuthority(
      std::make_unique<State>(State{job_uid, pair, std::move(key), std::move(certificate)}));
}

namespace {

/// A key of its own, in a certificate that `issuer` signs.
Result<KeyPair> MakePair(const Subject& subject, X509* issuer, EVP_PKEY* issuer_key) {
  if (!IsPlainUri(subject.uri)) {
    return InvalidArgument("\"" + subject.uri + "\" cannot stand in a certificate");
  }
  ASSIGN_OR_RETURN(Key key, MakeKey());
  ASSIGN_OR_RETURN(Certificate certificate,
                   MakeCertificate(subject, key.get(), issuer, issuer_key));
  KeyPair pair;
  ASSIGN_OR_RETURN(pair.certificate, ToPem(certificate.get()));
  ASSIGN_OR_RETURN(pair.key, ToPem(key.get()));
  return pair;
}

}  // namespace

Result<KeyPair> JobAuthority::Issue(const std::string& name, const std::string& uri) const {
  return MakePair({name, /*is_authority=*/false, uri}, state_->certificate.get(),
                  state_->key.get());
}

Result<KeyPair> JobAuthority::IssueHome() const {
  return MakePair({"home", /*is_authority=*/false, HomeUri(job_uid()), kAuthorityValidity},
                  state_->certificate.get(), state_->key.get());
}

Result<std::string> JobAuthority::Sign(const std::string& request, const std::string& name,
                                       const std::string& uri,
                                       std::chrono::seconds validity) const {
  if (!IsPlainUri(uri)) return InvalidArgument("\"" + uri + "\" cannot stand in a certificate");
  ASSIGN_OR_RETURN(const Key key, KeyOf(request));
  ASSIGN_OR_RETURN(const Certificate certificate,
                   MakeCertificate({name, /*is_authority=*/false, uri, validity}, key.get(),
                                   state_->certificate.get(), state_->key.get()));
  return ToPem(certificate.get());
}

Result<std::string> MakeJobUid() {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return Failed("no random bytes");
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // RFC 9562, version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace swarm::identity
