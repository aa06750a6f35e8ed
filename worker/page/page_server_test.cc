#include "worker/page/page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/metrics/testing/scrape.h"
#include "base/testing/temporary_folder.h"
#include "base/web/testing/web_text.h"
#include "worker/page/files.h"
#include "worker/page/testing/apply.h"
#include "worker/page/testing/viewer.h"

namespace swarm::page {
namespace {

using metrics::Get;
using nlohmann::json;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class PageServerTest : public testing::Test {
 protected:
  void Serve(const web::BroadcastLimits& limits = {}) {
    auto page = PageServer::Start({.listen = "127.0.0.1:0",
                                   .job = "tiny",
                                   .folder = folder_.path().string(),
                                   .microbatches = 4,
                                   .stages = 2,
                                   .look = [this](Duration) { return Look(); },
                                   .look_at_lanes =
                                       [this](Duration, std::int64_t after) {
                                         after_ = after;
                                         return lanes_;
                                       },
                                   .limits = limits});
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    page_ = *std::move(page);
  }
  std::optional<JobView> Look() {
    ++looks_;
    const std::lock_guard lock(mutex_);
    return view_;
  }
  /// The trainer knows this from now on.
  void Know(const std::function<void(protocol::JobStatus&)>& change) {
    const std::lock_guard lock(mutex_);
    if (!view_) view_.emplace();
    change(view_->status);
  }
  void AddStep(std::uint64_t step, const char* file = "steps.jsonl") {
    const json line{
        {"step", step}, {"loss", 4.5}, {"grad_norm", 2.0}, {"lr", 0.5}, {"seconds", 0.25}};
    std::ofstream(folder_ / file, std::ios::app) << line.dump() << "\n";
  }
  json Body(const std::string& path) {
    const std::string answer = Get(page_->address(), path);
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("application/json")));
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  std::optional<JobView> view_;  // guarded
  std::atomic<int> looks_{0};
  std::optional<LanesView> lanes_;  // read by the thread of the page while a request waits
  std::atomic<std::int64_t> after_{0};
  std::unique_ptr<PageServer> page_;
};

TEST_F(PageServerTest, ThePageIsWholeAndAsksNoOtherAddressForAnything) {
  Serve();
  const std::string page = Get(page_->address(), "/");
  EXPECT_THAT(page,
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: text/html"),
                    HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self';"),
                    HasSubstr("<html lang=\"en\">")));
  const std::regex reference("(?:href|src)=\"([^\"#]+)\"");
  int references = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), reference), end; at != end; ++at) {
    const std::string path = (*at)[1];
    ++references;
    EXPECT_THAT(path, StartsWith("/"));
    EXPECT_THAT(Get(page_->address(), path), StartsWith("HTTP/1.1 200 ")) << path;
  }
  EXPECT_GE(references, 5);
  for (const web::PageFile& file : WebFiles()) {
    if (file.path.starts_with("/vendor/") || file.path == "/icon.svg") continue;
    EXPECT_THAT(std::string(file.content), Not(AnyOf(HasSubstr("http:"), HasSubstr("https:"))))
        << file.path;
  }
}

TEST_F(PageServerTest, TheFilesAreThoseOfTheSourceTree) {
  ASSERT_GE(WebFiles().size(), 8u);
  for (const web::PageFile& file : WebFiles()) {
    EXPECT_TRUE(file.content == web::WebText(file.path)) << file.path;
  }
}

TEST_F(PageServerTest, AnswersNothingElse) {
  Serve();
  for (const char* path : {"/nothing", "/page.css/", "/../CMakeLists.txt", "/vendor/"}) {
    EXPECT_THAT(Get(page_->address(), path),
                AnyOf(StartsWith("HTTP/1.1 404 "), StartsWith("HTTP/1.1 400 ")));
  }
  EXPECT_THAT(Get(page_->address(), "/state", "DELETE"), StartsWith("HTTP/1.1 405 "));
}

