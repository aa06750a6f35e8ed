#include "ctl/cluster/page_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/metrics/testing/scrape.h"

namespace swarm::ctl {
namespace {

using metrics::Get;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kPrefix = "/api/v1/namespaces/ns/pods/job-trainer-1:9091/proxy";

/// An API server with a trainer's page behind it.
class FakeApiServer : public kube::HttpTransport {
 public:
  Result<kube::HttpResponse> Send(const kube::HttpRequest& request, const kube::SendLimits&,
                                  std::stop_token) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    kube::HttpResponse response;
    if (request.target == std::string(kPrefix) + "/") {
      response.head = {200,
                       {{"content-type", "text/html; charset=utf-8"},
                        {"content-security-policy", "default-src 'none'"},
                        {"set-cookie", "a=b"}}};
      response.body = "<script src=\"" + std::string(kPrefix) + "/page.js\">";
    } else if (request.target == std::string(kPrefix) + "/account?step=7") {
      response = {{200, {{"content-type", "application/json"}}}, "{}"};
    } else {
      response = {{404, {{"content-type", "text/plain"}}}, "not there\n"};
    }
    return response;
  }
  Status Stream(const kube::HttpRequest& request, const kube::StreamLimits&,
                const kube::StreamSink& sink, std::stop_token stop) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (!sink.on_head({200, {{"content-type", "text/event-stream"}}})) return Status();
    sink.on_bytes("event: state\ndata: {}\n\n");
    std::unique_lock lock(mutex_);
    std::condition_variable_any ended;
    ended.wait(lock, stop, [] { return false; });
    ++ended_;
    gone_.notify_all();
    return Cancelled("stopped");
  }
  std::string host() const override { return "fake"; }

  kube::HttpRequest Last() {
    const std::lock_guard lock(mutex_);
    return requests_.empty() ? kube::HttpRequest() : requests_.back();
  }
  std::size_t CountRequests() {
    const std::lock_guard lock(mutex_);
    return requests_.size();
  }
  void AwaitEnd() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(gone_.wait_for(lock, std::chrono::seconds(60), [this] { return ended_ > 0; }));
  }

 private:
  std::mutex mutex_;
  std::vector<kube::HttpRequest> requests_;
  int ended_ = 0;  // streams
  std::condition_variable gone_;
};

class PageRelayTest : public testing::Test {
 protected:
  void Start() {
    auto relay = PageRelay::Start("127.0.0.1:0", [this]() -> Result<PagePlace> {
      if (!found_.ok()) return found_;
      return PagePlace{server_, PagePrefix("ns", "job-trainer-1"), "Bearer secret"};
    });
    ASSERT_TRUE(relay.ok()) << relay.status().ToString();
    relay_ = *std::move(relay);
  }

  const std::shared_ptr<FakeApiServer> server_ = std::make_shared<FakeApiServer>();
  Status found_;
  std::unique_ptr<PageRelay> relay_;
};

TEST_F(PageRelayTest, ThePageIsAskedForThroughTheApiServerWithTheUsersRights) {
  Start();
  const std::string page = Get(relay_->address(), "/");
  EXPECT_THAT(page, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: text/html"),
                          HasSubstr("content-security-policy: default-src 'none'\r\n"),
                          Not(HasSubstr("cookie")), Not(HasSubstr("secret"))));
  EXPECT_THAT(page, EndsWith("<script src=\"/page.js\">")) << "as the page wrote it";
  EXPECT_EQ(server_->Last().headers.at("authorization"), "Bearer secret");
  EXPECT_THAT(Get(relay_->address(), "/account?step=7"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("{}")));
  EXPECT_THAT(Get(relay_->address(), "/nothing"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(PageRelayTest, AStreamGoesOnUntilItsViewerOrTheCommandEnds) {
  Start();
  const int viewer = metrics::Ask(relay_->address(), "/events");
  std::string text;
  std::array<char, 4096> part;
  while (text.find("data: {}\n\n") == text.npos) {
    const ssize_t n = read(viewer, part.data(), part.size());
    ASSERT_GT(n, 0);
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream"));
  relay_.reset();
  server_->AwaitEnd();
  close(viewer);
}

TEST_F(PageRelayTest, NoPathLeadsOutOfThePage) {
  Start();
  for (const char* path :
       {"/../../../secrets", "//secrets", "/%2e%2e/x", "/%252e%252e/x", "/a?b=../c"}) {
    EXPECT_THAT(Get(relay_->address(), path), Not(StartsWith("HTTP/1.1 200 "))) << path;
  }
  // What the web server makes of such a path is below the page.
  if (server_->CountRequests() > 0) {
    EXPECT_THAT(server_->Last().target, AllOf(StartsWith(kPrefix), Not(HasSubstr(".."))));
  }
}

TEST_F(PageRelayTest, AnotherSitesNameIsRefusedAndSoIsAnAddressForOthers) {
  Start();
  EXPECT_THAT(Get(relay_->address(), "/", "GET", "example.org:80"), StartsWith("HTTP/1.1 403 "));
  EXPECT_EQ(server_->CountRequests(), 0u);
  const auto open = PageRelay::Start("0.0.0.0:0", nullptr);
  EXPECT_EQ(open.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(open.status().message(), HasSubstr("not on loopback"));
}

TEST_F(PageRelayTest, WithoutATrainerItSaysWhatIsMissing) {
  found_ = Unavailable("the job ns/job has no trainer now");
  Start();
  for (const char* path : {"/", "/events"}) {
    EXPECT_THAT(Get(relay_->address(), path),
                AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("has no trainer now")));
  }
}

}  // namespace
}  // namespace swarm::ctl
