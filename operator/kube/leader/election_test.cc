#include "operator/kube/leader/election.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "operator/kube/testing/fake_client.h"
#include "operator/kube/testing/fake_timing.h"
#include "operator/kube/timing/micro_time.h"

namespace swarm::kube {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr Timepoint kStart{std::chrono::hours(1)};
constexpr WallTime kWall{std::chrono::hours(480'000)};

ElectionOptions Options(const std::string& identity) {
  return {.lease = {"system", "operator"}, .identity = identity};
}

LeaseRecord HeldBy(const std::string& holder, const std::string& version = "1") {
  LeaseRecord record;
  record.holder = holder;
  record.lease_seconds = 15;
  record.transitions = 4;
  record.term = 2'000'000'000'000;
  record.resource_version = version;
  return record;
}

TEST(ElectionRulesTest, ALeaseThatIsNotThereIsMade) {
  ElectionRules rules(Options("me"));
  rules.OnRead({}, kStart);
  const auto wish = rules.Wish(kStart, kWall);
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->holder, "me");
  EXPECT_EQ(wish->lease_seconds, 15);
  EXPECT_EQ(wish->transitions, 0);
  EXPECT_TRUE(wish->resource_version.empty());
}

TEST(ElectionRulesTest, AnothersLeaseIsOverWhenWeHaveSeenItUnchangedForItsLength) {
  ElectionRules rules(Options("me"));
  rules.OnRead(HeldBy("other"), kStart);
  EXPECT_FALSE(rules.Wish(kStart, kWall));
  // Renewed: its duration begins again.
  rules.OnRead(HeldBy("other", "2"), kStart + seconds(14));
  EXPECT_FALSE(rules.Wish(kStart + seconds(28), kWall));
  rules.OnRead(HeldBy("other", "2"), kStart + seconds(28));
  const auto wish = rules.Wish(kStart + seconds(29), kWall);
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->transitions, 5);
  EXPECT_EQ(wish->resource_version, "2");
}

TEST(ElectionRulesTest, TimesOfOtherMachinesMatterNot) {
  ElectionRules rules(Options("me"));
  LeaseRecord record = HeldBy("other");
  record.renew_time = "1970-01-01T00:00:00.000000Z";
  rules.OnRead(record, kStart);
  EXPECT_FALSE(rules.Wish(kStart + seconds(14), kWall));
}

TEST(ElectionRulesTest, AFreeLeaseIsTakenAtOnce) {
  ElectionRules rules(Options("me"));
  rules.OnRead(HeldBy(""), kStart);
  EXPECT_TRUE(rules.Wish(kStart, kWall));
}

TEST(ElectionRulesTest, TermsNeverGoBackNotEvenOverADeletedLease) {
  ElectionRules rules(Options("me"));
  rules.OnRead(HeldBy(""), kStart);
  EXPECT_EQ(rules.Wish(kStart, kWall)->term, 2'000'000'000'001);
  rules.OnRead({}, kStart);
  EXPECT_EQ(rules.Wish(kStart, kWall)->term, 480'000LL * 3600);
}

TEST(ElectionRulesTest, TermsGoOnWhereTheElectionIsSwitchedOffAndOnAgain) {
  ElectionRules before(Options("first"));
  before.OnRead({}, kStart);
  const LeaseRecord elected = *before.Wish(kStart, kWall);
  const std::int64_t alone = NextTerm(0, kWall + seconds(1));
  EXPECT_GT(alone, elected.term);
  ElectionRules after(Options("third"));
  after.OnRead(elected, kStart);
  EXPECT_GT(after.Wish(kStart + seconds(20), kWall + seconds(20))->term, alone);
}

TEST(ElectionRulesTest, ALeaderKeepsItsTermAndIsLostWhenItCouldNotRenew) {
  ElectionRules rules(Options("me"));
  rules.OnRead({}, kStart);
  LeaseRecord record = *rules.Wish(kStart, kWall);
  record.resource_version = "1";
  rules.OnWritten(record, kStart);
  EXPECT_TRUE(rules.leading());
  const auto renewal = rules.Wish(kStart + seconds(2), kWall + seconds(2));
  ASSERT_TRUE(renewal);
  EXPECT_EQ(renewal->term, rules.term());
  EXPECT_EQ(renewal->acquire_time, record.acquire_time);
  EXPECT_NE(renewal->renew_time, record.renew_time);
  EXPECT_FALSE(rules.IsLost(kStart + seconds(9)));
  EXPECT_TRUE(rules.IsLost(kStart + seconds(10)));
}

TEST(ElectionRulesTest, ALeaderThatSeesAnothersNameIsLost) {
  ElectionRules rules(Options("me"));
  rules.OnRead({}, kStart);
  rules.OnWritten(*rules.Wish(kStart, kWall), kStart);
  rules.OnRead(HeldBy("other"), kStart + seconds(1));
  EXPECT_TRUE(rules.IsLost(kStart + seconds(1)));
}

TEST(LeaseTest, ARecordSurvivesTheWayThroughJson) {
  LeaseRecord record = HeldBy("me", "17");
  record.acquire_time = MicroTime(kWall);
  record.renew_time = MicroTime(kWall + seconds(1));
  EXPECT_EQ(FromLease(ToLease({"ns", "name"}, record)), record);
}

TEST(LeaseTest, ALeaseMadeByHandReadsAsFree) {
  for (const char* text : {"{}", "{\"spec\":{}}", "{\"spec\":{\"holderIdentity\":3}}"}) {
    EXPECT_EQ(FromLease(json::parse(text)).holder, "") << text;
  }
}

TEST(MicroTimeTest, IsRfc3339WithSixDigits) {
  EXPECT_EQ(MicroTime(WallTime(seconds(1'767'225'599) + std::chrono::microseconds(1))),
            "2025-12-31T23:59:59.000001Z");
}

// An API server that has one Lease, or is away.
class LeaseServer final : public FakeClient {
 public:
  Result<Object> Get(const Resource&, const ObjectName&, const GetOptions&) override {
    const std::lock_guard lock(mutex_);
    ++calls_;
    changed_.notify_all();
    if (away_) return Unavailable("away");
    if (lease_.is_null()) return NotFound("no lease");
    return Share();
  }
  Result<Object> Create(const Resource&, const json& lease, const WriteOptions&) override {
    const std::lock_guard lock(mutex_);
    if (away_) return Unavailable("away");
    if (!lease_.is_null()) return AlreadyExists("there is one");
    return Take(lease);
  }
  Result<Object> Update(const Resource&, const json& lease, const WriteOptions&) override {
    const std::lock_guard lock(mutex_);
    ++calls_;
    changed_.notify_all();
    if (away_) return Unavailable("away");
    if (lease_.is_null()) return NotFound("no lease");
    if (ResourceVersionOf(lease) != ResourceVersionOf(lease_))
      return Status(StatusCode::kAborted, "conflict");
    return Take(lease);
  }

  void GoAway() {
    const std::lock_guard lock(mutex_);
    away_ = true;
  }
  void Put(const LeaseRecord& record) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(Take(ToLease({"system", "operator"}, record)));
  }
  LeaseRecord record() const {
    const std::lock_guard lock(mutex_);
    return FromLease(lease_);
  }
  bool WaitForCalls(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(10), [&] { return calls_ >= count; });
  }

 private:
  Object Share() const { return std::make_shared<const json>(lease_); }
  Object Take(json lease) {
    lease_ = std::move(lease);
    lease_["metadata"]["resourceVersion"] = std::to_string(++version_);
    return Share();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  json lease_;
  int version_ = 0;
  int calls_ = 0;
  bool away_ = false;
};

class Outcome {
 public:
  ElectionCallbacks Callbacks() {
    return {[this](std::int64_t term) { Set(started_, term); }, [this] { Set(lost_, 1); }};
  }
  std::int64_t WaitForStart() { return Wait(started_); }
  bool WaitForLoss() { return Wait(lost_) == 1; }
  bool lost() {
    const std::lock_guard lock(mutex_);
    return lost_ == 1;
  }

 private:
  void Set(std::int64_t& what, std::int64_t value) {
    const std::lock_guard lock(mutex_);
    what = value;
    changed_.notify_all();
  }
  std::int64_t Wait(const std::int64_t& what) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, seconds(10), [&] { return what != 0; });
    return what;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t started_ = 0;
  std::int64_t lost_ = 0;
};

TEST(ElectorTest, TheFirstLeadsAndGivesTheLeaseBackWhenItStops) {
  LeaseServer server;
  FakeTiming timing;
  Outcome outcome;
  {
    Elector elector(server, Options("me"), outcome.Callbacks(), timing);
    elector.Start();
    EXPECT_GT(outcome.WaitForStart(), 0);
    EXPECT_EQ(server.record().holder, "me");
  }
  EXPECT_EQ(server.record().holder, "");
  EXPECT_EQ(server.record().lease_seconds, 1);
  EXPECT_FALSE(outcome.lost());
}

TEST(ElectorTest, TheSecondLeadsWhenTheFirstHasGoneWithoutAWordAndInAHigherTerm) {
  LeaseServer server;
  FakeTiming timing;
  server.Put(HeldBy("other"));
  Outcome outcome;
  Elector elector(server, Options("me"), outcome.Callbacks(), timing);
  elector.Start();
  EXPECT_EQ(outcome.WaitForStart(), HeldBy("other").term + 1);
  Duration waited{};
  for (const Duration pause : timing.sleeps()) waited += pause;
  EXPECT_GE(waited, seconds(15));
}

TEST(ElectorTest, ALeaderThatCannotReachTheServerIsLost) {
  LeaseServer server;
  FakeTiming timing;
  Outcome outcome;
  Elector elector(server, Options("me"), outcome.Callbacks(), timing);
  elector.Start();
  ASSERT_GT(outcome.WaitForStart(), 0);
  server.GoAway();
  EXPECT_TRUE(outcome.WaitForLoss());
  EXPECT_FALSE(elector.leading());
}

TEST(ElectorTest, ALeaderThatIsOvertakenIsLost) {
  LeaseServer server;
  FakeTiming timing;
  Outcome outcome;
  Elector elector(server, Options("me"), outcome.Callbacks(), timing);
  elector.Start();
  ASSERT_GT(outcome.WaitForStart(), 0);
  server.Put(HeldBy("other"));
  EXPECT_TRUE(outcome.WaitForLoss());
}

TEST(ElectorTest, ACandidateBearsAServerThatIsAway) {
  LeaseServer server;
  server.GoAway();
  FakeTiming timing;
  Outcome outcome;
  Elector elector(server, Options("me"), outcome.Callbacks(), timing);
  elector.Start();
  EXPECT_TRUE(server.WaitForCalls(20));
  EXPECT_FALSE(outcome.lost());
}

TEST(IdentityTest, NoTwoAreAlike) { EXPECT_NE(MakeIdentity(), MakeIdentity()); }

}  // namespace
}  // namespace swarm::kube
