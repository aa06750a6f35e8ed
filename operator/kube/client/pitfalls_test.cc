// Failures that have brought down other clients of the Kubernetes API, one test each, against a
// server that misbehaves on purpose.
#include <gmock/gmock.h>

#include "operator/kube/testing/api_server_test.h"

namespace swarm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

class PitfallsTest : public ApiServerTest {
 protected:
  // A first list with pods a and b at version 10; then what `expires` does; then a list at version
  // 20 with b changed and a gone, and a watch.
  void ExpectRelistAfter(ScriptedServer::Act expires) {
    server_.ThenAnswer(200, PodList("10", {Pod("a", "5"), Pod("b", "6")}))
        .Then(std::move(expires))
        .ThenAnswer(200, PodList("20", {Pod("b", "15")}))
        .Then(OpenWatch());
    const auto reflector = StartReflector();
    EXPECT_THAT(changes_.WaitFor(4), ElementsAre("+a", "+b", "~b", "-a"));
    ASSERT_TRUE(server_.WaitForRequests(4));
    EXPECT_THAT(Asked(), ElementsAre("list 0", "watch 10", "list 10", "watch 20"));
    EXPECT_EQ(reflector->store().size(), 1u);
  }
};

TEST_F(PitfallsTest, P01AnExpiredVersionAsHttpStatusIsListedAnew) {
  ExpectRelistAfter(
      [](const SeenRequest&, Connection& peer) { peer.Answer(410, FailureBody(410, "Expired")); });
}

TEST_F(PitfallsTest, P01AnExpiredVersionAsAFrameIsListedAnew) {
  ExpectRelistAfter(
      OpenWatch({Frame("ERROR", nlohmann::json::parse(FailureBody(410, "Expired")))}));
}

TEST_F(PitfallsTest, P01AnExpiredVersionAsAPlainBodyOfA200IsListedAnew) {
  ExpectRelistAfter([](const SeenRequest&, Connection& peer) {
    peer.Answer(200, nlohmann::json::parse(FailureBody(410, "Gone")).dump(2));
  });
}

TEST_F(PitfallsTest, P01TheNewListMayBeNewerThanTheExpiredVersion) {
  server_.ThenAnswer(200, PodList("20", {}, "token")).ThenAnswer(200, PodList("20", {}));
  ASSERT_TRUE(client().List(resources::Pods(), {.ns = "ns", .resource_version = "10"}).ok());
  const auto seen = server_.seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].Query("resourceVersion"), "10");
  EXPECT_EQ(seen[0].Query("resourceVersionMatch"), "NotOlderThan");
  EXPECT_EQ(seen[1].Query("resourceVersionMatch"), "") << "not with a token";
}

TEST_F(PitfallsTest, P02WatchesThatCloseAtOnceWithoutAWordEndInANewList) {
  server_.ThenAnswer(200, PodList("10", {}))
      .Then(EndedWatch())
      .Then(EndedWatch())
      .Then(EndedWatch())
      .ThenAnswer(200, PodList("20", {Pod("a", "15")}))
      .Then(OpenWatch());
  const auto reflector = StartReflector();
  EXPECT_THAT(changes_.WaitFor(1), ElementsAre("+a"));
  ASSERT_TRUE(server_.WaitForRequests(6));
  EXPECT_THAT(Asked(),
              ElementsAre("list 0", "watch 10", "watch 10", "watch 10", "list ", "watch 20"));
}

