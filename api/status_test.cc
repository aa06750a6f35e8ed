#include "api/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/status_json.h"

namespace swarm::api {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

WallTime At(std::int64_t seconds) { return WallTime(std::chrono::seconds(seconds)); }

// Where the first mistake in this JSON is.
std::string FirstPath(const std::string& text) {
  const Checked<SwarmJobStatus> status = StatusFromJson(json::parse(text));
  return status.ok() ? std::string() : status.errors().front().path;
}

std::uint64_t Number() { return *rc::gen::arbitrary<std::uint64_t>(); }
WallTime AnyTime() { return At(*rc::gen::inRange<std::int64_t>(0, 253'402'300'799)); }
std::optional<WallTime> MaybeTime() {
  return *rc::gen::arbitrary<bool>() ? std::optional(AnyTime()) : std::nullopt;
}

std::optional<PlanChoice> AnyChoice() {
  if (*rc::gen::arbitrary<bool>()) return std::nullopt;
  PlanChoice choice{.generation = Number(), .stages = Number()};
  if (*rc::gen::arbitrary<bool>()) return choice;
  choice.layers = {Number(), Number()};
  choice.codec = BoundaryCodec::kInt8;
  choice.residency = Residency::kSwap;
  choice.stepMode = StepMode::kDelayed;
  choice.overlap = *rc::gen::arbitrary<bool>();
  choice.microbatchSize = Number();
  choice.inFlightMax = Number();
  choice.deviceMemory = Number();
  choice.replicas = Number();
  choice.tokensPerSecond = 1.0 / 3;
  choice.limitedBy = "the devices of stage 0";
  choice.dollarsPerBillionTokens = 2.5;
  return choice;
}

SwarmJobStatus AnyStatus() {
  SwarmJobStatus status;
  status.observedGeneration = Number();
  status.state = *rc::gen::element(JobState::kRunning, JobState::kRejected, JobState::kRecovering);
  status.conditions = {{"Ready", ConditionStatus::kFalse, Number(), AnyTime(), "Why", "text"},
                       {"Failed", ConditionStatus::kTrue, Number(), AnyTime(), "Why", ""}};
  status.step = Number();
  if (*rc::gen::arbitrary<bool>()) {
    status.cost = {12.5, AnyTime(), "$12.50", 0.75, 1e-7, std::nullopt};
  }
  status.plan = {Number(), Number(), {Number(), Number()}, AnyChoice()};
  status.trainer = {Number(), *rc::gen::element("", "job-trainer-7")};
  status.nextWorkerOrdinal = Number();
  const auto open = *rc::gen::container<std::set<std::uint8_t>>(rc::gen::arbitrary<std::uint8_t>());
  status.openWorkers.assign(open.begin(), open.end());
  status.replicas = Number();
  status.readyReplicas = Number();
  if (*rc::gen::arbitrary<bool>()) {
    status.clusters = {{"west", ClusterState::kAway, MaybeTime(), Number(), Number(), {}}};
    status.clusters[0].workers = *rc::gen::element<std::optional<std::vector<PoolWorkers>>>(
        std::nullopt, std::vector<PoolWorkers>(),
        std::vector<PoolWorkers>{{"spot", {3, 4, 9}}, {"other", {}}});
    status.readyByCluster = "home 1/2, west 0/1 (away)";
  }
  if (*rc::gen::arbitrary<bool>()) status.machines = {{3, "friends", "1a2b", AnyTime()}};
  status.selector = *rc::gen::element("", "a=b");
  status.stages = {{0, Number()}, {1, Number()}};
  status.preemptions = Number();
  status.failures = Number();
  status.unexplained = Number();
  status.failureTimes = {AnyTime(), AnyTime()};
  status.pools = {{"spot", PoolState::kProbing, MaybeTime(), Number(), MaybeTime()}};
  status.nodes = {{"a", "ip-a", Number(), AnyTime(), *rc::gen::arbitrary<bool>()}};
  status.hasRun = {*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>()};
  status.image = {*rc::gen::element("", "registry/swarm-worker:1"), "linux/amd64", "again"};
  status.lastCheckpoint = {Number(), MaybeTime()};
  status.startTime = MaybeTime();
  status.completionTime = MaybeTime();
  return status;
}

TEST(StatusTest, ReadingWhatWasWrittenGivesTheSameStatus) {
  EXPECT_TRUE(rc::check("StatusFromJson(StatusToJson(status)) == status", [] {
    const SwarmJobStatus status = AnyStatus();
    const Checked<SwarmJobStatus> again = StatusFromJson(StatusToJson(status));
    RC_ASSERT(again.ok());
    RC_ASSERT(*again == status);
  }));
}

TEST(StatusTest, AnObjectWithoutStatusIsANewJob) {
  for (const char* text : {"null", "{}", R"({"fieldOfNextYear": 5})"}) {
    const Checked<SwarmJobStatus> status = StatusFromJson(json::parse(text));
    ASSERT_TRUE(status.ok()) << ToString(status.errors());
    EXPECT_EQ(*status, SwarmJobStatus());
  }
}

TEST(StatusTest, AWrongTypeIsRefusedAtItsField) {
  EXPECT_EQ(FirstPath("5"), "status");
  EXPECT_EQ(FirstPath(R"({"step": "many"})"), "status.step");
  EXPECT_EQ(FirstPath(R"({"state": "Happy"})"), "status.state");
  EXPECT_EQ(FirstPath(R"({"conditions": [{"type": "Ready"}]})"), "status.conditions[0].status");
  EXPECT_EQ(FirstPath(R"({"stages": 3})"), "status.stages");
  EXPECT_EQ(FirstPath(R"({"plan": {"layout": [1, -1]}})"), "status.plan.layout[1]");
  EXPECT_EQ(FirstPath(R"({"failureTimes": ["yesterday"]})"), "status.failureTimes[0]");
  EXPECT_EQ(FirstPath(R"({"trainer": "me"})"), "status.trainer");
}

TEST(StatusTest, AJobWithoutPricesHasNoCost) {
  SwarmJobStatus status;
  EXPECT_FALSE(StatusToJson(status).contains("cost"));
  status.cost.dollarsPerHour = 2;
  EXPECT_EQ(StatusToJson(status)["cost"]["dollarsPerHour"], 2);
}

TEST(StatusTest, TrafficIsReadAsItIsWritten) {
  SwarmJobStatus status;
  status.traffic = {
      {.between = {"eu", "us"}, .bytes = 1ull << 53, .dollars = 0.5, .term = 2, .bytesBefore = 7}};
  const json written = StatusToJson(status);
  EXPECT_EQ(written["traffic"][0]["between"], json({"eu", "us"}));
  EXPECT_EQ(written["traffic"][0]["bytes"], 9007199254740992);
  EXPECT_EQ(StatusFromJson(written)->traffic, status.traffic);
}

TEST(StatusTest, OpenWorkersAreWrittenAsRanges) {
  SwarmJobStatus status;
  EXPECT_EQ(StatusToJson(status)["openWorkers"], "");
  status.openWorkers = {0, 1, 2, 5, 7, 8};
  EXPECT_EQ(StatusToJson(status)["openWorkers"], "0-2,5,7-8");
}

TEST(StatusTest, RangesThatClaimTooMuchOrRunBackwardsAreRefused) {
  for (const char* text :
       {"0-18446744073709551615", "3-1", "1,1", "5,2", "0-1,1-2", "a", "1,", ",1", "-1", "1-", " 1",
        "99999999999999999999", "0-600000,700000-1300000"}) {
    EXPECT_EQ(FirstPath(json{{"openWorkers", text}}.dump()), "status.openWorkers") << text;
  }
}

TEST(StatusTest, AConditionKeepsItsTimeUntilItsStatusFlips) {
  SwarmJobStatus status;
  SetCondition({"Ready", ConditionStatus::kFalse, 1, At(10), "Starting", ""}, &status);
  SetCondition({"Ready", ConditionStatus::kFalse, 2, At(20), "Waiting", "for w1"}, &status);
  EXPECT_THAT(status.conditions, ElementsAre(Condition{"Ready", ConditionStatus::kFalse, 2, At(10),
                                                       "Waiting", "for w1"}));
  SetCondition({"Ready", ConditionStatus::kTrue, 2, At(30), "AllStagesReady", ""}, &status);
  EXPECT_EQ(FindCondition(status, ConditionType::kReady)->lastTransitionTime, At(30));
  EXPECT_TRUE(IsTrue(status, ConditionType::kReady));
  EXPECT_FALSE(IsTrue(status, ConditionType::kFailed));
  EXPECT_EQ(FindCondition(status, ConditionType::kFailed), nullptr);
}

}  // namespace
}  // namespace swarm::api
