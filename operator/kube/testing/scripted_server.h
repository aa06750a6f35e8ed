// An HTTP server that does what a test tells it to, however wrong. Plain sockets on loopback, so
// that every byte, and every silence, is the test's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace swarm::kube {

/// A request as it came.
struct SeenRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;

  /// The value of a query parameter as it stands in the target; empty if there is none.
  std::string Query(const std::string& key) const;
};

/// PEM; with it the server speaks TLS.
struct ServerIdentity {
  std::string certificate;
  std::string key;
  /// Whose clients are let in; empty: nobody is asked for a certificate.
  std::string client_ca;
};

/// The server's end of one connection. Used on the connection's thread.
class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}
  virtual ~Connection();

  virtual void Send(std::string_view bytes);
  virtual std::size_t Receive(char* bytes, std::size_t count);  ///< 0: the peer is gone

  /// A whole answer with Content-Length.
  void Answer(int status, const std::string& body,
              const std::map<std::string, std::string>& headers = {});
  /// The head of an answer in chunks, and its parts.
  void BeginChunks(int status = 200);
  void Chunk(std::string_view bytes);
  void EndChunks() { Send("0\r\n\r\n"); }
  /// Says nothing until the peer has gone away, or the server ends.
  void Hold();
  /// No word, no more: the peer sees a connection that was cut.
  void Cut();
  bool cut() const { return cut_; }

 protected:
  const int socket_;

 private:
  bool cut_ = false;
};

/// Answers the requests, of all connections together, in the order of the script; when it is over,
/// every request waits until the server ends.
class ScriptedServer {
 public:
  using Act = std::function<void(const SeenRequest&, Connection&)>;

  explicit ScriptedServer(const ServerIdentity& identity = {});
  /// Cuts all connections and joins.
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  /// What happens at the next request that nothing has been said about.
  ScriptedServer& Then(Act act);
  /// Then: this answer.
  ScriptedServer& ThenAnswer(int status, const std::string& body,
                             const std::map<std::string, std::string>& headers = {});
  /// Whatever the script says not.
  void Otherwise(Act act);

  std::string url() const;
  std::string host() const;  ///< 127.0.0.1:PORT
  std::vector<SeenRequest> seen() const;
  /// Waits until so many requests have come; false after ten seconds.
  bool WaitForRequests(std::size_t count) const;
  int connections() const;

  /// Takes a new identity for connections to come.
  void UseIdentity(const ServerIdentity& identity);

 private:
  struct Tls;
  void Accept(std::stop_token stop);
  void Serve(int socket);
  Act Next(const SeenRequest& request);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Act> script_;
  Act otherwise_;
  std::vector<SeenRequest> seen_;
  std::shared_ptr<Tls> tls_;
  std::list<int> open_;
  int connections_ = 0;
  bool ending_ = false;
  std::list<std::jthread> threads_;
  std::jthread acceptor_;
};

}  // namespace swarm::kube
