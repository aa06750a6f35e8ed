// An HTTP server whose answers a test scripts, also wrong ones. It uses plain sockets on loopback,
// so that a test controls every byte and every pause.
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

/// A received request.
struct SeenRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;

  /// The value of a query parameter, as in the target; empty: there is none.
  std::string Query(const std::string& key) const;
};

/// PEM. With an identity, the server uses TLS.
struct ServerIdentity {
  std::string certificate;
  std::string key;
  /// The authority of admitted clients; empty: clients need no certificate.
  std::string client_ca;
};

/// The server's end of one connection. Used on the thread of the connection.
class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}
  virtual ~Connection();

  virtual void Send(std::string_view bytes);
  virtual std::size_t Receive(char* bytes, std::size_t count);  ///< 0: the peer is gone

  /// A whole answer with Content-Length.
  void Answer(int status, const std::string& body,
              const std::map<std::string, std::string>& headers = {});
  /// The head and the parts of a chunked answer.
  void BeginChunks(int status = 200);
  void Chunk(std::string_view bytes);
  void EndChunks() { Send("0\r\n\r\n"); }
  /// Sends nothing until the peer closes the connection or the server ends.
  void Hold();
  /// Closes the connection at once: the peer sees a cut connection.
  void Cut();
  bool cut() const { return cut_; }

 protected:
  const int socket_;

 private:
  bool cut_ = false;
};

/// Answers the requests of all connections together, in the order of the script. After the script,
/// every request waits until the server ends.
class ScriptedServer {
 public:
  using Act = std::function<void(const SeenRequest&, Connection&)>;

  explicit ScriptedServer(const ServerIdentity& identity = {});
  /// Cuts all connections and joins the threads.
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  /// Appends to the script what happens at the next request.
  ScriptedServer& Then(Act act);
  /// Appends an answer to the script.
  ScriptedServer& ThenAnswer(int status, const std::string& body,
                             const std::map<std::string, std::string>& headers = {});
  /// What happens at requests after the script.
  void Otherwise(Act act);

  std::string url() const;
  std::string host() const;  ///< 127.0.0.1:PORT
  std::vector<SeenRequest> seen() const;
  /// Waits until this many requests have arrived. Returns false after ten seconds.
  bool WaitForRequests(std::size_t count) const;
  int connections() const;

  /// Sets the identity for new connections.
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
