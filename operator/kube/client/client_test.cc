// The client's verbs, as the API server sees them.
#include <gmock/gmock.h>

#include "operator/kube/testing/api_server_test.h"

namespace swarm::kube {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClientTest : public ApiServerTest {
 protected:
  SeenRequest Last() { return server_.seen().back(); }
};

TEST_F(ClientTest, GetReadsAnObject) {
  server_.ThenAnswer(200, Pod("a", "7").dump());
  const auto pod = client().Get(resources::Pods(), {"ns", "a"});
  ASSERT_TRUE(pod.ok()) << pod.status().ToString();
  EXPECT_EQ(ResourceVersionOf(**pod), "7");
  EXPECT_EQ(Last().target, "/api/v1/namespaces/ns/pods/a");
  EXPECT_THAT(Last().headers.at("user-agent"), HasSubstr("swarm-operator"));
}

TEST_F(ClientTest, ObjectsOfTheClusterHaveNoNamespaceInTheirPath) {
  server_.ThenAnswer(404, FailureBody(404, "NotFound"));
  EXPECT_EQ(client().Get(resources::Nodes(), {"", "n/1"}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Last().target, "/api/v1/nodes/n%2F1");
}

TEST_F(ClientTest, CreateAndUpdateCarryTheFieldManager) {
  server_.ThenAnswer(201, Pod("a", "1").dump()).ThenAnswer(200, Pod("a", "2").dump());
  EXPECT_TRUE(client().Create(resources::Pods(), Pod("a", ""), {.dry_run = true}).ok());
  EXPECT_EQ(Last().method, "POST");
  EXPECT_EQ(Last().target,
            "/api/v1/namespaces/ns/pods?fieldManager=swarm-operator&dryRun=All"
            "&fieldValidation=Strict");
  EXPECT_TRUE(
      client().Update(resources::SwarmJobs(), Pod("a", "1"), {.subresource = "status"}).ok());
  EXPECT_EQ(Last().method, "PUT");
  EXPECT_EQ(
      Last().target,
      "/apis/swarmjob.dev/v1alpha1/namespaces/ns/swarmjobs/a/status?fieldManager=swarm-operator");
  EXPECT_EQ(json::parse(Last().body)["metadata"]["resourceVersion"], "1");
}

TEST_F(ClientTest, WhoNeedsOnlyTheMetadataOfWhatWasMadeSaysSo) {
  server_.ThenAnswer(201, Pod("a", "1").dump()).ThenAnswer(201, Pod("a", "1").dump());
  const auto made = client().Create(resources::Pods(), Pod("a", ""), {.metadata_only = true});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(ResourceVersionOf(**made), "1");
  EXPECT_EQ(Last().headers.at("accept"),
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json");
  EXPECT_TRUE(client().Create(resources::Pods(), Pod("a", "")).ok());
  EXPECT_EQ(Last().headers.at("accept"), "application/json");
}

TEST_F(ClientTest, ApplyIsAServerSideApplyWithForce) {
  server_.ThenAnswer(200, Pod("a", "1").dump());
  EXPECT_TRUE(client().Apply(resources::ConfigMaps(), Pod("a", "")).ok());
  EXPECT_EQ(Last().method, "PATCH");
  EXPECT_EQ(Last().target,
            "/api/v1/namespaces/ns/configmaps/a?fieldManager=swarm-operator&force=true");
  EXPECT_EQ(Last().headers.at("content-type"), "application/apply-patch+yaml");
}

TEST_F(ClientTest, EachPatchHasItsContentType) {
  server_.ThenAnswer(200, Pod("a", "1").dump()).ThenAnswer(200, Pod("a", "1").dump());
  const json operations = json::array({{{"op", "remove"}, {"path", "/x"}}});
  EXPECT_TRUE(client().Patch(resources::Pods(), {"ns", "a"}, PatchType::kJson, operations).ok());
  EXPECT_EQ(Last().headers.at("content-type"), "application/json-patch+json");
  EXPECT_TRUE(client()
                  .Patch(resources::SwarmJobs(), {"ns", "a"}, PatchType::kMerge, {{"spec", {}}},
                         {.subresource = "scale"})
                  .ok());
  EXPECT_EQ(Last().headers.at("content-type"), "application/merge-patch+json");
  EXPECT_THAT(Last().target, HasSubstr("/swarmjobs/a/scale"));
}

TEST_F(ClientTest, DeleteSaysWhatIsToBeDeletedAndHow) {
  server_.ThenAnswer(200, Pod("a", "1").dump()).ThenAnswer(404, FailureBody(404, "NotFound"));
  EXPECT_TRUE(client()
                  .Delete(resources::Pods(), {"ns", "a"},
                          {.uid = "u", .grace_seconds = 0, .propagation = Propagation::kForeground})
                  .ok());
  const json body = json::parse(Last().body);
  EXPECT_EQ(body["preconditions"], (json{{"uid", "u"}}));
  EXPECT_EQ(body["gracePeriodSeconds"], 0);
  EXPECT_EQ(body["propagationPolicy"], "Foreground");
  // It is no error that the object is already gone.
  EXPECT_TRUE(client().Delete(resources::Pods(), {"ns", "a"}).ok());
}

TEST_F(ClientTest, ABusyServerIsObeyed) {
  server_.ThenAnswer(429, "", {{"Retry-After", "3"}})
      .ThenAnswer(503, "", {{"Retry-After", "1"}})
      .ThenAnswer(201, Pod("a", "1").dump());
  EXPECT_TRUE(client().Create(resources::Pods(), Pod("a", "")).ok());
  EXPECT_THAT(timing_.sleeps(), ElementsAre(seconds(3), seconds(1)));
}

TEST_F(ClientTest, ACreateThatMayHaveHappenedIsNotRepeated) {
  server_.Then([](const SeenRequest&, Connection& peer) { peer.Cut(); });
  EXPECT_EQ(client().Create(resources::Pods(), Pod("a", "")).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(server_.seen().size(), 1u);
}

TEST_F(ClientTest, ACallEndsWithItsTimeHoweverOftenItMayTry) {
  server_.Otherwise([](const SeenRequest&, Connection& peer) {
    peer.Answer(503, FailureBody(503, "ServiceUnavailable"), {{"Retry-After", "4"}});
  });
  const auto status =
      client().Get(resources::Pods(), {"ns", "a"}, {.timeout = seconds(10)}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("GET /api/v1/namespaces/ns/pods/a: 503"));
  EXPECT_EQ(server_.seen().size(), 3u);
}

TEST_F(ClientTest, AfterItsBurstTheClientKeepsToItsRate) {
  server_.Otherwise(
      [](const SeenRequest&, Connection& peer) { peer.Answer(200, Pod("a", "1").dump()); });
  const auto slow = MakeClient({.requests_per_second = 2, .burst = 3});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(slow->Get(resources::Pods(), {"ns", "a"}).ok());
  EXPECT_THAT(timing_.sleeps(), ElementsAre(milliseconds(500), milliseconds(500)));
}

TEST_F(ClientTest, AStoppedClientAnswersNoMore) {
  std::stop_source stop;
  const auto client = MakeClient({.stop = stop.get_token()});
  server_.Then([&](const SeenRequest&, Connection& peer) {
    stop.request_stop();
    peer.Hold();
  });
  EXPECT_EQ(client->Get(resources::Pods(), {"ns", "a"}).status().code(), StatusCode::kCancelled);
  const WatchEnd end = client->Watch(resources::Pods(), {}, [](const WatchEvent&) {}, {});
  EXPECT_EQ(end.kind, WatchEnd::Kind::kStopped);
}

TEST_F(ClientTest, AnAnswerThatIsNoJsonIsDataLoss) {
  server_.ThenAnswer(200, "<html>welcome to the hotel's wireless</html>");
  EXPECT_EQ(client().Get(resources::Pods(), {"ns", "a"}).status().code(), StatusCode::kDataLoss);
}

TEST_F(ClientTest, TextThatIsNotUtf8IsSentAsSomethingThatIs) {
  server_.ThenAnswer(201, Pod("a", "1").dump());
  json pod = Pod("a", "");
  pod["note"] = "\xff";
  EXPECT_TRUE(client().Create(resources::Pods(), pod).ok());
  EXPECT_EQ(json::parse(Last().body)["note"], "\xef\xbf\xbd");
}

TEST_F(ClientTest, TheMetricsCountEachTry) {
  server_.ThenAnswer(429, "").ThenAnswer(200, Pod("a", "1").dump());
  EXPECT_TRUE(client().Get(resources::Pods(), {"ns", "a"}).ok());
  const auto reading = metrics_.Read();
  ASSERT_EQ(reading.requests.size(), 2u);
  EXPECT_EQ(reading.requests[0].code, "200");
  EXPECT_EQ(reading.requests[1].code, "429");
  EXPECT_EQ(reading.requests[0].method, "GET");
  EXPECT_EQ(reading.requests[0].host, server_.host());
  EXPECT_EQ(reading.request_seconds[0].verb, "get");
  EXPECT_EQ(reading.rate_limiter_seconds[0].verb, "get");
}

}  // namespace
}  // namespace swarm::kube