TEST_F(PageServerTest, OnLoopbackTheNameOfAnotherSiteIsRefused) {
  Serve();
  for (const char* host : {"localhost:80", "localhost", "127.0.0.1:80", "[::1]:80"}) {
    EXPECT_THAT(Get(page_->address(), "/state", "GET", host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  for (const char* host : {"example.org:80", "localhost.example.org", "127.0.0.1.example.org"}) {
    EXPECT_THAT(Get(page_->address(), "/state", "GET", host), StartsWith("HTTP/1.1 403 ")) << host;
  }
}

TEST_F(PageServerTest, AViewerGetsTheStateAndThenWhatIsNew) {
  AddStep(0);
  Know([](auto& status) { status.step = protocol::Step(1); });
  Serve();
  Viewer viewer(page_->address());
  const auto [first, state] = viewer.Next();
  EXPECT_THAT(viewer.text(), HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_EQ(first, "state");
  EXPECT_EQ(state.at("status").at("job"), "tiny");
  EXPECT_EQ(state.at("status").at("step"), 1);
  EXPECT_EQ(state.at("curves").at("loss"), json::parse("[[0.0],[4.5]]"));
  AddStep(1);
  Know([](auto& status) { status.step = protocol::Step(2); });
  // The step and the status may come one after the other.
  std::vector<json> steps;
  for (json status = state.at("status"); steps.empty() || status.at("step") != 2;) {
    const auto [name, news] = viewer.Next();
    ASSERT_EQ(name, "news");
    Apply(news.at("change"), &status);
    for (const json& step : news.at("news").at("steps")) steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<json>{json::parse("[1.0,4.5,2.0,0.5,0.25]")}));
}

/// A viewer, and the status as it knows it.
struct Follower {
  explicit Follower(const std::string& address) : viewer(address) { Take(); }
  void Take() {
    const auto [name, event] = viewer.Next();
    ASSERT_FALSE(event.is_null()) << "the stream has ended";
    if (name == "state") {
      status = event.at("status");
    } else {
      ASSERT_EQ(event.at("number"), number + 1);
      Apply(event.at("change"), &status);
    }
    number = event.at("number");
  }

  Viewer viewer;
  json status;
  std::uint64_t number = 0;
};

TEST_F(PageServerTest, WhoJoinsLateEndsWithTheStatusOfWhoWasThereFromTheBeginning) {
  const auto train = [this](std::uint64_t step) {
    AddStep(step);
    Know([step](auto& status) {
      status.step = protocol::Step(step);
      protocol::StageStatus stage{.stage = protocol::StageIndex(0), .workers = {}};
      for (std::uint64_t w = 0; w < 2 + step % 3; ++w) {
        stage.workers.push_back(
            {.id = protocol::WorkerId("w" + std::to_string(w)), .queued = step});
      }
      status.stages = {stage};
    });
  };
  train(1);
  Serve();
  Follower early(page_->address());
  for (std::uint64_t step = 2; step < 5; ++step) {
    train(step);
    while (early.status.at("step") != step) ASSERT_NO_FATAL_FAILURE(early.Take());
  }
  Follower late(page_->address());
  EXPECT_EQ(late.status, early.status);
  train(5);
  for (Follower* follower : {&early, &late}) {
    while (follower->status.at("step") != 5) ASSERT_NO_FATAL_FAILURE(follower->Take());
  }
  EXPECT_EQ(late.status, early.status);
  EXPECT_EQ(late.status, Body("/state").at("status"));
}

TEST_F(PageServerTest, AViewerGetsTheWholeStateAgainWhenStepsWereUndone) {
  for (std::uint64_t step = 0; step < 5; ++step) AddStep(step);
  Serve();
  Viewer viewer(page_->address());
  ASSERT_EQ(viewer.Next().second.at("curves").at("loss")[0].size(), 5u);
  AddStep(0, "next");
  std::filesystem::rename(folder_ / "next", folder_ / "steps.jsonl");
  const auto [name, state] = viewer.Next();
  EXPECT_EQ(name, "state");
  EXPECT_EQ(state.at("curves").at("loss")[0], json::parse("[0.0]"));
}

TEST_F(PageServerTest, WhileNoTrainerAnswersThereIsNoStatus) {
  Serve();
  EXPECT_TRUE(Body("/state").at("status").is_null());
}

TEST_F(PageServerTest, APartOfTheCurvesIsGivenInFull) {
  for (std::uint64_t step = 0; step < 10; ++step) AddStep(step);
  Serve();
  EXPECT_EQ(Body("/curves?from=2.5&to=5").at("loss")[0], json::parse("[3.0,4.0,5.0]"));
  EXPECT_EQ(Body("/curves?to=1").at("loss")[0], json::parse("[0.0,1.0]"));
  EXPECT_EQ(Body("/curves?from=x&other").at("loss")[0].size(), 10u);
}

TEST_F(PageServerTest, TheAccountOfAStepIsTheLineOfTheLedger) {
  Serve();
  EXPECT_TRUE(Body("/account").at("line").is_null());
  std::ofstream ledger(folder_ / "ledger.jsonl");
  for (const int step : {0, 1, 2}) ledger << "{\"step\":" << step << ",\"groups\":[]}\n";
  ledger.close();
  EXPECT_EQ(Body("/account?step=1").at("line").at("step"), 1);
  EXPECT_EQ(Body("/account").at("line").at("step"), 2);
  EXPECT_EQ(Body("/account?step=1").at("microbatches"), 4);
  EXPECT_EQ(Body("/account?step=1").at("stages"), 2);
  for (const char* step : {"3", "1e300", "nan"}) {
    (void)Body(std::string("/account?step=") + step);
  }
  EXPECT_TRUE(Body("/account?step=3").at("line").is_null());
}

TEST_F(PageServerTest, TheTimelineIsAskedForFromASlotOn) {
  Serve();
  EXPECT_TRUE(Body("/timeline").is_null()) << "no trainer answers";
  EXPECT_EQ(after_, -1);
  lanes_ = LanesView{.slot = 7, .lanes = {}, .lost = {}};
  EXPECT_EQ(Body("/timeline?after=5").at("slot"), 7);
  EXPECT_EQ(after_, 5);
  (void)Body("/timeline?after=1e300");
  EXPECT_EQ(after_, -1);
}

TEST_F(PageServerTest, ALogIsShownWhereTheRunKeepsIt) {
  Serve();
  std::filesystem::create_directory(folder_ / "workers");
  std::ofstream(folder_ / "workers/worker-0.log") << "it began\n";
  const std::string log = Get(page_->address(), "/log?worker=worker-0");
  EXPECT_THAT(log, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: text/plain"),
                         HasSubstr("\r\n\r\nit began\n")));
  for (const char* path : {"/log?worker=worker-1", "/log", "/log?worker=..%2fsteps"}) {
    EXPECT_THAT(Get(page_->address(), path), StartsWith("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(PageServerTest, TheTrainerIsAskedFourTimesASecondAtMostAndNotWithoutViewers) {
  const Timepoint begin = Clock::now();
  Serve();
  EXPECT_EQ(looks_, 0);
  for (int i = 0; i < 20; ++i) (void)Body("/state");
  EXPECT_LE(looks_, 1 + (Clock::now() - begin) / std::chrono::milliseconds(250));
}

TEST_F(PageServerTest, AViewerBeyondTheBoundIsToldToComeAgain) {
  Serve({.viewers = 2});
  auto first = std::make_unique<Viewer>(page_->address());
  Viewer second(page_->address());
  ASSERT_EQ(first->Next().first, "state");
  ASSERT_EQ(second.Next().first, "state");
  EXPECT_THAT(Get(page_->address(), "/events"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: ")));
  EXPECT_THAT(Get(page_->address(), "/page.css"), StartsWith("HTTP/1.1 200 "));
  first = nullptr;
  // The server finds at the next sign of life that the viewer is gone.
  const Timepoint deadline = Clock::now() + std::chrono::seconds(60);
  std::string name;
  while (name != "state" && Clock::now() < deadline) name = Viewer(page_->address()).Next().first;
  EXPECT_EQ(name, "state") << "its place is free again";
}

TEST_F(PageServerTest, AViewerThatReadsTooSlowlyIsDroppedAndMayComeAgain) {
  constexpr std::size_t kBytes = 1u << 20;
  Know([](auto& status) { status.message.assign(kBytes, 'x'); });
  Serve({.viewers = 3, .waiting_bytes = 2 * kBytes});
  Viewer slow(page_->address());
  Follower quick(page_->address());
  ASSERT_EQ(slow.Next().first, "state");
  // More than may wait and than the buffers of a connection hold.
  for (int i = 1; i < 24; ++i) {
    Know([&](auto& status) {
      status.step = protocol::Step(static_cast<std::uint64_t>(i));
      status.message.assign(kBytes,
                            static_cast<char>('a' + i));  // what has not changed is not told
    });
    while (quick.status.at("step") != i) {
      ASSERT_NO_FATAL_FAILURE(quick.Take()) << "the other viewer is not held up";
    }
  }
  while (slow.text().size() < quick.viewer.text().size() && slow.Read()) {
  }
  EXPECT_LT(slow.text().size(), quick.viewer.text().size()) << "its stream has ended";
  EXPECT_EQ(Viewer(page_->address()).Next().second.at("status").at("step"), 23);
}

TEST_F(PageServerTest, AtTheEndViewersGetTheLastState) {
  Know([](auto& status) { status.state = protocol::JobState::kTraining; });
  Serve();
  Follower follower(page_->address());
  Know([](auto& status) { status.state = protocol::JobState::kSucceeded; });
  page_->Close();
  ASSERT_NO_FATAL_FAILURE(follower.Take());
  EXPECT_EQ(follower.status.at("state"), "Succeeded");
  EXPECT_EQ(follower.viewer.Next().first, "") << "the stream has ended";
  EXPECT_THAT(Get(page_->address(), "/events"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(PageServerTest, AnAddressThatIsNoneIsRefused) {
  const auto page = PageServer::Start({.listen = "localhost", .look = nullptr});
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(page.status().message(), HasSubstr("to serve the page at"));
}

}  // namespace
}  // namespace swarm::page
