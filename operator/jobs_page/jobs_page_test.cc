#include "operator/jobs_page/jobs_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/metrics/testing/scrape.h"
#include "base/web/testing/web_text.h"
#include "operator/jobs_page/files.h"

namespace swarm::jobs_page {
namespace {

using metrics::Get;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class JobsPageTest : public testing::Test {
 protected:
  void Serve(bool behind_proxy = false) { Serve(behind_proxy, nullptr); }
  void Serve(bool behind_proxy,
             std::function<Result<std::string>(const std::string&, const std::string&)> open) {
    auto page = JobsPage::Start({.listen = "127.0.0.1:0",
                                 .jobs = [this]() -> Result<std::string> {
                                   ++looks_;
                                   if (refused_) return PermissionDenied("you may not list them");
                                   return std::string("{\"jobs\":[]}");
                                 },
                                 .open = std::move(open),
                                 .behind_proxy = behind_proxy});
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    page_ = *std::move(page);
  }

  std::atomic<int> looks_ = 0;
  std::atomic<bool> refused_ = false;
  std::unique_ptr<JobsPage> page_;
};

TEST_F(JobsPageTest, ServesItsFilesAndTheJobs) {
  Serve();
  EXPECT_THAT(Get(page_->address(), "/"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: text/html"),
                    HasSubstr("Content-Security-Policy: default-src 'none'"),
                    HasSubstr("src=\"/jobs_page.js\"")));
  EXPECT_THAT(Get(page_->address(), "/jobs"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("application/json"),
                    HasSubstr("{\"jobs\":[]}")));
  EXPECT_THAT(Get(page_->address(), "/page.js"), StartsWith("HTTP/1.1 404 "));
  for (const web::PageFile& file : WebFiles()) {
    EXPECT_THAT(Get(page_->address(), std::string(file.path)), StartsWith("HTTP/1.1 200 "));
    EXPECT_EQ(web::WebText(file.path), file.content);
    if (file.path == "/icon.svg") continue;  // its namespace is an address that nobody asks
    EXPECT_THAT(std::string(file.content), Not(AnyOf(HasSubstr("http:"), HasSubstr("https:"))));
  }
}

TEST_F(JobsPageTest, NobodyLooksWithoutAViewerAndManyViewersShareALook) {
  Serve();
  (void)Get(page_->address(), "/");
  EXPECT_EQ(looks_, 0);
  const Timepoint begin = Clock::now();
  for (int i = 0; i < 50; ++i) (void)Get(page_->address(), "/jobs");
  EXPECT_LE(looks_, 1 + ToSeconds(Clock::now() - begin));
}

TEST_F(JobsPageTest, ARefusalIsTold) {
  refused_ = true;
  Serve();
  EXPECT_THAT(Get(page_->address(), "/jobs"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("you may not list them")));
}

TEST_F(JobsPageTest, WhereAWayLeadsToThePageOfAJobTheBrowserIsSentThere) {
  std::vector<std::string> asked;
  Serve(false, [&](const std::string& ns, const std::string& job) -> Result<std::string> {
    asked.push_back(ns + "/" + job);
    if (job == "waits") return Unavailable("the job has no trainer now");
    return std::string("127.0.0.1:4242");
  });
  EXPECT_THAT(Get(page_->address(), "/jobs/team/llama"),
              AllOf(StartsWith("HTTP/1.1 302 Found\r\n"),
                    HasSubstr("\r\nLocation: http://127.0.0.1:4242/\r\n")));
  EXPECT_THAT(Get(page_->address(), "/jobs/team/waits"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("has no trainer now")));
  for (const char* path : {"/jobs/", "/jobs/team", "/jobs/team/", "/jobs//llama", "/jobs/a/b/c",
                           "/jobs/team/a%20b", "/jobs/team/a%0d%0ab", "/jobs/Team/llama"}) {
    EXPECT_THAT(Get(page_->address(), path), StartsWith("HTTP/1.1 404 ")) << path;
  }
  EXPECT_THAT(asked, testing::ElementsAre("team/llama", "team/waits"));
}

TEST_F(JobsPageTest, FromTheOperatorNoWayLeadsToThePageOfAJob) {
  Serve();
  EXPECT_THAT(Get(page_->address(), "/jobs/team/llama"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(JobsPageTest, OnLoopbackTheNameOfAnotherSiteIsRefusedExceptBehindAProxy) {
  Serve();
  EXPECT_THAT(Get(page_->address(), "/jobs", "GET", "jobs.example.org"),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Get(page_->address(), "/jobs", "GET", "localhost:80"), StartsWith("HTTP/1.1 200 "));
  Serve(/*behind_proxy=*/true);
  EXPECT_THAT(Get(page_->address(), "/jobs", "GET", "jobs.example.org"),
              StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace swarm::jobs_page
