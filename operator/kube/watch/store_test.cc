#include "operator/kube/watch/store.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace swarm::kube {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

json Thing(const std::string& ns, const std::string& name, const std::string& version,
           const std::string& job = "", const std::string& uid = "u") {
  return {{"metadata",
           {{"namespace", ns},
            {"name", name},
            {"resourceVersion", version},
            {"uid", uid},
            {"labels", {{"job", job}}}}}};
}

WatchEvent Event(WatchEvent::Type type, const json& object) {
  return {type, std::make_shared<const json>(object), ResourceVersionOf(object)};
}

std::vector<IndexKey> ByJob() {
  return {[](const json& object) { return LabelOf(object, "job"); }};
}

std::vector<Change> Replace(Store& store, const std::vector<json>& objects,
                            const std::string& ns = "") {
  std::vector<Change> changes;
  store.Replace(
      {objects.begin(), objects.end()}, [&](const Change& change) { changes.push_back(change); },
      ns);
  return changes;
}

std::vector<std::string> Names(const std::vector<Object>& objects) {
  std::vector<std::string> names;
  for (const Object& object : objects) names.push_back(NameOf(*object).ToString());
  return names;
}

TEST(StoreTest, ObjectsAreFoundByNameNamespaceAndIndex) {
  Store store(ByJob());
  Replace(store, {Thing("b", "2", "1", "x"), Thing("a", "1", "1", "x"), Thing("a", "2", "1", "y"),
                  Thing("a", "3", "1", "x"), Thing("", "node", "1")});
  EXPECT_TRUE(store.Get({"a", "1"}));
  EXPECT_FALSE(store.Get({"b", "1"}));
  EXPECT_THAT(Names(store.List("a")), ElementsAre("a/1", "a/2", "a/3"));
  EXPECT_THAT(Names(store.ByIndex(0, "x")), ElementsAre("a/1", "a/3", "b/2"));
  EXPECT_EQ(store.List().size(), 5u);
}

TEST(StoreTest, AnObjectHasOneIdentityUntilItChanges) {
  Store store(ByJob());
  Replace(store, {Thing("a", "1", "1", "x"), Thing("a", "2", "1", "x")});
  const auto before = store.PackedByIndex(0, "x");
  store.Apply(Event(WatchEvent::Type::kModified, Thing("a", "1", "2", "x")));
  const auto after = store.PackedByIndex(0, "x");
  ASSERT_EQ(after.size(), 2u);
  EXPECT_NE(after[0].identity(), before[0].identity());
  EXPECT_EQ(after[1].identity(), before[1].identity());
  EXPECT_EQ(ResourceVersionOf(*after[0].Unpack()), "2");
}

TEST(StoreTest, AListOfOneNamespaceLeavesTheOthersAlone) {
  Store store;
  Replace(store, {Thing("a", "1", "1"), Thing("b", "1", "1")});
  Replace(store, {Thing("a", "2", "2")}, "a");
  EXPECT_THAT(Names(store.List()), ElementsAre("a/2", "b/1"));
}

TEST(StoreTest, TheIndexFollowsALabelThatChangesAndAnObjectThatGoes) {
  Store store(ByJob());
  store.Apply(Event(WatchEvent::Type::kAdded, Thing("a", "1", "1", "x")));
  store.Apply(Event(WatchEvent::Type::kModified, Thing("a", "1", "2", "y")));
  EXPECT_TRUE(store.ByIndex(0, "x").empty());
  EXPECT_THAT(Names(store.ByIndex(0, "y")), ElementsAre("a/1"));
  store.Apply(Event(WatchEvent::Type::kDeleted, Thing("a", "1", "3", "y")));
  EXPECT_TRUE(store.ByIndex(0, "y").empty());
  EXPECT_EQ(store.size(), 0u);
}

TEST(StoreTest, AListTellsWhatIsNewChangedAndGone) {
  Store store;
  Replace(store, {Thing("a", "same", "1"), Thing("a", "changes", "1"), Thing("a", "goes", "1")});
  const auto changes = Replace(
      store, {Thing("a", "same", "1"), Thing("a", "changes", "2"), Thing("a", "comes", "3")});
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].name.name, "changes");
  EXPECT_TRUE(changes[0].before && changes[0].after);
  EXPECT_EQ(changes[1].name.name, "comes");
  EXPECT_TRUE(!changes[1].before && changes[1].after);
  EXPECT_EQ(changes[2].name.name, "goes");
  EXPECT_TRUE(changes[2].before && !changes[2].after);
}

TEST(StoreTest, AnObjectOfTheSameNameAndAnotherUidIsAChangeWhateverItsVersion) {
  Store store;
  Replace(store, {Thing("", "node", "1", "", "first")});
  const auto changes = Replace(store, {Thing("", "node", "1", "", "second")});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(UidOf(*changes[0].before), "first");
  EXPECT_EQ(UidOf(*changes[0].after), "second");
}

TEST(StoreTest, WhatIsKnownIsNotReportedTwice) {
  Store store;
  Replace(store, {Thing("a", "1", "7")});
  EXPECT_FALSE(store.Apply(Event(WatchEvent::Type::kAdded, Thing("a", "1", "7"))));
  EXPECT_FALSE(store.Apply(Event(WatchEvent::Type::kDeleted, Thing("a", "unknown", "8"))));
  EXPECT_FALSE(store.Apply(Event(WatchEvent::Type::kBookmark, Thing("", "", "9"))));
}

TEST(StoreTest, ADeletionShowsTheLastStateThatTheServerHad) {
  Store store;
  Replace(store, {Thing("a", "1", "7")});
  const auto change = store.Apply(Event(WatchEvent::Type::kDeleted, Thing("a", "1", "8")));
  ASSERT_TRUE(change);
  EXPECT_EQ(ResourceVersionOf(*change->before), "8");
}

TEST(ObjectTest, WhatIsMissingReadsAsEmpty) {
  for (const char* text :
       {"{}", "[]", "null", "{\"metadata\":3}", "{\"metadata\":{\"name\":{}}}"}) {
    const json object = json::parse(text);
    EXPECT_EQ(NameOf(object), ObjectName{}) << text;
    EXPECT_EQ(LabelOf(object, "a"), "") << text;
    EXPECT_EQ(TextAt(object, "/metadata/name"), "") << text;
    json trimmed = object;
    TrimBookkeeping(trimmed);
    EXPECT_EQ(trimmed, object);
  }
}

TEST(ObjectTest, TrimmingTakesTheBookkeepingAndNothingElse) {
  json object = json::parse(R"({"metadata":{"name":"a","managedFields":[{}],
      "annotations":{"mine":"1","kubectl.kubernetes.io/last-applied-configuration":"{}"}}})");
  TrimBookkeeping(object);
  EXPECT_EQ(object, json::parse(R"({"metadata":{"name":"a","annotations":{"mine":"1"}}})"));
}

TEST(ObjectTest, NamesAreWrittenAndReadAlike) {
  for (const ObjectName& name : {ObjectName{"ns", "a"}, ObjectName{"", "node"}}) {
    EXPECT_EQ(ParseObjectName(name.ToString()), name);
  }
}

}  // namespace
}  // namespace swarm::kube
