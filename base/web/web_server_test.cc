#include "base/web/web_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "base/metrics/testing/scrape.h"

namespace swarm::web {
namespace {

using metrics::Get;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::unique_ptr<Server> Serve(Handler handler, int threads = 2) {
  auto server = Server::Start({.listen = "127.0.0.1:0", .serves = "a page", .threads = threads},
                              std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  return *std::move(server);
}

TEST(WebServerTest, AHandlerGetsTheNameByWhichItIsCalled) {
  const auto server = Serve([](const Request& request) { return Answer{.text = request.host}; });
  EXPECT_THAT(Get(server->address(), "/"), EndsWith("\r\n\r\n" + server->address()));
}

TEST(WebServerTest, AHandlerGetsPathAndQueryAndDecidesTheWholeAnswer) {
  const auto server = Serve([](const Request& request) {
    return Answer{.code = 503,
                  .type = "text/html",
                  .text = request.path + "|" + request.query,
                  .headers = "X-Test: yes\r\n"};
  });
  EXPECT_THAT(Get(server->address(), "/a/b?from=1&to=2"),
              AllOf(StartsWith("HTTP/1.1 503 Service Unavailable\r\n"),
                    HasSubstr("\r\nContent-Type: text/html\r\nX-Test: yes\r\n"),
                    HasSubstr("\r\nContent-Length: 16\r\n"), EndsWith("\r\n\r\n/a/b|from=1&to=2")));
  EXPECT_THAT(Get(server->address(), "/a", "HEAD"), EndsWith("\r\n\r\n"));
}

TEST(WebServerTest, AnAnswerGoesOnUntilItEnds) {
  const auto server = Serve([](const Request&) {
    return Answer{.text = "a", .more = [n = 0]() mutable -> std::optional<std::string> {
                    return n++ < 3 ? std::optional<std::string>("b") : std::nullopt;
                  }};
  });
  EXPECT_THAT(Get(server->address(), "/"),
              AllOf(Not(HasSubstr("Content-Length")), EndsWith("\r\n\r\nabbb")));
}

TEST(WebServerTest, AReaderThatIsGoneEndsItsAnswer) {
  std::atomic<bool> ended{false};
  {
    auto server = Serve([&](const Request&) {
      const std::shared_ptr<bool> end(new bool, [&](bool* flag) {
        ended = true;
        delete flag;
      });
      return Answer{.more = [end]() -> std::optional<std::string> {
        return std::string(1u << 20, 'x');  // more than the buffers of the connection hold
      }};
    });
    const int fd = metrics::Ask(server->address(), "/");
    std::string begin(100, '\0');
    ASSERT_GT(read(fd, begin.data(), begin.size()), 0);
    close(fd);
  }  // the server waits for the answer
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace swarm::web
