#include "base/web/web_server.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace swarm::web {
namespace {

constexpr const char* kRequestTimeoutMs = "5000";  // of writes, too
constexpr auto kKnockInterval = std::chrono::milliseconds(5);

const char* ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
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

/// Where the web server listens, as text and for connecting to it.
struct ListenAddress {
  std::string host;  // brackets kept
  sockaddr_storage socket{};
  socklen_t size = 0;
};

/// Nothing unless `host` is an IPv4 address or, in brackets, an IPv6 address.
std::optional<ListenAddress> Resolve(const std::string& host, std::uint16_t port) {
  ListenAddress address{.host = host};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    auto* six = reinterpret_cast<sockaddr_in6*>(&address.socket);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    address.size = sizeof *six;
    const std::string inner = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, inner.c_str(), &six->sin6_addr) != 1) return std::nullopt;
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&address.socket);
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    address.size = sizeof *four;
    if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) != 1) return std::nullopt;
  }
  return address;
}

Result<ListenAddress> Parse(const ServerOptions& options) {
  const std::string& listen = options.listen;
  const std::size_t colon = listen.rfind(':');
  if (colon != std::string::npos) {
    std::uint16_t port = 0;
    const char* end = listen.data() + listen.size();
    const auto number = std::from_chars(listen.data() + colon + 1, end, port);
    if (number.ec == std::errc() && number.ptr == end) {
      if (auto address = Resolve(listen.substr(0, colon), port)) return *address;
    }
  }
  return InvalidArgument("'" + listen + "' is no address:port to serve " + options.serves +
                         " at, such as 127.0.0.1:9464");
}

/// Connects and hangs up. Does not wait.
void Knock(const ListenAddress& address) {
  const int fd = socket(address.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&address.socket), address.size);
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
  Civet(const ServerOptions& options, const ListenAddress& address, Handler handler)
      : any_path_(std::move(handler)),
        callbacks_(Listening()),
        web_(std::make_unique<CivetServer>(
            std::vector<std::string>{"listening_ports", options.listen, "num_threads",
                                     std::to_string(options.threads), "request_timeout_ms",
                                     kRequestTimeoutMs},
            &callbacks_)) {
    web_->addHandler("/", any_path_);
    address_ = *Resolve(address.host, static_cast<std::uint16_t>(web_->getListeningPorts()[0]));
  }

  ~Civet() {
    // The web server checks whether to end at each connection, or else every two seconds, which is
    // too slow for the end of a program.
    std::jthread knocking([this](const std::stop_token& ended) {
      while (!ended.stop_requested()) {
        Knock(address_);
        std::this_thread::sleep_for(kKnockInterval);
      }
    });
    web_.reset();
  }

  std::string address() const {
    return address_.host + ":" + std::to_string(web_->getListeningPorts()[0]);
  }

 private:
  AnyPath any_path_;
  const CivetCallbacks callbacks_;
  std::unique_ptr<CivetServer> web_;
  ListenAddress address_;  // with the port that was taken
};

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Handler handler) {
  ASSIGN_OR_RETURN(const ListenAddress address, Parse(options));
  said.clear();
  try {
    auto civet = std::make_unique<Civet>(options, address, std::move(handler));
    std::string bound = civet->address();
    return std::unique_ptr<Server>(new Server(std::move(civet), std::move(bound)));
  } catch (const std::exception&) {
    if (said.empty()) said = "the port is taken, or the address is not of this machine";
    return Unavailable("cannot serve " + options.serves + " at " + options.listen + ": " + said);
  }
}

Server::Server(std::unique_ptr<Civet> civet, std::string address)
    : civet_(std::move(civet)), address_(std::move(address)) {}

Server::~Server() = default;

}  // namespace swarm::web
