#include "operator/controller/identities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::controller {
namespace {

using testing::ElementsAre;
using testing::Key;

class IdentitiesTest : public testing::Test {
 protected:
  IdentitiesTest() : authority_(Made("1234")) {}

  static identity::JobAuthority Made(const std::string& uid) {
    auto made = identity::JobAuthority::Create(uid);
    SWARM_CHECK(made.ok(), made.status().ToString());
    return std::move(made).value();
  }
  struct Changed {
    SecretContent content;
    IdentityChange change;
  };
  /// Judges the Secret and changes it as the operator does.
  Changed Renew(const std::vector<std::string>& workers, const SecretContent& current = {},
                std::chrono::hours later = {}) const {
    const WallTime now = std::chrono::system_clock::now() + later;
    auto change = ChangeIdentities(authority_, {"llama", workers, true},
                                   JudgeIdentities(authority_, "llama", current, now), now);
    SWARM_CHECK(change.ok(), change.status().ToString());
    Changed renewed{current, *change};
    for (const std::string& key : change->removed) renewed.content.erase(key);
    for (const auto& [key, value] : change->put) renewed.content[key] = value;
    return renewed;
  }

  identity::JobAuthority authority_;
};

TEST_F(IdentitiesTest, ThereIsOnePairForTheTrainerAndForEachWorker) {
  const Changed made = Renew({"llama-w0", "llama-w7"});
  EXPECT_THAT(made.content,
              ElementsAre(Key("ca.crt"), Key("trainer.crt"), Key("trainer.key"), Key("w0.crt"),
                          Key("w0.key"), Key("w7.crt"), Key("w7.key")));
  const auto facts = identity::ReadCertificate(made.content.at("w7.crt"), "w7.crt");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->uris, ElementsAre("spiffe://swarmjob.local/job/1234/worker/llama-w7"));
}

TEST_F(IdentitiesTest, WhatIsGoodStaysToTheByteAndWhoIsGoneIsForgotten) {
  const Changed first = Renew({"llama-w0", "llama-w1"});
  const Changed same = Renew({"llama-w0", "llama-w1"}, first.content);
  EXPECT_EQ(same.content, first.content);
  const Changed next = Renew({"llama-w1", "llama-w2"}, first.content);
  EXPECT_EQ(next.content.at("w1.key"), first.content.at("w1.key"));
  EXPECT_EQ(next.content.at("trainer.crt"), first.content.at("trainer.crt"));
  EXPECT_FALSE(next.content.contains("w0.key"));
  EXPECT_TRUE(next.content.contains("w2.key"));
}

TEST_F(IdentitiesTest, WhatIsKnownIsNotJudgedAgainAndOnlyDifferencesAreWritten) {
  const Changed first = Renew({"llama-w0", "llama-w1"});
  const auto next = ChangeIdentities(authority_, {"llama", {"llama-w1", "llama-w2"}, true},
                                     first.change.held, std::chrono::system_clock::now());
  ASSERT_TRUE(next.ok());
  EXPECT_THAT(next->put, ElementsAre(Key("w2.crt"), Key("w2.key")));
  EXPECT_THAT(next->removed, ElementsAre("w0.crt", "w0.key"));
  EXPECT_THAT(next->held.good, ElementsAre(Key("trainer"), Key("w1"), Key("w2")));
  EXPECT_EQ(next->renew_at, first.change.renew_at);
}

TEST_F(IdentitiesTest, WhatBelongsToNoPairIsRemoved) {
  SecretContent content = Renew({"llama-w0"}).content;
  content["w1.key"] = content["notes"] = content["w0.crt.old"] = "?";
  EXPECT_THAT(Renew({"llama-w0"}, content).change.removed,
              ElementsAre("notes", "w0.crt.old", "w1.key"));
}

TEST_F(IdentitiesTest, APairIsRenewedAtHalfOfItsLife) {
  const Changed first = Renew({"llama-w0"});
  const auto half = std::chrono::hours(84);
  EXPECT_EQ(Renew({"llama-w0"}, first.content, half - std::chrono::hours(1)).content,
            first.content);
  const Changed next = Renew({"llama-w0"}, first.content, half + std::chrono::hours(1));
  EXPECT_NE(next.content.at("w0.crt"), first.content.at("w0.crt"));
  EXPECT_EQ(next.content.at("ca.crt"), first.content.at("ca.crt"));
  EXPECT_NEAR(
      std::chrono::duration<double>(first.change.renew_at - std::chrono::system_clock::now())
          .count(),
      std::chrono::duration<double>(half).count(), 600);
}

TEST_F(IdentitiesTest, WhatIsSpoiltOrAnothersIsIssuedAnew) {
  const Changed first = Renew({"llama-w0", "llama-w1"});
  SecretContent spoilt = first.content;
  spoilt["w0.key"] = first.content.at("w1.key");
  spoilt["trainer.crt"] = "";
  const Changed mended = Renew({"llama-w0", "llama-w1"}, spoilt);
  EXPECT_NE(mended.content.at("w0.crt"), first.content.at("w0.crt"));
  EXPECT_NE(mended.content.at("trainer.crt"), "");
  EXPECT_EQ(mended.content.at("w1.key"), first.content.at("w1.key"));

  authority_ = Made("1234");  // as if a user had deleted the Secret of the authority
  const Changed all = Renew({"llama-w0", "llama-w1"}, first.content);
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

}  // namespace
}  // namespace swarm::controller
