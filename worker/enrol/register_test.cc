#include "worker/enrol/register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::enrol {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RegisterTest : public testing::Test {
 protected:
  RegisterTest() { Create("5f2c", {.lifetime = hours(1), .uses = 2}); }

  void Create(const std::string& id, const TokenTerms& terms) {
    const Status status = register_.Create(id, "digest of " + id, terms, now_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  Result<std::string> Join(const std::string& id = "5f2c", const std::string& source = "10.0.0.7") {
    return register_.Enrol({id, "digest of " + id, source}, now_);
  }
  /// The name of a worker that could join.
  std::string Joined(const std::string& id = "5f2c") {
    const auto worker = Join(id);
    EXPECT_TRUE(worker.ok()) << worker.status().ToString();
    return worker.ok() ? *worker : "";
  }

  Timepoint now_{hours(1000)};
  Register register_;
};

TEST_F(RegisterTest, EachBearerIsAnotherWorkerUntilTheTokenIsUsedUp) {
  EXPECT_EQ(Joined(), "joined-0");
  EXPECT_EQ(Joined(), "joined-1");
  const auto third = Join();
  EXPECT_EQ(third.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(third.status().message(), HasSubstr("5f2c is used up"));
  EXPECT_THAT(third.status().message(), HasSubstr("swarmctl token create"));
}

TEST_F(RegisterTest, ATokenExpiresAtItsTime) {
  now_ += hours(1) - seconds(1);
  Joined();
  now_ += seconds(61);
  const auto late = Join();
  EXPECT_EQ(late.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(late.status().message(), HasSubstr("expired 1m00s ago"));
}

TEST_F(RegisterTest, AWrongSecretAndAnUnknownTokenAreRefusedInTheSameWords) {
  const auto wrong = register_.Enrol({"5f2c", "another digest", "10.0.0.7"}, now_);
  const auto unknown = register_.Enrol({"0000", "digest of 5f2c", "10.0.0.7"}, now_);
  EXPECT_EQ(wrong.status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(wrong.status().ToString(), unknown.status().ToString());
  EXPECT_THAT(wrong.status().message(), HasSubstr("of another run or job, or forged"));
}

TEST_F(RegisterTest, ARevokedTokenTakesTheWorkersAlongThatJoinedWithIt) {
  Create("77aa", {});
  const std::string first = Joined(), other = Joined("77aa"), second = Joined();
  const auto out = register_.Revoke("5f2c");
  ASSERT_TRUE(out.ok());
  EXPECT_THAT(*out, ElementsAre(first, second));
  EXPECT_THAT(register_.revoked(), ElementsAre(first, second));
  EXPECT_EQ(register_.MayRenew(first).code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(register_.MayRenew(other).ok());
  EXPECT_THAT(Join().status().message(), HasSubstr("5f2c was revoked"));
}

TEST_F(RegisterTest, ARevokedWorkerLeavesItsTokenGood) {
  const std::string worker = Joined();
  const auto out = register_.Revoke(worker);
  ASSERT_TRUE(out.ok());
  EXPECT_THAT(*out, ElementsAre(worker));
  const auto again = register_.Revoke(worker);
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(*again, IsEmpty());
  EXPECT_EQ(Joined(), "joined-1") << "a name is never used twice";
}

TEST_F(RegisterTest, OnlyWhoWasEnrolledHereRenews) {
  EXPECT_EQ(register_.MayRenew("worker-0").code(), StatusCode::kNotFound);
  EXPECT_EQ(register_.Revoke("worker-0").status().code(), StatusCode::kNotFound);
}

TEST_F(RegisterTest, ASourceThatFailsTooOftenWaitsWhileOthersDoNot) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Join("0000").status().code(), StatusCode::kUnauthenticated);
    now_ += seconds(1);
  }
  const auto barred = Join();
  EXPECT_EQ(barred.status().code(), StatusCode::kResourceExhausted) << "even with a good token";
  EXPECT_THAT(barred.status().message(), HasSubstr("from 10.0.0.7; try again in 50s"));
  EXPECT_TRUE(Join("5f2c", "10.0.0.8").ok());
  now_ += minutes(1);
  EXPECT_TRUE(Join().ok());
}

TEST_F(RegisterTest, ManySourcesNeedBoundedMemoryAndShareTheirFailures) {
  Register crowded({.failures = {.failures_max = 2, .sources_max = 3}});
  ASSERT_TRUE(crowded.Create("5f2c", "digest of 5f2c", {}, now_).ok());
  const auto fail = [&](int source) {
    return crowded.Enrol({"0000", "", "10.0.1." + std::to_string(source)}, now_).status().code();
  };
  for (int source = 0; source < 5; ++source) EXPECT_EQ(fail(source), StatusCode::kUnauthenticated);
  EXPECT_EQ(fail(5), StatusCode::kResourceExhausted) << "3 and 4 were the strangers' failures";
  EXPECT_EQ(fail(0), StatusCode::kUnauthenticated);
}

TEST_F(RegisterTest, TermsThatNobodyCanUseAreRefused) {
  EXPECT_EQ(register_.Create("a", "", {.uses = 0}, now_).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(register_.Create("a", "", {.lifetime = {}}, now_).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(register_.Create("5f2c", "", {}, now_).code(), StatusCode::kAlreadyExists);
}

TEST_F(RegisterTest, TheOwnerSeesWhatBecameOfEachToken) {
  const std::string worker = Joined();
  Joined();
  Create("77aa", {.lifetime = minutes(5), .uses = 3});
  Create("88bb", {});
  ASSERT_TRUE(register_.Revoke("88bb").ok());
  ASSERT_TRUE(register_.Revoke(worker).ok());
  now_ += minutes(10);
  const auto list = register_.List(now_);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].state, TokenState::kUsedUp);
  EXPECT_EQ(list[0].uses_left, 0u);
  EXPECT_EQ(list[0].time_left, minutes(50));
  EXPECT_THAT(list[0].workers, ElementsAre("joined-1"));
  EXPECT_EQ(list[1].state, TokenState::kExpired);
  EXPECT_EQ(list[1].uses_left, 3u);
  EXPECT_EQ(list[1].time_left, Duration::zero());
  EXPECT_EQ(list[2].state, TokenState::kRevoked);
}

}  // namespace
}  // namespace swarm::enrol
