#include "base/web/web_server.h"

#include <CivetServer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/host_port.h"
#include "base/web/relay.h"

namespace swarm::web {
namespace {

constexpr const char* kRequestTimeoutMs = "5000";  // of writes, too
constexpr auto kKnockInterval = std::chrono::milliseconds(5);

const char* ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 302:
      return "Found";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 503:
      return "Service Unavailable";
  }
  return "Error";
}

bool Write(mg_connection* connection, std::string_view text) {
  return text.empty() ||
         mg_write(connection, text.data(), text.size()) == static_cast<int>(text.size());
}

/// Answers every path. The web server calls it on all of its threads.
class AnyPath : public CivetHandler {
 public:
  explicit AnyPath(Handler handler) : handler_(std::move(handler)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    return Respond(connection, /*with_text=*/true);
  }
  bool handleHead(CivetServer*, mg_connection* connection) override {
    return Respond(connection, /*with_text=*/false);
  }

 private:
  bool Respond(mg_connection* connection, bool with_text) const {
    const mg_request_info* info = mg_get_request_info(connection);
    const auto text_of = [](const char* text) { return std::string(text != nullptr ? text : ""); };
    // The path is null for "GET *".
    const Answer answer = handler_({text_of(info->local_uri), text_of(info->query_string),
                                    text_of(mg_get_header(connection, "Host"))});
    std::string head = "HTTP/1.1 " + std::to_string(answer.code) + " " + ReasonOf(answer.code) +
                       "\r\nContent-Type: " + answer.type + "\r\n" + answer.headers;
    // An answer that goes on ends with its connection.
    if (!answer.more) head += "Content-Length: " + std::to_string(answer.text.size()) + "\r\n";
    if (!Write(connection, head + "Connection: close\r\n\r\n") || !with_text) return true;
    bool read = Write(connection, answer.text);
    while (read && answer.more) {
      const std::optional<std::string> next = answer.more();
      read = next && Write(connection, *next);
    }
    return true;
  }

  const Handler handler_;
};

Result<HostPort> Parse(const ServerOptions& options) {
  const auto address = ReadHostPort(options.listen);
  if (address && ToSocketAddress(*address)) return *address;
  return InvalidArgument("'" + options.listen + "' is no address:port to serve " + options.serves +
                         " at, such as 127.0.0.1:9464 or [::1]:9464");
}

constexpr const char* kAnyFour = "0.0.0.0";
constexpr const char* kAnySix = "::";
bool IsAny(const HostPort& address) { return address.host == kAnyFour || address.host == kAnySix; }
bool IsSix(const HostPort& address) { return address.host.find(':') != std::string::npos; }

/// Where civetweb listens for an address. Debian's is built without IPv6, for which a relay
/// listens.
HostPort FourFor(const HostPort& asked) {
  if (IsAny(asked)) return {kAnyFour, asked.port};
  return IsSix(asked) ? HostPort{"127.0.0.1", 0} : asked;
}

/// The relay that the address asks for, if any.
Result<std::unique_ptr<Relay>> StartRelay(const HostPort& asked, const HostPort& four) {
  const HostPort target{"127.0.0.1", four.port};
  if (IsAny(asked)) {
    if (!HasIPv6()) return std::unique_ptr<Relay>();
    return Relay::Start({kAnySix, four.port}, target);
  }
  if (IsSix(asked)) return Relay::Start(asked, target);
  return std::unique_ptr<Relay>();
}

/// Connects and hangs up. Does not wait.
void Knock(const SocketAddress& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)connect(fd, address.get(), address.size);
  close(fd);
}

/// What the web server said last on this thread, as its exception says nothing.
thread_local std::string said;

CivetCallbacks Listening() {
  CivetCallbacks callbacks;
  callbacks.log_message = [](const mg_connection*, const char* message) {
    said = message;
    return 0;  // it goes on to the server's own log, which is none
  };
  return callbacks;
}

}  // namespace

class Server::Civet {
 public:
  /// Throws what the web server throws.
  Civet(const ServerOptions& options, const HostPort& listen, Handler handler)
      : any_path_(std::move(handler)),
        callbacks_(Listening()),
        web_(std::make_unique<CivetServer>(
            std::vector<std::string>{"listening_ports", ToString(listen), "num_threads",
                                     std::to_string(options.threads), "request_timeout_ms",
                                     kRequestTimeoutMs},
            &callbacks_)),
        address_{listen.host, static_cast<std::uint16_t>(web_->getListeningPorts()[0])} {
    web_->addHandler("/", any_path_);
  }

  ~Civet() {
    // The web server checks whether to end at each connection, or else every two seconds, which is
    // too slow for the end of a program.
    std::jthread knocking([this](const std::stop_token& ended) {
      while (!ended.stop_requested()) {
        Knock(*ToSocketAddress(address_));
        std::this_thread::sleep_for(kKnockInterval);
      }
    });
    web_.reset();
  }

  const HostPort& address() const { return address_; }

 private:
  AnyPath any_path_;
  const CivetCallbacks callbacks_;
  std::unique_ptr<CivetServer> web_;
  const HostPort address_;  // with the port that was taken
};

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Handler handler) {
  ASSIGN_OR_RETURN(const HostPort asked, Parse(options));
  const std::string failed = "cannot serve " + options.serves + " at " + options.listen;
  said.clear();
  try {
    auto civet = std::make_unique<Civet>(options, FourFor(asked), std::move(handler));
    auto relay = StartRelay(asked, civet->address());
    if (!relay.ok()) return relay.status().WithContext(failed);
    const std::uint16_t port = *relay ? (*relay)->address().port : civet->address().port;
    return std::unique_ptr<Server>(
        new Server(*std::move(relay), std::move(civet), ToString({asked.host, port})));
  } catch (const std::exception&) {
    if (said.empty()) said = "the port is taken, or the address is not of this machine";
    return Unavailable(failed + ": " + said);
  }
}

Server::Server(std::unique_ptr<Relay> relay, std::unique_ptr<Civet> civet, std::string address)
    : relay_(std::move(relay)), civet_(std::move(civet)), address_(std::move(address)) {}

Server::~Server() = default;

}  // namespace swarm::web
