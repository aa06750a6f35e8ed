// For tests: an HTTP server on a free port of this machine with answers that a test chooses.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace swarm::storage::s3 {

/// Serves one request after the other, each on a connection of its own. `answer` gets the request
/// as it came (head and body) and returns the whole response, or nothing to hang up.
class TestHttpServer {
 public:
  explicit TestHttpServer(std::function<std::string(const std::string& request)> answer)
      : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    const bool listening = ::bind(listener_, generic, size) == 0 && ::listen(listener_, 16) == 0 &&
                           ::getsockname(listener_, generic, &size) == 0;
    SWARM_CHECK(listening, "no port to listen on");
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::jthread([this] { Run(); });
  }
  ~TestHttpServer() {
    ::shutdown(listener_, SHUT_RDWR);  // ends the accept that waits
    thread_.join();
    ::close(listener_);
  }
  TestHttpServer(const TestHttpServer&) = delete;
  TestHttpServer& operator=(const TestHttpServer&) = delete;

  const std::string& url() const { return url_; }
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  static std::string Response(int status, const std::string& body,
                              const std::string& headers = "") {
    return "HTTP/1.1 " + std::to_string(status) +
           " Text\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
           "Connection: close\r\n\r\n" + body;
  }

 private:
  void Run() {
    for (;;) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const std::string request = Receive(connection);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const std::string response = answer_(request);
      std::size_t sent = 0;
      while (sent < response.size()) {
        const ssize_t n =
            ::send(connection, response.data() + sent, response.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<std::size_t>(n);
      }
      ::close(connection);
    }
  }

  static std::string Receive(int connection) {
    std::string request;
    char piece[4096];
    while (!Complete(request)) {
      const ssize_t n = ::recv(connection, piece, sizeof piece, 0);
      if (n <= 0) break;
      request.append(piece, static_cast<std::size_t>(n));
    }
    return request;
  }

  static bool Complete(const std::string& request) {
    const std::size_t head = request.find("\r\n\r\n");
    if (head == request.npos) return false;
    const std::size_t length = request.find("Content-Length: ");
    const std::size_t body = length < head ? std::stoul(request.substr(length + 16)) : 0;
    return request.size() >= head + 4 + body;
  }

  const std::function<std::string(const std::string&)> answer_;
  const int listener_;
  std::string url_;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;  // guarded by mutex_
  std::jthread thread_;                // last: serves when all other members exist
};

}  // namespace swarm::storage::s3
