#include "operator/kube/testing/scripted_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <utility>

namespace swarm::kube {
namespace {

X509* ReadCertificate(const std::string& pem) {
  BIO* memory = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* certificate = PEM_read_bio_X509(memory, nullptr, nullptr, nullptr);
  BIO_free(memory);
  return certificate;
}

EVP_PKEY* ReadKey(const std::string& pem) {
  BIO* memory = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(memory, nullptr, nullptr, nullptr);
  BIO_free(memory);
  return key;
}

// A connection with TLS.
class TlsConnection final : public Connection {
 public:
  TlsConnection(int socket, SSL* ssl) : Connection(socket), ssl_(ssl) {}
  ~TlsConnection() override { SSL_free(ssl_); }
  void Send(std::string_view bytes) override {
    SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  }
  std::size_t Receive(char* bytes, std::size_t count) override {
    const int got = SSL_read(ssl_, bytes, static_cast<int>(count));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

 private:
  SSL* const ssl_;
};

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void ParseHead(const std::string& head, SeenRequest& request) {
  std::size_t line = head.find("\r\n");
  const std::size_t space = head.find(' ');
  request.method = head.substr(0, space);
  request.target = head.substr(space + 1, head.rfind(' ', line) - space - 1);
  while (line != std::string::npos) {
    const std::size_t begin = line + 2;
    line = head.find("\r\n", begin);
    const std::string header = head.substr(begin, line - begin);
    const std::size_t colon = header.find(':');
    const std::size_t value = header.find_first_not_of(": ", colon);
    if (value != std::string::npos) {
      request.headers[Lower(header.substr(0, colon))] = header.substr(value);
    }
  }
}

// Reads one request; none: the peer is gone. `rest` keeps the bytes after it.
std::optional<SeenRequest> ReadRequest(Connection& connection, std::string& rest) {
  std::array<char, 4096> part;
  const auto more = [&] {
    const std::size_t got = connection.Receive(part.data(), part.size());
    rest.append(part.data(), got);
    return got > 0;
  };
  std::size_t end = 0;
  while ((end = rest.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return std::nullopt;
  }
  SeenRequest request;
  ParseHead(rest.substr(0, end), request);
  const auto length = request.headers.find("content-length");
  const std::size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
  rest.erase(0, end + 4);
  while (rest.size() < size) {
    if (!more()) return std::nullopt;
  }
  request.body = rest.substr(0, size);
  rest.erase(0, size);
  return request;
}

}  // namespace

struct ScriptedServer::Tls {
  explicit Tls(const ServerIdentity& identity) : context(SSL_CTX_new(TLS_server_method())) {
    X509* const certificate = ReadCertificate(identity.certificate);
    EVP_PKEY* const key = ReadKey(identity.key);
    EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    if (identity.client_ca.empty()) return;
    X509* const authority = ReadCertificate(identity.client_ca);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority);
    X509_free(authority);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  ~Tls() { SSL_CTX_free(context); }
  SSL_CTX* const context;
};

std::string SeenRequest::Query(const std::string& key) const {
  for (const char* before : {"?", "&"}) {
    const std::string sought = before + key + "=";
    const std::size_t at = target.find(sought);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + sought.size();
    return target.substr(begin, target.find('&', begin) - begin);
  }
  return "";
}

Connection::~Connection() = default;

void Connection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::size_t Connection::Receive(char* bytes, std::size_t count) {
  const ssize_t got = recv(socket_, bytes, count, 0);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

void Connection::Answer(int status, const std::string& body,
                        const std::map<std::string, std::string>& headers) {
  std::string head = "HTTP/1.1 " + std::to_string(status) +
                     " Whatever\r\nContent-Type: application/json\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\n";
  for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
  Send(head + "\r\n" + body);
}

void Connection::BeginChunks(int status) {
  Send("HTTP/1.1 " + std::to_string(status) +
       " Whatever\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void Connection::Chunk(std::string_view bytes) {
  std::array<char, 24> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  Send(size.data() + std::string(bytes) + "\r\n");
}

void Connection::Hold() {
  std::array<char, 256> ignored;
  while (Receive(ignored.data(), ignored.size()) > 0) {
  }
}

void Connection::Cut() {
  cut_ = true;
  shutdown(socket_, SHUT_RDWR);
}

ScriptedServer::ScriptedServer(const ServerIdentity& identity) {
  // Some tests close the connection in the middle of an answer.
  std::signal(SIGPIPE, SIG_IGN);
  if (!identity.certificate.empty()) UseIdentity(identity);
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_, 64), 0);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this](std::stop_token stop) { Accept(stop); });
}

ScriptedServer::~ScriptedServer() {
  acceptor_.request_stop();
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const int socket : open_) shutdown(socket, SHUT_RDWR);
    changed_.notify_all();
  }
  threads_.clear();
}

void ScriptedServer::UseIdentity(const ServerIdentity& identity) {
  const std::lock_guard lock(mutex_);
  tls_ = std::make_shared<Tls>(identity);
}

ScriptedServer& ScriptedServer::Then(Act act) {
  const std::lock_guard lock(mutex_);
  script_.push_back(std::move(act));
  changed_.notify_all();
  return *this;
}

ScriptedServer& ScriptedServer::ThenAnswer(int status, const std::string& body,
                                           const std::map<std::string, std::string>& headers) {
  return Then([=](const SeenRequest&, Connection& peer) { peer.Answer(status, body, headers); });
}

void ScriptedServer::Otherwise(Act act) {
  const std::lock_guard lock(mutex_);
  otherwise_ = std::move(act);
}

std::string ScriptedServer::host() const { return "127.0.0.1:" + std::to_string(port_); }

std::string ScriptedServer::url() const {
  const std::lock_guard lock(mutex_);
  return (tls_ ? "https://" : "http://") + host();
}

std::vector<SeenRequest> ScriptedServer::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

int ScriptedServer::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

bool ScriptedServer::WaitForRequests(std::size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return seen_.size() >= count; });
}

void ScriptedServer::Accept(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const std::lock_guard lock(mutex_);
    ++connections_;
    open_.push_back(socket);
    threads_.emplace_back([this, socket] { Serve(socket); });
  }
}

ScriptedServer::Act ScriptedServer::Next(const SeenRequest& request) {
  const std::lock_guard lock(mutex_);
  seen_.push_back(request);
  changed_.notify_all();
  if (script_.empty()) {
    return otherwise_ ? otherwise_ : [](const SeenRequest&, Connection& peer) { peer.Hold(); };
  }
  Act act = std::move(script_.front());
  script_.pop_front();
  return act;
}

void ScriptedServer::Serve(int socket) {
  std::shared_ptr<Tls> tls;
  {
    const std::lock_guard lock(mutex_);
    tls = tls_;
  }
  std::unique_ptr<Connection> connection;
  if (tls) {
    SSL* const ssl = SSL_new(tls->context);
    SSL_set_fd(ssl, socket);
    connection = std::make_unique<TlsConnection>(socket, ssl);
    if (SSL_accept(ssl) != 1) connection->Cut();
  } else {
    connection = std::make_unique<Connection>(socket);
  }
  std::string rest;
  // Otherwise the peer could still read the bytes before the cut.
  while (!connection->cut()) {
    const auto request = ReadRequest(*connection, rest);
    if (!request) break;
    const Act act = Next(*request);
    act(*request, *connection);
  }
  connection.reset();
  const std::lock_guard lock(mutex_);
  open_.remove(socket);
  close(socket);
}

}  // namespace swarm::kube
