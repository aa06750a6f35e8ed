#include "ctl/run/identity_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>

#include "base/files.h"
#include "base/identity/testing/made_authority.h"
#include "base/testing/temporary_folder.h"

namespace swarm::ctl {
namespace {

using identity::JobAuthority;
using identity::ObserverUri;
using identity::TrainerUri;
using identity::WorkerUri;

struct Freeing {
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Freeing>;

std::string Content(const std::filesystem::path& path) {
  const auto content = ReadFile(path);
  EXPECT_TRUE(content.ok()) << content.status().ToString();
  return content.ok() ? *content : std::string();
}

Owned<BIO> Open(const std::string& text) {
  Owned<BIO> memory(BIO_new(BIO_s_mem()));
  BIO_write(memory.get(), text.data(), static_cast<int>(text.size()));
  return memory;
}

Owned<X509> LoadCertificate(const std::filesystem::path& path) {
  const Owned<BIO> memory = Open(Content(path));
  return Owned<X509>(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
}

// OpenSSL's verdict on the chain, for `purpose` at the time `when`.
int Verdict(const IdentityFiles& files, const std::filesystem::path& ca, int purpose, time_t when) {
  const Owned<X509> root = LoadCertificate(ca), leaf = LoadCertificate(files.certificate);
  const Owned<X509_STORE> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), root.get());
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()), when);
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  return X509_verify_cert(context.get()) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context.get());
}

std::vector<std::string> UrisOf(X509* certificate) {
  std::vector<std::string> uris;
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const auto* text = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                      ASN1_STRING_length(text));
  }
  return uris;
}

class IdentityTest : public testing::Test {
 protected:
  IdentityFiles Issued(const JobAuthority& authority, const std::string& folder = "tls") {
    const auto files = WriteIdentity(
        authority, "worker-0", WorkerUri(authority.job_uid(), "worker-0"), folder_.path() / folder);
    SWARM_CHECK(files.ok(), files.status().ToString());
    return *files;
  }
  TemporaryFolder folder_;
};

constexpr time_t kDay = 24 * 3600;

TEST_F(IdentityTest, ACertificateIsValidUnderTheAuthorityOfItsJobForBothSides) {
  const IdentityFiles files = Issued(identity::MadeAuthority("1"));
  const time_t now = std::time(nullptr);
  EXPECT_EQ(Verdict(files, files.ca, X509_PURPOSE_SSL_SERVER, now), X509_V_OK);
  EXPECT_EQ(Verdict(files, files.ca, X509_PURPOSE_SSL_CLIENT, now), X509_V_OK);
}

TEST_F(IdentityTest, AnotherAuthorityDoesNotVouchForIt) {
  const IdentityFiles files = Issued(identity::MadeAuthority("1"));
  const IdentityFiles other = Issued(identity::MadeAuthority("1"), "other");
  EXPECT_NE(Verdict(files, other.ca, X509_PURPOSE_SSL_SERVER, std::time(nullptr)), X509_V_OK);
}

TEST_F(IdentityTest, ItIsValidForAWeek) {
  const IdentityFiles files = Issued(identity::MadeAuthority("1"));
  const time_t now = std::time(nullptr);
  EXPECT_EQ(Verdict(files, files.ca, X509_PURPOSE_SSL_SERVER, now + 6 * kDay), X509_V_OK);
  EXPECT_EQ(Verdict(files, files.ca, X509_PURPOSE_SSL_SERVER, now + 8 * kDay),
            X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST_F(IdentityTest, ARunThatLastsLongerGetsNewOnesBeforeTheyEnd) {
  const JobAuthority authority = identity::MadeAuthority("1");
  RunIdentities identities(authority, folder_.path() / "tls");
  const auto begun = std::chrono::system_clock::now();
  const auto files = identities.Write("worker-0", WorkerUri("1", "worker-0"), begun);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const std::string first = Content(files->certificate);
  ASSERT_TRUE(identities.RenewDue(begun + std::chrono::hours(3 * 24)).ok());
  EXPECT_EQ(Content(files->certificate), first);
  ASSERT_TRUE(identities.RenewDue(begun + std::chrono::hours(4 * 24)).ok());
  EXPECT_NE(Content(files->certificate), first);
  EXPECT_EQ(Verdict(*files, files->ca, X509_PURPOSE_SSL_SERVER, std::time(nullptr)), X509_V_OK);
}

TEST_F(IdentityTest, ItNamesTheProgramAndThisMachine) {
  const IdentityFiles files = Issued(identity::MadeAuthority("0f8e"));
  const Owned<X509> certificate = LoadCertificate(files.certificate);
  EXPECT_THAT(UrisOf(certificate.get()),
              testing::ElementsAre("spiffe://swarmjob.local/job/0f8e/worker/worker-0"));
  EXPECT_EQ(X509_check_host(certificate.get(), "localhost", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_host(certificate.get(), "example.org", 0, 0, nullptr), 0);
  EXPECT_EQ(TrainerUri("u"), "spiffe://swarmjob.local/job/u/trainer");
  EXPECT_EQ(ObserverUri("u"), "spiffe://swarmjob.local/job/u/observer");
}

TEST_F(IdentityTest, TheKeyBelongsToTheCertificateAndIsOfP256) {
  const IdentityFiles files = Issued(identity::MadeAuthority("1"));
  const Owned<BIO> memory = Open(Content(files.key));
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(memory.get(), nullptr, nullptr, nullptr));
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(X509_check_private_key(LoadCertificate(files.certificate).get(), key.get()), 1);
  char group[32] = "";
  std::size_t length = 0;
  EVP_PKEY_get_group_name(key.get(), group, sizeof group, &length);
  EXPECT_STREQ(group, "prime256v1");
}

TEST_F(IdentityTest, OnlyTheOwnerMayReadTheFiles) {
  using std::filesystem::perms;
  const IdentityFiles files = Issued(identity::MadeAuthority("1"));
  for (const auto& path : {files.ca, files.certificate, files.key}) {
    EXPECT_EQ(std::filesystem::status(path).permissions(), perms::owner_read | perms::owner_write);
  }
  EXPECT_EQ(std::filesystem::status(files.key.parent_path()).permissions(), perms::owner_all);
}

TEST_F(IdentityTest, AnIdThatCouldSmuggleInAnotherNameIsRefused) {
  const JobAuthority authority = identity::MadeAuthority("1");
  for (const char* id : {"a,DNS:example.org", "a b", "a\n", "a%2f"}) {
    const auto files = WriteIdentity(authority, "x", WorkerUri("1", id), folder_.path());
    EXPECT_EQ(files.status().code(), StatusCode::kInvalidArgument) << id;
  }
}

}  // namespace
}  // namespace swarm::ctl