TEST_F(PitfallsTest, P03AServerThatFallsSilentIsLeftAndTheWatchGoesOn) {
  const auto bookmark = Frame("BOOKMARK", {{"metadata", {{"resourceVersion", "17"}}}});
  server_.ThenAnswer(200, PodList("10", {}))
      .Then([bookmark](const SeenRequest&, Connection& peer) {
        // In one piece, so that the bookmark arrives together with the head.
        peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bookmark +
                  std::string(70'000, ' '));
        peer.Hold();
      })
      .Then(OpenWatch({Frame("ADDED", Pod("a", "18"))}));
  const auto reflector = StartReflector(/*idle_timeout=*/milliseconds(300));
  EXPECT_THAT(changes_.WaitFor(1), ElementsAre("+a"));
  const auto asked = Asked();
  ASSERT_GE(asked.size(), 3u);
  EXPECT_EQ(asked[2], "watch 17");
}

TEST_F(PitfallsTest, P04FramesAreWholeWhereverTheChunksAreCut) {
  // One byte a chunk: between the bytes of a character, too.
  const std::string text = Frame("ADDED", Pod("größe-日本", "11")) + Frame("ADDED", Pod("b", "12"));
  server_.ThenAnswer(200, PodList("10", {})).Then([text](const SeenRequest&, Connection& peer) {
    peer.BeginChunks();
    for (const char& byte : text) peer.Chunk({&byte, 1});
    peer.Hold();
  });
  const auto reflector = StartReflector();
  EXPECT_THAT(changes_.WaitFor(2), ElementsAre("+größe-日本", "+b"));
  EXPECT_TRUE(reflector->store().Get({"ns", "größe-日本"}));
}

TEST_F(PitfallsTest, P05AContinueTokenThatExpiredMeansTheWholeListFromTheStart) {
  server_.ThenAnswer(200, PodList("10", {Pod("a", "1")}, "token"))
      .ThenAnswer(410, FailureBody(410, "Expired"))
      .ThenAnswer(200, PodList("20", {Pod("b", "2"), Pod("c", "3")}));
  const auto list = client().List(resources::Pods(), {.ns = "ns"});
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  EXPECT_EQ(list->items.size(), 2u);
  EXPECT_EQ(list->resource_version, "20");
  const auto seen = server_.seen();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].Query("limit"), "500");
  EXPECT_EQ(seen[1].Query("continue"), "token");
  EXPECT_EQ(seen[2].Query("limit"), "");
  EXPECT_EQ(seen[2].Query("continue"), "");
}

TEST_F(PitfallsTest, P06ANewTokenIsUsedWithinAMinuteAndAnOldOneIsKeptWhileThereIsNone) {
  const TemporaryFolder folder;
  const auto file = folder.Put("token", "first\n");
  const auto client = MakeClient({}, TokenFile(file, timing_));
  server_.Otherwise(
      [](const SeenRequest&, Connection& peer) { peer.Answer(200, Pod("a", "1").dump()); });
  const auto get = [&] {
    EXPECT_TRUE(client->Get(resources::Pods(), {"ns", "a"}).ok());
    return server_.seen().back().headers["authorization"];
  };
  EXPECT_EQ(get(), "Bearer first");
  folder.Put("token", "second");
  EXPECT_EQ(get(), "Bearer first");
  timing_.Advance(seconds(61));
  EXPECT_EQ(get(), "Bearer second");
  std::filesystem::remove(file);
  timing_.Advance(seconds(61));
  EXPECT_EQ(get(), "Bearer second");
}

TEST_F(PitfallsTest, P07OnlyTheFirstListAndNoWatchThatEndedInOrderCostsAList) {
  server_.ThenAnswer(200, PodList("10", {Pod("a", "5")}));
  for (int i = 0; i < 5; ++i) {
    // Time passes within the watch, so that it does not count as a failed watch.
    server_.Then([this, i](const SeenRequest&, Connection& peer) {
      timing_.Advance(seconds(400));
      peer.BeginChunks();
      peer.Chunk(Frame("MODIFIED", Pod("a", std::to_string(11 + i))));
      peer.EndChunks();
    });
  }
  server_.Then(OpenWatch());
  const auto reflector = StartReflector();
  changes_.WaitFor(6);
  ASSERT_TRUE(server_.WaitForRequests(7));
  EXPECT_THAT(Asked(), ElementsAre("list 0", "watch 10", "watch 11", "watch 12", "watch 13",
                                   "watch 14", "watch 15"));
  EXPECT_THAT(timing_.sleeps(), ElementsAre());
  EXPECT_EQ(server_.seen()[1].Query("allowWatchBookmarks"), "true");
  EXPECT_EQ(server_.seen()[1].Query("labelSelector"), "app%3Dx");
}

TEST_F(PitfallsTest, P08AWatchIsAuthorizedAnewEveryFewMinutes) {
  const TemporaryFolder folder;
  client_ = MakeClient({}, TokenFile(folder.Put("token", "old"), timing_));
  server_.ThenAnswer(200, PodList("10", {}))
      .Then([&](const SeenRequest&, Connection& peer) {
        peer.BeginChunks();
        folder.Put("token", "new");
        timing_.Advance(seconds(400));
        peer.EndChunks();
      })
      .ThenAnswer(403, FailureBody(403, "Forbidden"))
      .ThenAnswer(403, FailureBody(403, "Forbidden"));
  const auto reflector = StartReflector();
  ASSERT_TRUE(server_.WaitForRequests(4));
  const auto seen = server_.seen();
  const int timeout = std::stoi(seen[1].Query("timeoutSeconds"));
  EXPECT_GE(timeout, 300);
  EXPECT_LE(timeout, 600);
  EXPECT_EQ(seen[1].headers.at("authorization"), "Bearer old");
  EXPECT_EQ(seen[2].headers.at("authorization"), "Bearer new");
  // After the refusal it lists, and keeps the objects that it has.
  EXPECT_EQ(seen[3].Query("watch"), "");
}

