#include "operator/jobs_page/jobs_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

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
  void Serve(bool behind_proxy = false) {
    auto page = JobsPage::Start({.listen = "127.0.0.1:0",
                                 .jobs = [this]() -> Result<std::string> {
                                   ++looks_;
                                   if (refused_) return PermissionDenied("you may not list them");
                                   return std::string("{\"jobs\":[]}");
                                 },
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
