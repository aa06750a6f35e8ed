// A web server for a program's own pages: answers GET and HEAD. The room of civetweb.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"

namespace swarm::web {

class Relay;

struct Request {
  std::string path;   ///< "/metrics"
  std::string query;  ///< what is behind the '?': "from=1&to=2"
  std::string host;   ///< as the browser calls this server: "localhost:8080"
};

struct Answer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string text;
  /// Further lines of the head, each with \r\n at its end.
  std::string headers = {};
  /// Not null: the answer goes on after `text`. Called again and again for what to send next, until
  /// it returns nothing, or the reader is gone or takes nothing for five seconds. Each call must
  /// return within seconds.
  std::function<std::optional<std::string>()> more = nullptr;
};

/// Called on the server's threads, possibly on all at once, with a stack of 100 KiB, from which the
/// thread-local memory of all libraries goes (libtorch: 32 KiB): large buffers belong on the heap.
/// Must not throw.
using Handler = std::function<Answer(const Request&)>;

struct ServerOptions {
  /// address:port, with brackets around an IPv6 address; port 0 takes a free one. 0.0.0.0 and [::]
  /// both stand for all addresses of both families that the machine has, as they do for gRPC.
  std::string listen;
  std::string serves;  ///< for errors: "metrics or probes"
  /// An answer keeps a thread until its last byte.
  int threads = 2;
};

/// Keeps nothing between requests. Drops a request that stays incomplete for five seconds.
class Server {
 public:
  /// Begins to serve. Errors: kInvalidArgument for another form of `listen`, kUnavailable if the
  /// address cannot be listened at.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Handler handler);
  /// Waits for answers in progress, so what they wait for must end first; calls no handler after it
  /// returns.
  ~Server();

  /// address:port, with the port that was taken.
  const std::string& address() const { return address_; }

 private:
  class Civet;
  Server(std::unique_ptr<Relay> relay, std::unique_ptr<Civet> civet, std::string address);

  std::unique_ptr<Relay> relay_;  // null without IPv6; outlives the server that it leads to
  std::unique_ptr<Civet> civet_;
  std::string address_;
};

}  // namespace swarm::web
