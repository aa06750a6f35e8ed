// The page to watch a job, as a browser sees it: in a real run, and over the death of its trainer.
#include "base/metrics/testing/scrape.h"
#include "base/web/web_server.h"
#include "tests/system/system_test.h"
#include "worker/page/testing/viewer.h"

namespace swarm::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SystemPageTest : public SystemTest {
 protected:
  SystemPageTest() {
    job_.spec.training.maxSteps = kNeverReached;
    job_.spec.training.validationIntervalSteps = 5;
    job_.spec.data.validationUri = job_.spec.data.uri;
  }

  std::string Address() {
    return Content("out/page.address").substr(0, Content("out/page.address").find('\n'));
  }
  json State() {
    const std::string answer = metrics::Get(Address(), "/state");
    const std::size_t body = answer.find("\r\n\r\n");
    return answer.starts_with("HTTP/1.1 200 ") ? json::parse(answer.substr(body + 4)) : json();
  }
  void AwaitState(const std::string& what, const std::function<bool(const json&)>& holds) {
    Await(what, [&] {
      const json state = State();
      return !state.is_null() && !state.at("status").is_null() && holds(state);
    });
  }
  static std::vector<std::string> Marks(const json& state) {
    std::vector<std::string> kinds;
    for (const json& mark : state.at("marks")) kinds.push_back(mark.at("kind"));
    return kinds;
  }
};

TEST_F(SystemPageTest, ARunIsShownLiveAlsoByTheTrainerThatTakesOver) {
  StartRun({"--restart-delay", "0.1"});
  AwaitEvent("CheckpointWritten");
  AwaitMoreSteps();
  EXPECT_THAT(Output(), HasSubstr("Page: http://" + Address() + "/\n"));

  const std::string address = Address();
  page::Viewer viewer(address);
  const auto [first, state] = viewer.Next();
  ASSERT_EQ(first, "state");
  EXPECT_EQ(state.at("status").at("state"), "Training");
  EXPECT_EQ(state.at("status").at("stages").size(), 3u);
  EXPECT_EQ(state.at("curves").at("loss")[0][0], 0.0);
  EXPECT_FALSE(state.at("curves").at("validation")[0].empty());
  EXPECT_THAT(Marks(state), testing::Contains("CheckpointWritten"));
  json steps;
  while (steps.empty()) {
    const auto [name, news] = viewer.Next();
    ASSERT_EQ(name, "news") << "the run goes on";
    steps = news.at("news").at("steps");
  }
  EXPECT_GT(steps[0][0], state.at("curves").at("loss")[0].back());

  Signal("trainer", SIGKILL);
  AwaitEvent("TookOver");
  while (!viewer.Next().second.is_null()) {
  }  // its stream has ended
  AwaitState("the page of the next trainer", [&](const json& later) {
    return later.at("status").at("term") == 2 && later.at("status").at("state") == "Training";
  });
  EXPECT_EQ(Address(), address) << "an open page finds it";
  const json later = page::Viewer(address).Next().second;
  EXPECT_EQ(later.at("curves").at("loss")[0][0], 0.0) << "what was before is still there";
  EXPECT_EQ(later.at("curves").at("loss")[1][0], state.at("curves").at("loss")[1][0]);
  EXPECT_THAT(Marks(later), testing::Contains("TookOver"));

  Signal("worker-1", SIGKILL);
  AwaitState("the loss of worker-1", [](const json& shown) {
    return shown.at("status").at("lost").size() == 1 &&
           shown.at("status").at("lost")[0].at("id") == "worker-1";
  });
  AwaitState("its mark", [](const json& shown) {
    return testing::Matches(testing::Contains("WorkerLost"))(Marks(shown));
  });

  page::Viewer last(address);
  ASSERT_EQ(last.Next().first, "state");
  Interrupt();
  while (!last.Next().second.is_null()) {
  }
  EXPECT_EQ(last.status().at("state"), "Succeeded") << last.status();
  ASSERT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Programs(), IsEmpty());
}

TEST_F(SystemPageTest, WithoutAPageThereIsNone) {
  job_.spec.training.maxSteps = 10;
  StartRun({"--page", "none"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), Not(HasSubstr("Page: ")));
  EXPECT_FALSE(std::filesystem::exists(Path("out/page.address")));
}

TEST_F(SystemPageTest, AnAddressThatIsTakenCostsThePageAndNotTheRun) {
  job_.spec.training.maxSteps = 10;
  const auto taken = web::Server::Start({.listen = "127.0.0.1:0", .serves = "a test"},
                                        [](const web::Request&) { return web::Answer(); });
  ASSERT_TRUE(taken.ok()) << taken.status().ToString();
  StartRun({"--page", (*taken)->address()});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("Page: none; the log of the trainer says why: "));
  EXPECT_THAT(Content("out/workers/trainer.log"), HasSubstr("cannot serve the page at "));
}

TEST_F(SystemPageTest, WhatIsNoAddressIsRefused) {
  job_.spec.training.maxSteps = 10;
  StartRun({"--page", "here"});
  EXPECT_EQ(ExitCode(), 2) << Output();
  EXPECT_THAT(Output(), HasSubstr("'here' is no address:port to serve the page at"));
}

}  // namespace
}  // namespace swarm::tests
