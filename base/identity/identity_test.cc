#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/identity/authority.h"
#include "base/identity/testing/made_authority.h"

namespace swarm::identity {
namespace {

TEST(JobAuthorityTest, IsLoadedFromItsPairAndGoesOnIssuing) {
  const JobAuthority made = MadeAuthority("7");
  const auto loaded = JobAuthority::Load("7", made.pair());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->pair(), made.pair());
  const auto pair = loaded->Issue("w0", WorkerUri("7", "w0"));
  ASSERT_TRUE(pair.ok());
  EXPECT_TRUE(CheckPair(*pair, "certificate", "key").ok());
}

TEST(JobAuthorityTest, OutlivesItsLeavesByFar) {
  const JobAuthority authority = MadeAuthority("7");
  const auto root = ReadCertificate(authority.pair().certificate, "ca.crt");
  const auto pair = authority.Issue("trainer", TrainerUri("7"));
  ASSERT_TRUE(root.ok() && pair.ok());
  const auto leaf = ReadCertificate(pair->certificate, "tls.crt");
  ASSERT_TRUE(leaf.ok());
  EXPECT_TRUE(root->is_authority);
  EXPECT_FALSE(leaf->is_authority);
  EXPECT_THAT(leaf->uris, testing::ElementsAre("spiffe://swarmjob.local/job/7/trainer"));
  EXPECT_EQ(leaf->not_after - leaf->not_before, kLeafValidity + std::chrono::seconds(300));
  EXPECT_GT(root->not_after - leaf->not_after, std::chrono::hours(9 * 365 * 24));
}

TEST(JobAuthorityTest, HomesCertificateLastsAsLongAsTheAuthority) {
  const JobAuthority authority = MadeAuthority("7");
  const auto home = authority.IssueHome();
  ASSERT_TRUE(home.ok()) << home.status().ToString();
  const auto facts = ReadCertificate(home->certificate, "home's");
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->uris, std::vector{HomeUri("7")});
  EXPECT_GT(facts->not_after, std::chrono::system_clock::now() + std::chrono::hours(9 * 365 * 24));
  EXPECT_TRUE(CheckPair(*home, "its", "key").ok());
}

TEST(JobAuthorityTest, IsNotLoadedFromWhatIsNone) {
  const JobAuthority authority = MadeAuthority("7"), other = MadeAuthority("8");
  const auto leaf = authority.Issue("trainer", TrainerUri("7"));
  ASSERT_TRUE(leaf.ok());
  const KeyPair foreign{authority.pair().certificate, other.pair().key};
  for (const KeyPair& pair : {KeyPair{}, KeyPair{"x", "y"}, foreign, *leaf}) {
    EXPECT_EQ(JobAuthority::Load("7", pair).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(PemTest, NamesWhatIsWrong) {
  EXPECT_THAT(ReadCertificate("", "/tls/ca.crt").status().message(),
              testing::HasSubstr("/tls/ca.crt holds no certificate"));
  const JobAuthority one = MadeAuthority("1"), two = MadeAuthority("2");
  EXPECT_THAT(CheckPair({one.pair().certificate, two.pair().key}, "a.crt", "b.key").message(),
              testing::HasSubstr("b.key is not the key of a.crt"));
}

TEST(JobUidTest, IsAUuidAndNeverTheSame) {
  const auto first = MakeJobUid(), second = MakeJobUid();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(*first,
              testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                                    "[0-9a-f]{12}"));
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace swarm::identity
