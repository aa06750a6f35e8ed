#include "base/identity/trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/identity/authority.h"
#include "base/identity/request.h"
#include "base/identity/testing/made_authority.h"

namespace swarm::identity {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class TrustTest : public testing::Test {
 protected:
  static KeyAndRequest Asked() {
    auto asked = MakeRequest("laptop");
    SWARM_CHECK(asked.ok(), asked.status().ToString());
    return *std::move(asked);
  }

  const JobAuthority authority_ = MadeAuthority("7"), other_ = MadeAuthority("8");
  const std::string uri_ = WorkerUri("7", "joined-1");
};

TEST_F(TrustTest, ARequestGetsACertificateOfItsKeyForTheIdentityThatTheAuthorityChooses) {
  const KeyAndRequest asked = Asked();
  const auto certificate = authority_.Sign(asked.request, "joined-1", uri_, seconds(3600));
  ASSERT_TRUE(certificate.ok()) << certificate.status().ToString();
  EXPECT_TRUE(CheckPair({*certificate, asked.key}, "certificate", "key").ok());
  const auto facts = ReadCertificate(*certificate, "certificate");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->uris, ElementsAre(uri_));
  EXPECT_FALSE(facts->is_authority);
  EXPECT_EQ(facts->not_after - facts->not_before, seconds(3600 + 300));
  EXPECT_TRUE(CheckSigned(*certificate, authority_.pair().certificate).ok());
}

TEST_F(TrustTest, WhatIsNoRequestGetsNoCertificate) {
  const auto why = [&](const std::string& request) {
    return authority_.Sign(request, "joined-1", uri_, seconds(3600)).status();
  };
  EXPECT_THAT(why("").message(), HasSubstr("no request"));
  EXPECT_THAT(why(authority_.pair().certificate).message(), HasSubstr("no request"));
  // One character of the signature, which ends before the last lines.
  std::string damaged = Asked().request;
  char& character = damaged[damaged.rfind("\n-----END") - 20];
  character = character == 'A' ? 'B' : 'A';
  EXPECT_EQ(why(damaged).code(), StatusCode::kInvalidArgument);
}

TEST_F(TrustTest, ARequestThatIsEncryptedIsRefusedAndNoTerminalIsAskedForAPassword) {
  std::string encrypted = Asked().request;
  encrypted.insert(encrypted.find('\n') + 1,
                   "Proc-Type: 4,ENCRYPTED\n"
                   "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n");
  testing::internal::CaptureStderr();
  const auto refused = authority_.Sign(encrypted, "joined-1", uri_, seconds(3600)).status();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
}

TEST_F(TrustTest, ACertificateOfAnotherAuthorityOrOneThatHasEndedIsNotTrusted) {
  const std::string request = Asked().request;
  const auto foreign = other_.Sign(request, "joined-1", uri_, seconds(3600));
  const auto ended = authority_.Sign(request, "joined-1", uri_, seconds(-1));
  ASSERT_TRUE(foreign.ok() && ended.ok());
  for (const auto& each : {*foreign, *ended, authority_.pair().certificate}) {
    EXPECT_EQ(CheckSigned(each, authority_.pair().certificate).code(),
              StatusCode::kUnauthenticated);
  }
}

TEST_F(TrustTest, AFingerprintFindsTheAuthorityInAChain) {
  const auto pair = authority_.Issue("home", HomeUri("7"));
  const auto fingerprint = Fingerprint(authority_.pair().certificate, "ca.crt");
  const auto foreign = Fingerprint(other_.pair().certificate, "ca.crt");
  ASSERT_TRUE(pair.ok() && fingerprint.ok() && foreign.ok());
  const std::string chain = pair->certificate + authority_.pair().certificate;
  const auto found = FindByFingerprint(chain, *fingerprint);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(*found, authority_.pair().certificate);
  EXPECT_EQ(FindByFingerprint(chain, *foreign).status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(FindByFingerprint("", *foreign).status().code(), StatusCode::kUnauthenticated);
}

TEST_F(TrustTest, DigestsAreThoseOfTheStandardAndSecretsAreNeverTheSame) {
  EXPECT_EQ(Sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const auto first = MakeSecret(16), second = MakeSecret(16);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(*first, testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace swarm::identity
