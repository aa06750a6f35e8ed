// The client against a real API server.
#include <gmock/gmock.h>

#include "operator/kube/leader/election.h"
#include "operator/kube/leader/events.h"
#include "operator/kube/testing/api_server_test.h"
#include "operator/kube/testing/api_server_under_test.h"

namespace swarm::kube {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class RealApiTest : public ApiServerUnderTest {
 protected:
  json ConfigMap(const std::string& name, const std::string& value = "1") const {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", name}, {"namespace", ns_}, {"labels", {{"story", ns_}}}}},
            {"data", {{"value", value}}}};
  }
  std::unique_ptr<Reflector> Follow(Changes& changes) {
    ReflectorOptions options;
    options.resource = resources::ConfigMaps();
    options.ns = ns_;
    options.label_selector = "story=" + ns_;
    auto reflector =
        std::make_unique<Reflector>(*client_, options, changes.Callback(), SystemTiming());
    reflector->Start();
    return reflector;
  }
};

TEST_F(RealApiTest, WritesThatComeTooLateAreConflicts) {
  const auto first = client_->Create(resources::ConfigMaps(), ConfigMap("a"));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(client_->Create(resources::ConfigMaps(), ConfigMap("a")).status().code(),
            StatusCode::kAlreadyExists);
  json changed = **first;
  changed["data"]["value"] = "2";
  EXPECT_TRUE(client_->Update(resources::ConfigMaps(), changed).ok());
  EXPECT_EQ(client_->Update(resources::ConfigMaps(), changed).status().code(),
            StatusCode::kAborted);
  const json stale{{"metadata", {{"resourceVersion", ResourceVersionOf(**first)}}}};
  EXPECT_EQ(
      client_->Patch(resources::ConfigMaps(), {ns_, "a"}, PatchType::kMerge, stale).status().code(),
      StatusCode::kAborted);
}

