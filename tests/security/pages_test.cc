// The table of docs/security.md holds: who can read what over HTTP.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/metrics/exporter.h"
#include "base/metrics/testing/scrape.h"
#include "base/testing/temporary_folder.h"
#include "ctl/cluster/page_relay.h"
#include "operator/jobs_page/jobs_page.h"
#include "tests/security/access_table.h"
#include "worker/page/page_server.h"

namespace swarm::security {
namespace {

/// The code of the answer; the rest of it, which may have no end, is not read.
int CodeOf(const std::string& address, const std::string& path, const std::string& method,
           const std::string& host) {
  const int fd = metrics::Ask(address, path, method, host);
  std::string head(12, ' ');
  const ssize_t n = read(fd, head.data(), head.size());  // "HTTP/1.1 200"
  close(fd);
  EXPECT_EQ(n, static_cast<ssize_t>(head.size())) << path;
  return std::atoi(head.substr(9).c_str());
}

class PagesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto exporter = metrics::Exporter::Start(
        "127.0.0.1:0",
        {.metrics = [] { return std::vector<MetricSample>(); }, .healthz = {}, .readyz = {}});
    auto page = page::PageServer::Start(
        {.listen = "127.0.0.1:0",
         .job = "tiny",
         .folder = folder_.path().string(),
         .look = [](Duration) { return std::optional<page::JobView>(); },
         .look_at_lanes = [](Duration, std::int64_t) { return std::optional<page::LanesView>(); }});
    auto jobs = jobs_page::JobsPage::Start(
        {.listen = "127.0.0.1:0", .jobs = [] { return Result<std::string>("{}"); }});
    ASSERT_TRUE(exporter.ok() && page.ok() && jobs.ok());
    exporter_ = *std::move(exporter);
    page_ = *std::move(page);
    jobs_ = *std::move(jobs);
    addresses_ = {{"metrics of a program", exporter_->address()},
                  {"page of a job", page_->address()},
                  {"page of all jobs", jobs_->address()}};
  }

  TemporaryFolder folder_;
  std::unique_ptr<metrics::Exporter> exporter_;
  std::unique_ptr<page::PageServer> page_;
  std::unique_ptr<jobs_page::JobsPage> jobs_;
  std::map<std::string, std::string> addresses_;
};

constexpr int kForbidden = 403;

TEST_F(PagesTest, EachPathAnswersWhomTheTableSaysAndOnlyToReaders) {
  for (const auto& row : TableBelow("Pages")) {
    ASSERT_TRUE(addresses_.contains(row.at(0))) << row[0];
    const std::string& address = addresses_[row[0]];
    const std::string path = *NamesIn(row.at(1)).begin();
    EXPECT_EQ(CodeOf(address, path, "GET", "") == kForbidden, row.at(2) == "no") << path;
    EXPECT_EQ(CodeOf(address, path, "GET", "site.example:80") == kForbidden, row.at(3) == "no")
        << row[0] << " " << path;
    for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
      EXPECT_GE(CodeOf(address, path, method, ""), 400) << method << " " << path;
    }
  }
}

TEST_F(PagesTest, TheTableHasEveryPathOfEveryServer) {
  const std::map<std::string, std::string> sources{
      {"metrics of a program", "base/metrics/exporter.cc"},
      {"page of a job", "worker/page/page_server.cc"},
      {"page of all jobs", "operator/jobs_page/jobs_page.cc"}};
  for (const auto& [server, source] : sources) {
    std::set<std::string> told, served;
    for (const auto& row : TableBelow("Pages")) {
      if (row.at(0) == server) told.merge(NamesIn(row.at(1)));
    }
    const std::string text = SourceOf(source);
    const std::regex compared("path == \"(/\\w*)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), compared), end; at != end; ++at) {
      served.insert((*at)[1]);
    }
    EXPECT_EQ(told, served) << server;
  }
}

TEST_F(PagesTest, WhatIsReadWithTheRightsOfAUserAnswersToThisMachineAlone) {
  const auto relay = ctl::PageRelay::Start(
      "127.0.0.1:0", [] { return Result<ctl::PagePlace>(Unavailable("there is no cluster")); });
  ASSERT_TRUE(relay.ok()) << relay.status().ToString();
  EXPECT_EQ(CodeOf((*relay)->address(), "/", "GET", ""), 503);
  EXPECT_EQ(CodeOf((*relay)->address(), "/", "GET", "site.example:80"), kForbidden);
  EXPECT_EQ(ctl::PageRelay::Start("0.0.0.0:0", {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace swarm::security