TEST_F(PitfallsTest, P09AListThatFailedEmptiesNothing) {
  const std::string whole = PodList("20", {Pod("a", "5"), Pod("b", "6")});
  server_.ThenAnswer(200, PodList("10", {Pod("a", "5"), Pod("b", "6")}))
      .ThenAnswer(410, FailureBody(410, "Expired"))
      .ThenAnswer(403, FailureBody(403, "Forbidden"))
      .ThenAnswer(200, "{}")
      .ThenAnswer(200, "")
      .ThenAnswer(200, whole.substr(0, whole.size() - 20))
      .Then(
          [&](const SeenRequest&, Connection& peer) { peer.Send("nonsense\r\n\r\n"), peer.Cut(); })
      .ThenAnswer(403, FailureBody(403, "Forbidden"));
  const auto reflector = StartReflector();
  ASSERT_TRUE(server_.WaitForRequests(9));
  EXPECT_EQ(reflector->store().size(), 2u);
  EXPECT_THAT(changes_.WaitFor(2), ElementsAre("+a", "+b"));
}

TEST_F(PitfallsTest, P10WhatTheCacheDoesNotKnowYetIsFoundOutByTheServer) {
  server_.ThenAnswer(409, FailureBody(409, "AlreadyExists"))
      .ThenAnswer(409, FailureBody(409, "Conflict"))
      .ThenAnswer(409, FailureBody(409, "Conflict"));
  EXPECT_EQ(client().Create(resources::Pods(), Pod("a", "")).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(client().Update(resources::Pods(), Pod("a", "1")).status().code(),
            StatusCode::kAborted);
  EXPECT_EQ(client()
                .Delete(resources::Pods(), {"ns", "a"}, {.uid = "old", .resource_version = "1"})
                .code(),
            StatusCode::kAborted);
  const auto body = nlohmann::json::parse(server_.seen()[2].body);
  EXPECT_EQ(body["preconditions"]["uid"], "old");
  EXPECT_EQ(body["preconditions"]["resourceVersion"], "1");
}

TEST_F(PitfallsTest, P11ARefusedTokenIsReadAgainAndTheRequestRepeatedOnce) {
  const TemporaryFolder folder;
  const auto client = MakeClient({}, TokenFile(folder.Put("token", "old"), timing_));
  server_
      .Then([&](const SeenRequest&, Connection& peer) {
        folder.Put("token", "new");
        peer.Answer(401, FailureBody(401, "Unauthorized"));
      })
      .ThenAnswer(200, Pod("a", "1").dump())
      .ThenAnswer(401, FailureBody(401, "Unauthorized"))
      .ThenAnswer(401, FailureBody(401, "Unauthorized"));
  EXPECT_TRUE(client->Get(resources::Pods(), {"ns", "a"}).ok());
  EXPECT_EQ(server_.seen()[1].headers.at("authorization"), "Bearer new");
  EXPECT_EQ(client->Get(resources::Pods(), {"ns", "a"}).status().code(),
            StatusCode::kUnauthenticated);
  EXPECT_EQ(server_.seen().size(), 4u);
}

TEST_F(PitfallsTest, P11TheTokenIsAskedForAtEachTry) {
  const TemporaryFolder folder;
  RestClientOptions options;
  options.call_timeout = seconds(120);
  const auto client = MakeClient(options, TokenFile(folder.Put("token", "old"), timing_));
  server_
      .Then([&](const SeenRequest&, Connection& peer) {
        folder.Put("token", "new");
        timing_.Advance(seconds(59));
        peer.Answer(429, "", {{"Retry-After", "2"}});
      })
      .ThenAnswer(200, Pod("a", "1").dump());
  EXPECT_TRUE(client->Get(resources::Pods(), {"ns", "a"}).ok());
  EXPECT_EQ(server_.seen()[0].headers.at("authorization"), "Bearer old");
  EXPECT_EQ(server_.seen()[1].headers.at("authorization"), "Bearer new");
}

TEST_F(PitfallsTest, P11AReflectorOutlivesWhateverIsThrownAtIt) {
  server_.ThenAnswer(200, PodList("10", {}));
  for (int i = 0; i < 3; ++i) {
    server_.Then([](const SeenRequest&, Connection& peer) { peer.Cut(); })
        .Then([](const SeenRequest&, Connection& peer) {
          peer.Send("HTTP/9.9 banana\r\n\r\n");
          peer.Cut();
        })
        .Then([](const SeenRequest&, Connection& peer) {
          peer.BeginChunks();
          peer.Send("zzzz\r\n");
          peer.Cut();
        })
        .Then([](const SeenRequest&, Connection& peer) {
          peer.BeginChunks();
          peer.Chunk("{\"type\":\"ADDED\",\"obj");
          peer.Cut();
        });
  }
  server_.Then(OpenWatch({Frame("ADDED", Pod("a", "11"))}));
  const auto reflector = StartReflector();
  EXPECT_THAT(changes_.WaitFor(1), ElementsAre("+a"));
}

TEST_F(PitfallsTest, P12ManyOpenWatchesKeepNobodyWaiting) {
  // More watches than the HTTP library has threads.
  constexpr int kWatches = 24;
  server_.Otherwise([](const SeenRequest& request, Connection& peer) {
    if (request.Query("watch").empty()) return peer.Answer(200, Pod("a", "1").dump());
    OpenWatch({Frame("ADDED", Pod("a", "11"))})(request, peer);
  });
  std::stop_source stop;
  std::mutex mutex;
  std::condition_variable changed;
  int events = 0;
  {
    std::vector<std::jthread> watchers;
    for (int i = 0; i < kWatches; ++i) {
      watchers.emplace_back([&, &client = client()] {
        const auto on_event = [&](const WatchEvent&) {
          const std::lock_guard lock(mutex);
          ++events;
          changed.notify_all();
        };
        const WatchEnd end =
            client.Watch(resources::Pods(), {.ns = "ns"}, on_event, stop.get_token());
        EXPECT_EQ(end.kind, WatchEnd::Kind::kStopped) << end.status.ToString();
      });
    }
    {
      std::unique_lock lock(mutex);
      EXPECT_TRUE(changed.wait_for(lock, seconds(10), [&] { return events == kWatches; }));
    }
    EXPECT_TRUE(client().Get(resources::Pods(), {"ns", "a"}).ok());
    stop.request_stop();
  }
}

TEST_F(PitfallsTest, P12AWatchMayBringMoreThanAnyLimitOfAFrame) {
  const std::string padding(1000, 'x');
  server_.Then([padding](const SeenRequest&, Connection& peer) {
    peer.BeginChunks();
    for (int i = 0; i < 200; ++i) {
      nlohmann::json pod = Pod("a", std::to_string(i + 1));
      pod["metadata"]["annotations"]["padding"] = padding;
      peer.Chunk(Frame("MODIFIED", pod));
    }
    peer.Chunk("{\"type\":\"" + std::string(5000, 'x'));
    peer.Hold();
  });
  int events = 0;
  const WatchEnd end = client().Watch(resources::Pods(), {.ns = "ns", .frame_bytes_max = 2000},
                                      [&](const WatchEvent&) { ++events; }, {});
  EXPECT_EQ(events, 200);
  EXPECT_EQ(end.kind, WatchEnd::Kind::kBroken);
  EXPECT_EQ(end.status.code(), StatusCode::kResourceExhausted);
}

TEST_F(PitfallsTest, P13AServerThatIsAwayIsAskedMoreAndMoreSeldom) {
  server_.ThenAnswer(200, PodList("10", {}));
  for (int i = 0; i < 7; ++i) {
    server_.Then([](const SeenRequest&, Connection& peer) { peer.Cut(); });
  }
  server_.Then(OpenWatch());
  const auto reflector = StartReflector();
  ASSERT_TRUE(server_.WaitForRequests(9));
  EXPECT_THAT(timing_.sleeps(), ElementsAre(milliseconds(800), milliseconds(1600),
                                            milliseconds(3200), milliseconds(6400),
                                            milliseconds(12800), milliseconds(25600), seconds(30)));
}

TEST_F(PitfallsTest, P14ALongListComesInPages) {
  server_.ThenAnswer(200, PodList("10", {Pod("a", "1"), Pod("b", "2")}, "one"))
      .ThenAnswer(200, PodList("10", {Pod("c", "3")}, "two"))
      .ThenAnswer(200, PodList("10", {Pod("d", "4")}));
  const auto list =
      client().List(resources::Pods(), {.ns = "ns", .resource_version = "0", .page_size = 2});
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->items.size(), 4u);
  const auto seen = server_.seen();
  EXPECT_EQ(seen[0].target,
            "/api/v1/namespaces/ns/pods?limit=2&resourceVersion=0"
            "&resourceVersionMatch=NotOlderThan");
  // A token carries its version; both together are refused.
  EXPECT_EQ(seen[1].target, "/api/v1/namespaces/ns/pods?limit=2&continue=one");
  EXPECT_EQ(seen[2].target, "/api/v1/namespaces/ns/pods?limit=2&continue=two");
}

}  // namespace
}  // namespace swarm::kube
