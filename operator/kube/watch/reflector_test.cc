// The reflector against a server that behaves; pitfalls_test.cc has the others.
#include "operator/kube/watch/reflector.h"

#include <gmock/gmock.h>

#include "operator/kube/testing/api_server_test.h"

namespace swarm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

class ReflectorTest : public ApiServerTest {};

TEST_F(ReflectorTest, TheStoreFollowsListAndWatch) {
  server_.ThenAnswer(200, PodList("10", {Pod("a", "5"), Pod("b", "6")}))
      .Then(OpenWatch({Frame("ADDED", Pod("c", "11")), Frame("MODIFIED", Pod("a", "12")),
                       Frame("DELETED", Pod("b", "13"))}));
  const auto reflector = StartReflector();
  EXPECT_THAT(changes_.WaitFor(5), ElementsAre("+a", "+b", "+c", "~a", "-b"));
  const Store& store = reflector->store();
  EXPECT_EQ(ResourceVersionOf(*store.Get({"ns", "a"})), "12");
  EXPECT_EQ(store.Get({"ns", "b"}), nullptr);
  EXPECT_EQ(store.ByIndex(0, "job-of-c").size(), 1u);
}

TEST_F(ReflectorTest, ItIsSyncedWhenTheFirstListIsReportedWhole) {
  server_.ThenAnswer(503, "").ThenAnswer(200, PodList("10", {Pod("a", "5")})).Then(OpenWatch());
  const auto reflector = StartReflector();
  EXPECT_TRUE(reflector->WaitForSync(seconds(10)));
  EXPECT_TRUE(reflector->synced());
  EXPECT_THAT(changes_.WaitFor(1), ElementsAre("+a"));
}

TEST_F(ReflectorTest, WithoutAServerItIsNotSyncedAndDoesNotEnd) {
  const auto reflector = StartReflector();
  ASSERT_TRUE(server_.WaitForRequests(1));
  EXPECT_FALSE(reflector->WaitForSync(milliseconds(1)));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(reflector->WaitForSync(seconds(10), stop.get_token()));
}

TEST_F(ReflectorTest, AStopEndsAnOpenWatch) {
  server_.ThenAnswer(200, PodList("10", {})).Then(OpenWatch());
  auto reflector = StartReflector();
  ASSERT_TRUE(server_.WaitForRequests(2));
  reflector.reset();
  EXPECT_EQ(server_.seen().size(), 2u);
}

TEST_F(ReflectorTest, AnEmptyNamespaceMeansAllAndBookmarksMoveTheVersion) {
  ReflectorOptions options;
  options.resource = resources::SwarmJobs();
  server_.ThenAnswer(200, PodList("10", {}))
      .Then([this](const SeenRequest&, Connection& peer) {
        timing_.Advance(seconds(300));
        peer.BeginChunks();
        peer.Chunk(Frame("BOOKMARK", {{"metadata", {{"resourceVersion", "99"}}}}));
        peer.EndChunks();
      })
      .Then(OpenWatch());
  Reflector reflector(client(), options, changes_.Callback(), timing_);
  reflector.Start();
  ASSERT_TRUE(server_.WaitForRequests(3));
  EXPECT_EQ(server_.seen()[0].target.substr(0, 40), "/apis/swarmjob.dev/v1alpha1/swarmjobs?li");
  EXPECT_EQ(server_.seen()[2].Query("resourceVersion"), "99");
  EXPECT_EQ(reflector.lists(), 1u);
  EXPECT_EQ(reflector.watches(), 2u);
  EXPECT_EQ(reflector.silence(), seconds(0)) << "a bookmark confirms what is there";
}

TEST_F(ReflectorTest, ItTellsHowLongTheServerHasNotConfirmedTheStore) {
  server_.ThenAnswer(200, PodList("10", {Pod("a", "5")})).Then(OpenWatch());
  const auto reflector = StartReflector();
  ASSERT_TRUE(reflector->WaitForSync(seconds(10)));
  EXPECT_EQ(reflector->silence(), seconds(0));
  timing_.Advance(seconds(70));
  EXPECT_EQ(reflector->silence(), seconds(70)) << "the watch is open, and nothing comes";
}

TEST_F(ReflectorTest, WhatIsTrimmedIsNotKept) {
  nlohmann::json pod = Pod("a", "5");
  pod["spec"]["large"] = "x";
  server_.ThenAnswer(200, PodList("10", {pod})).Then(OpenWatch());
  ReflectorOptions options;
  options.resource = resources::Pods();
  options.trim = [](nlohmann::json& object) { object.erase("spec"); };
  Reflector reflector(client(), options, changes_.Callback(), timing_);
  reflector.Start();
  changes_.WaitFor(1);
  EXPECT_FALSE(reflector.store().Get({"ns", "a"})->contains("spec"));
}

TEST_F(ReflectorTest, AVersionThatTheServerHasNotSeenIsListedWithoutOne) {
  server_.ThenAnswer(200, PodList("10", {Pod("a", "5")}))
      .ThenAnswer(410, FailureBody(410, "Expired"))
      .ThenAnswer(504, R"({"kind":"Status","status":"Failure","reason":"Timeout","code":504,
                           "message":"Timeout: Too large resource version: 10, current: 3",
                           "details":{"retryAfterSeconds":1}})")
      .ThenAnswer(200, PodList("12", {Pod("a", "5")}))
      .Then(OpenWatch());
  const auto reflector = StartReflector();
  ASSERT_TRUE(server_.WaitForRequests(5));
  EXPECT_THAT(Asked(), ElementsAre("list 0", "watch 10", "list 10", "list ", "watch 12"));
}

}  // namespace
}  // namespace swarm::kube
