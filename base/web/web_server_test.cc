#include "base/web/web_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/host_port.h"
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

/// The body of a server that listens there, as a reader at this host gets it. Empty: it does not
/// get it.
std::string PageAt(const std::string& listen, const std::string& host) {
  const auto server = Server::Start({.listen = listen, .serves = "a page"},
                                    [](const Request&) { return Answer{.text = "page"}; });
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  if (!server.ok()) return "";
  const std::string answer = Get(ToString({host, ReadHostPort((*server)->address())->port}), "/");
  return answer.substr(std::min(answer.find("page"), answer.size()));
}

TEST(WebServerTest, AllAddressesAreThoseOfBothFamilies) {
  for (const char* listen : {"0.0.0.0:0", "[::]:0"}) {
    EXPECT_EQ(PageAt(listen, "127.0.0.1"), "page") << listen;
    if (HasIPv6()) {
      EXPECT_EQ(PageAt(listen, "::1"), "page") << listen;
    }
  }
}

TEST(WebServerTest, OneAddressIsServedAlone) {
  EXPECT_EQ(PageAt("127.0.0.1:0", "127.0.0.1"), "page");
  if (!HasIPv6()) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(PageAt("[::1]:0", "::1"), "page");
  EXPECT_EQ(PageAt("[::1]:0", "127.0.0.1"), "");
  EXPECT_EQ(PageAt("127.0.0.1:0", "::1"), "");
}

TEST(WebServerTest, APortOfIPv6ThatIsTakenIsNamed) {
  if (!HasIPv6()) GTEST_SKIP() << "this machine has no IPv6";
  const auto handler = [](const Request&) { return Answer{}; };
  const auto first = Server::Start({.listen = "[::1]:0", .serves = "a page"}, handler);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  const auto second = Server::Start({.listen = (*first)->address(), .serves = "a page"}, handler);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr((*first)->address()));
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

/// An address of each family that this machine has, with any port.
std::vector<std::string> AnyPorts() {
  std::vector<std::string> listen{"127.0.0.1:0"};
  if (HasIPv6()) listen.emplace_back("[::1]:0");
  return listen;
}

TEST(WebServerTest, ALongAnswerArrivesWhole) {
  const std::string text(8u << 20, 'x');  // more than the buffers of a connection hold
  for (const std::string& listen : AnyPorts()) {
    const auto server = Server::Start({.listen = listen, .serves = "a page"},
                                      [&](const Request&) { return Answer{.text = text}; });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    EXPECT_TRUE(Get((*server)->address(), "/").ends_with("\r\n\r\n" + text)) << listen;
  }
}

TEST(WebServerTest, AReaderThatIsGoneEndsItsAnswer) {
  for (const std::string& listen : AnyPorts()) {
    std::atomic<bool> ended{false};
    const auto handler = [&](const Request&) {
      const std::shared_ptr<bool> end(new bool, [&](bool* flag) {
        ended = true;
        delete flag;
      });
      return Answer{.more = [end]() -> std::optional<std::string> {
        return std::string(1u << 20, 'x');  // more than the buffers of the connection hold
      }};
    };
    {
      const auto server = Server::Start({.listen = listen, .serves = "a page"}, handler);
      ASSERT_TRUE(server.ok()) << server.status().ToString();
      const int fd = metrics::Ask((*server)->address(), "/");
      std::string begin(100, '\0');
      ASSERT_GT(read(fd, begin.data(), begin.size()), 0);
      close(fd);
    }  // the server waits for the answer
    EXPECT_TRUE(ended) << listen;
  }
}

}  // namespace
}  // namespace swarm::web