TEST_F(RealApiTest, APatchWithATestThatFailsIsInvalid) {
  ASSERT_TRUE(client_->Create(resources::ConfigMaps(), ConfigMap("a")).ok());
  const json operations = json::array({{{"op", "test"}, {"path", "/data/value"}, {"value", "9"}},
                                       {{"op", "remove"}, {"path", "/data/value"}}});
  EXPECT_EQ(client_->Patch(resources::ConfigMaps(), {ns_, "a"}, PatchType::kJson, operations)
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST_F(RealApiTest, OnlyTheOneThatWasMeantIsDeleted) {
  const auto made = client_->Create(resources::ConfigMaps(), ConfigMap("a"));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(client_->Delete(resources::ConfigMaps(), {ns_, "a"}, {.uid = "another"}).code(),
            StatusCode::kAborted);
  EXPECT_TRUE(client_->Delete(resources::ConfigMaps(), {ns_, "a"}, {.uid = UidOf(**made)}).ok());
  EXPECT_TRUE(client_->Delete(resources::ConfigMaps(), {ns_, "a"}).ok());
  EXPECT_EQ(client_->Get(resources::ConfigMaps(), {ns_, "a"}).status().code(),
            StatusCode::kNotFound);
}

TEST_F(RealApiTest, ApplyMakesAndThenChangesJustItsFields) {
  json applied = ConfigMap("a");
  ASSERT_TRUE(client_->Apply(resources::ConfigMaps(), applied).ok());
  ASSERT_TRUE(client_
                  ->Patch(resources::ConfigMaps(), {ns_, "a"}, PatchType::kMerge,
                          {{"data", {{"theirs", "x"}}}})
                  .ok());
  applied["data"]["value"] = "2";
  const auto again = client_->Apply(resources::ConfigMaps(), applied);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ((**again)["data"], (json{{"value", "2"}, {"theirs", "x"}}));
}

TEST_F(RealApiTest, ADryRunIsValidatedAndLeavesNothing) {
  EXPECT_TRUE(client_->Create(resources::ConfigMaps(), ConfigMap("a"), {.dry_run = true}).ok());
  EXPECT_EQ(client_->Get(resources::ConfigMaps(), {ns_, "a"}).status().code(),
            StatusCode::kNotFound);
  const json pod{{"apiVersion", "v1"},
                 {"kind", "Pod"},
                 {"metadata", {{"name", "p"}, {"namespace", ns_}}},
                 {"spec", {{"containers", json::array({{{"name", "Bad Name"}, {"image", "x"}}})}}}};
  const Status refused = client_->Create(resources::Pods(), pod, {.dry_run = true}).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("spec.containers[0].name"));
}

TEST_F(RealApiTest, ADryRunTellsOfAFieldThatTheServerDoesNotKnow) {
  json map = ConfigMap("a");
  map["imutable"] = true;
  EXPECT_TRUE(client_->Create(resources::ConfigMaps(), map).ok()) << "which drops the field";
  map["metadata"]["name"] = "b";
  const auto created = client_->Create(resources::ConfigMaps(), map, {.dry_run = true});
  EXPECT_EQ(created.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(created.status().message(), HasSubstr("imutable"));
}

TEST_F(RealApiTest, WhoMayNotAndWhoIsNotKnownAreToldApart) {
  const auto stranger = MakeClient(ControlPlane::kStrangerToken);
  EXPECT_EQ(stranger->Get(resources::Pods(), {ns_, "a"}).status().code(),
            StatusCode::kPermissionDenied);
  const auto nobody = MakeClient("no such token");
  EXPECT_EQ(nobody->Get(resources::Pods(), {ns_, "a"}).status().code(),
            StatusCode::kUnauthenticated);
}

TEST_F(RealApiTest, AListInPagesIsTheWholeList) {
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(client_->Create(resources::ConfigMaps(), ConfigMap("m-" + std::to_string(i))).ok());
  }
  const auto list = client_->List(resources::ConfigMaps(),
                                  {.ns = ns_, .label_selector = "story=" + ns_, .page_size = 3});
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  ASSERT_EQ(list->items.size(), 7u);
  const Object last = list->items[6].Unpack();
  EXPECT_EQ((*last)["kind"], "ConfigMap");
  EXPECT_FALSE((*last)["metadata"].contains("managedFields"));
}

TEST_F(RealApiTest, AListThatMayNotBeOlderThanAVersionHasWhatCameSince) {
  const auto before = client_->List(resources::ConfigMaps(), {.ns = ns_});
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(client_->Create(resources::ConfigMaps(), ConfigMap("later")).ok());
  // From the server's cache, which may be a moment behind.
  for (int tries = 0; tries < 100; ++tries) {
    const auto list =
        client_->List(resources::ConfigMaps(), {.ns = ns_,
                                                .label_selector = "story=" + ns_,
                                                .resource_version = before->resource_version});
    ASSERT_TRUE(list.ok()) << list.status().ToString();
    if (list->items.size() == 1) return;
    SystemTiming().Sleep(milliseconds(100), {});
  }
  FAIL() << "it has what was there at that version, and nothing newer";
}

TEST_F(RealApiTest, AWatchEndsInOrderAfterTheTimeItWasGiven) {
  const auto list = client_->List(resources::ConfigMaps(), {.ns = ns_});
  ASSERT_TRUE(list.ok());
  const WatchEnd end =
      client_->Watch(resources::ConfigMaps(),
                     {.ns = ns_, .resource_version = list->resource_version, .timeout = seconds(1)},
                     [](const WatchEvent&) {}, {});
  EXPECT_EQ(end.kind, WatchEnd::Kind::kClosed) << end.status.ToString();
}

TEST_F(RealApiTest, AReflectorFollowsAlsoOverARestartOfTheServer) {
  Changes changes;
  ASSERT_TRUE(client_->Create(resources::ConfigMaps(), ConfigMap("a")).ok());
  const auto reflector = Follow(changes);
  ASSERT_TRUE(reflector->WaitForSync(seconds(30)));
  ASSERT_TRUE(client_->Create(resources::ConfigMaps(), ConfigMap("größe")).status().code() ==
              StatusCode::kInvalidArgument);
  ASSERT_TRUE(client_->Create(resources::ConfigMaps(), ConfigMap("b", "日本 😀")).ok());
  EXPECT_EQ(changes.WaitFor(2).back(), "+b");
  plane_->KillServer();
  ASSERT_TRUE(plane_->StartServer().ok());
  ASSERT_TRUE(client_->Delete(resources::ConfigMaps(), {ns_, "a"}).ok());
  EXPECT_EQ(changes.WaitFor(3).back(), "-a");
  EXPECT_EQ(TextAt(*reflector->store().Get({ns_, "b"}), "/data/value"), "日本 😀");
}

TEST_F(RealApiTest, TheLeaseGoesFromOneToTheNextInAHigherTerm) {
  const auto options = [this](const std::string& identity) {
    return ElectionOptions{.lease = {ns_, "operator"},
                           .identity = identity,
                           .lease_duration = seconds(15),
                           .renew_deadline = seconds(10),
                           .retry_period = milliseconds(100)};
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::int64_t> terms;
  const ElectionCallbacks callbacks{[&](std::int64_t term) {
                                      const std::lock_guard lock(mutex);
                                      terms.push_back(term);
                                      changed.notify_all();
                                    },
                                    [] { ADD_FAILURE() << "lost"; }};
  const auto wait_for = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, seconds(60), [&] { return terms.size() >= count; });
  };
  auto first = std::make_unique<Elector>(*client_, options("one"), callbacks, SystemTiming());
  first->Start();
  ASSERT_TRUE(wait_for(1));
  Elector second(*client_, options("two"), callbacks, SystemTiming());
  second.Start();
  first.reset();
  ASSERT_TRUE(wait_for(2));
  EXPECT_GT(terms[1], terms[0]);
  const auto lease = client_->Get(resources::Leases(), {ns_, "operator"});
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ((**lease)["spec"]["holderIdentity"], "two");
  EXPECT_GE((**lease)["spec"]["leaseTransitions"], 1);
}

TEST_F(RealApiTest, EventsAndTheirCountsAreAccepted) {
  const auto about = client_->Create(resources::ConfigMaps(), ConfigMap("a"));
  ASSERT_TRUE(about.ok());
  EventRecorder recorder(*client_, {.instance = "operator-1"}, SystemTiming());
  for (int i = 0; i < 3; ++i) {
    recorder.Record(ReferenceTo(**about), EventType::kWarning, "WorkerPreempted", "Replace",
                    "worker 3 is gone");
  }
  ASSERT_TRUE(recorder.Flush(seconds(30)));
  EXPECT_EQ(recorder.dropped(), 0u);
  const auto events = client_->List(resources::Events(), {.ns = ns_});
  ASSERT_TRUE(events.ok()) << events.status().ToString();
  ASSERT_EQ(events->items.size(), 1u);
  const Object event = events->items[0].Unpack();
  EXPECT_EQ((*event)["series"]["count"], 3);
  EXPECT_EQ((*event)["regarding"]["name"], "a");
}

}  // namespace
}  // namespace swarm::kube
