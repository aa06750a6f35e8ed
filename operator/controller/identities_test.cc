#include "operator/controller/identities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/identity/testing/made_authority.h"

namespace swarm::controller {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;

const PairsWanted kTwo{{"w0", "spiffe://job/w0"}, {"w1", "spiffe://job/w1"}};

class IdentitiesTest : public testing::Test {
 protected:
  IdentitiesTest() : authority_(identity::MadeAuthority("1234")) {}

  struct Changed {
    SecretContent content;
    PairsChange change;
  };
  /// Changes the Secret as the operator does.
  Changed Renew(const PairsWanted& wanted, const SecretContent& current = {},
                hours later = {}) const {
    auto change =
        ChangePairs(authority_, wanted, current, std::chrono::system_clock::now() + later);
    SWARM_CHECK(change.ok(), change.status().ToString());
    Changed renewed{current, *change};
    for (const std::string& key : change->removed) renewed.content.erase(key);
    for (const auto& [key, value] : change->put) renewed.content[key] = value;
    return renewed;
  }

  identity::JobAuthority authority_;
};

TEST_F(IdentitiesTest, ASecretHoldsItsPairsAndTheAuthoritysCertificate) {
  const Changed made = Renew({{"tls", "spiffe://job/w7"}});
  EXPECT_THAT(made.content, ElementsAre(Key("ca.crt"), Key("tls.crt"), Key("tls.key")));
  const auto facts = identity::ReadCertificate(made.content.at("tls.crt"), "tls.crt");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->uris, ElementsAre("spiffe://job/w7"));
}

TEST_F(IdentitiesTest, WhatIsGoodStaysToTheByteAndWhoIsGoneIsForgotten) {
  const Changed first = Renew(kTwo);
  const Changed same = Renew(kTwo, first.content);
  EXPECT_THAT(same.change.put, IsEmpty());
  EXPECT_EQ(same.content, first.content);
  const Changed next = Renew({{"w1", "spiffe://job/w1"}, {"w2", "spiffe://job/w2"}}, first.content);
  EXPECT_THAT(next.change.put, ElementsAre(Key("w2.crt"), Key("w2.key")));
  EXPECT_THAT(next.change.removed, ElementsAre("w0.crt", "w0.key"));
}

TEST_F(IdentitiesTest, WhatBelongsToNoPairIsRemoved) {
  SecretContent content = Renew(kTwo).content;
  content["w3.key"] = content["notes"] = content["w0.crt.old"] = "?";
  EXPECT_THAT(Renew(kTwo, content).change.removed, ElementsAre("notes", "w0.crt.old", "w3.key"));
}

TEST_F(IdentitiesTest, APairIsRenewedAtHalfOfItsLife) {
  const Changed first = Renew(kTwo);
  const auto half = hours(84);
  EXPECT_EQ(Renew(kTwo, first.content, half - hours(1)).content, first.content);
  const Changed next = Renew(kTwo, first.content, half + hours(1));
  EXPECT_NE(next.content.at("w0.crt"), first.content.at("w0.crt"));
  EXPECT_EQ(next.content.at("ca.crt"), first.content.at("ca.crt"));
  EXPECT_NEAR(
      std::chrono::duration<double>(first.change.renew_at - std::chrono::system_clock::now())
          .count(),
      std::chrono::duration<double>(half).count(), 600);
}

TEST_F(IdentitiesTest, WhatIsSpoiltOrAnothersIsIssuedAnew) {
  const Changed first = Renew(kTwo);
  SecretContent spoilt = first.content;
  spoilt["w0.key"] = first.content.at("w1.key");
  const Changed mended = Renew(kTwo, spoilt);
  EXPECT_NE(mended.content.at("w0.crt"), first.content.at("w0.crt"));
  EXPECT_EQ(mended.content.at("w1.key"), first.content.at("w1.key"));

  authority_ =
      identity::MadeAuthority("1234");  // as if a user had deleted the Secret of the authority
  const Changed all = Renew(kTwo, first.content);
  EXPECT_NE(all.content.at("w1.crt"), first.content.at("w1.crt"));
}

TEST_F(IdentitiesTest, TheAuthorityIsKeptInASecretOfItsOwn) {
  const SecretContent kept = AuthoritySecret(authority_);
  EXPECT_THAT(kept, ElementsAre(Key("ca.crt"), Key("ca.key")));
  const auto loaded = LoadAuthority("1234", kept);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->pair(), authority_.pair());
  EXPECT_EQ(LoadAuthority("1234", {}).status().code(), StatusCode::kInvalidArgument);
}

TEST(RenewalShownByTest, AYoungPodThatRunsHasAPairOfItsAge) {
  const api::WallTime made = api::WallTime(hours(1000));
  plan::ObservedPod pod{.created = made, .phase = plan::PodPhase::kRunning};
  EXPECT_EQ(RenewalShownBy(pod, made - hours(1), made + hours(83)), made + hours(84));
  EXPECT_EQ(RenewalShownBy(pod, made - hours(1), made + hours(85)), std::nullopt) << "it is old";
  EXPECT_EQ(RenewalShownBy(pod, made + hours(1), made + hours(2)), std::nullopt)
      << "its pair may be of the authority before";
  pod.phase = plan::PodPhase::kPending;
  EXPECT_EQ(RenewalShownBy(pod, made - hours(1), made + hours(1)), std::nullopt)
      << "it may wait for its Secret";
}

TEST(NeedsIdentityTest, APodThatHasEndedNeedsNone) {
  EXPECT_TRUE(NeedsIdentity({.phase = plan::PodPhase::kPending}));
  EXPECT_TRUE(NeedsIdentity({.phase = plan::PodPhase::kRunning}));
  EXPECT_FALSE(NeedsIdentity({.unseen = true, .phase = plan::PodPhase::kRunning}));
  EXPECT_FALSE(NeedsIdentity({.phase = plan::PodPhase::kFailed}));
  EXPECT_FALSE(NeedsIdentity({.deleted = api::WallTime(), .phase = plan::PodPhase::kRunning}));
}

}  // namespace
}  // namespace swarm::controller
