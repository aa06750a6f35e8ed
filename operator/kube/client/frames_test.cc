#include "operator/kube/client/frames.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kPlenty = 1 << 20;

std::string Event(const std::string& type, const std::string& name, const std::string& version) {
  return json{{"type", type},
              {"object", {{"metadata", {{"name", name}, {"resourceVersion", version}}}}}}
      .dump();
}

std::vector<std::string> FramesOf(JsonFramer& framer, std::string_view bytes) {
  std::vector<std::string> frames;
  EXPECT_TRUE(framer.Feed(bytes, frames).ok());
  return frames;
}

TEST(JsonFramerTest, FramesAreTheSameWhereverTheBytesAreCut) {
  // Brackets and quotes within strings, escapes, and characters of two to four bytes.
  const std::string first = R"({"a":"} \" { \\","b":[{"ü":"日本"}]})";
  const std::string second = R"({"c":"😀\u00e9"})";
  const std::string stream = first + "\n" + second + "\r\n";
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    JsonFramer framer(kPlenty);
    std::vector<std::string> frames = FramesOf(framer, std::string_view(stream).substr(0, cut));
    for (std::string& frame : FramesOf(framer, std::string_view(stream).substr(cut))) {
      frames.push_back(std::move(frame));
    }
    EXPECT_EQ(frames, (std::vector<std::string>{first, second})) << "cut at " << cut;
    EXPECT_FALSE(framer.in_frame());
  }
}

TEST(JsonFramerTest, FramesAreTheSameByteByByte) {
  const std::string stream = Event("ADDED", "große-Hütte", "1") + Event("DELETED", "b", "2");
  JsonFramer framer(kPlenty);
  std::size_t frames = 0;
  for (const char& c : stream) frames += FramesOf(framer, {&c, 1}).size();
  EXPECT_EQ(frames, 2u);
}

TEST(JsonFramerTest, APrettyPrintedObjectIsOneFrame) {
  JsonFramer framer(kPlenty);
  const std::string pretty = json::parse(Event("ADDED", "a", "1")).dump(2);
  EXPECT_EQ(FramesOf(framer, pretty + "\n"), std::vector<std::string>{pretty});
}

TEST(JsonFramerTest, AFrameAboveTheLimitIsRefused) {
  JsonFramer framer(64);
  std::vector<std::string> frames;
  EXPECT_TRUE(framer.Feed("{\"a\":\"" + std::string(40, 'x'), frames).ok());
  EXPECT_EQ(framer.Feed(std::string(40, 'x'), frames).code(), StatusCode::kResourceExhausted);
  EXPECT_LE(framer.pending_bytes(), 65u);
}

TEST(JsonFramerTest, WhatIsNoObjectIsRefused) {
  for (const char* garbage : {"<html>", "ADDED", "]", "\xff"}) {
    JsonFramer framer(kPlenty);
    std::vector<std::string> frames;
    EXPECT_EQ(framer.Feed(garbage, frames).code(), StatusCode::kDataLoss) << garbage;
  }
}

TEST(WatchFrameTest, AnEventHasItsObjectAndVersion) {
  const WatchFrame frame = ParseWatchFrame(Event("MODIFIED", "pod-1", "42"), nullptr);
  ASSERT_TRUE(frame.event);
  EXPECT_EQ(frame.event->type, WatchEvent::Type::kModified);
  EXPECT_EQ(frame.event->resource_version, "42");
  EXPECT_EQ(NameOf(*frame.event->object).name, "pod-1");
}

TEST(WatchFrameTest, ABookmarkNeedsNoName) {
  const WatchFrame frame = ParseWatchFrame(
      R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"99"}}})", nullptr);
  ASSERT_TRUE(frame.event);
  EXPECT_EQ(frame.event->type, WatchEvent::Type::kBookmark);
  EXPECT_EQ(frame.event->resource_version, "99");
}

TEST(WatchFrameTest, AnErrorFrameAndABareStatusAreTheSameError) {
  const std::string status =
      R"({"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"})";
  for (const std::string& text : {status, R"({"type":"ERROR","object":)" + status + "}"}) {
    const WatchFrame frame = ParseWatchFrame(text, nullptr);
    ASSERT_TRUE(frame.error) << text;
    EXPECT_TRUE(frame.error->IsExpired());
    EXPECT_EQ(frame.error->message, "too old");
  }
}

TEST(WatchFrameTest, WhatCannotBeReadIsAProblemAndNothingElse) {
  for (const char* text :
       {"{\"type\":\"ADDED\"}", "{\"type\":\"ADDED\",\"object\":{}}", "{\"type\":1,\"object\":{}}",
        "{\"type\":\"SPILLED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}"
        "}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}", "{\"a\":\"\xff\"}",
        "{]}", "{\"type\":\"ADDED\",\"object\":{\"metadata\":[]}}"}) {
    const WatchFrame frame = ParseWatchFrame(text, TrimBookkeeping);
    EXPECT_FALSE(frame.event || frame.error) << text;
    EXPECT_EQ(frame.problem.code(), StatusCode::kDataLoss) << text;
  }
}

TEST(WatchFrameTest, TrimmingHappensOnArrival) {
  const WatchFrame frame = ParseWatchFrame(
      R"({"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1","managedFields":[1]}}})",
      TrimBookkeeping);
  ASSERT_TRUE(frame.event);
  EXPECT_FALSE((*frame.event->object)["metadata"].contains("managedFields"));
}

std::string PodList(const std::string& items) {
  return R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next"},"items":)" +
         items + "}";
}

TEST(ListPageTest, ItemsGetTheKindThatTheListHas) {
  const auto page = ParseListPage(
      PodList(R"([{"metadata":{"name":"a","labels":{"items":"x"}}},{"metadata":{"name":"b"}}])"),
      TrimBookkeeping);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->items.size(), 2u);
  const Object first = page->items[0].Unpack();
  EXPECT_EQ((*first)["kind"], "Pod");
  EXPECT_EQ((*first)["apiVersion"], "v1");
  EXPECT_EQ(LabelOf(*first, "items"), "x");
  EXPECT_EQ(page->resource_version, "7");
  EXPECT_EQ(page->next, "next");
}

TEST(ListPageTest, AnEmptyListMayBeWrittenAsNull) {
  EXPECT_TRUE(ParseListPage(PodList("[]"), nullptr)->items.empty());
  EXPECT_TRUE(ParseListPage(PodList("null"), nullptr)->items.empty());
}

TEST(ListPageTest, WhatIsNoListIsNeverAnEmptyOne) {
  const std::string whole = PodList(R"([{"metadata":{"name":"a"}}])");
  EXPECT_TRUE(ParseListPage(whole, nullptr).ok());
  for (const std::string& body :
       {std::string(), std::string("{}"), std::string("[]"), std::string("OK"),
        whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 1),
        std::string(R"({"kind":"Status","status":"Success"})"),
        std::string(R"({"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]})"),
        std::string(R"({"kind":"PodList","metadata":{"resourceVersion":"1"}})"),
        PodList(R"([{"spec":{}}])")}) {
    EXPECT_EQ(ParseListPage(body, nullptr).status().code(), StatusCode::kDataLoss) << body;
  }
}

}  // namespace
}  // namespace swarm::kube
