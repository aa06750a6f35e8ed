// Home's enrolment service over gRPC and TLS 1.3.
#pragma once

#include <memory>
#include <string>

#include "base/identity/pem.h"
#include "worker/enrol/service/messages.h"

namespace swarm::enrol {

struct ServerOptions {
  std::string listen;          ///< host:port; port 0 takes a free one
  std::string authority;       ///< PEM; callers are sent it, and those with a certificate need one
                               ///< that it has signed
  identity::KeyPair identity;  ///< of home (identity::HomeUri)
};

class Server {
 public:
  /// Begins to serve. `desk` outlives the server.
  /// Errors: kUnavailable (the port is taken, or `listen` is not ours).
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Desk* desk);
  /// Calls the desk no more after it returns.
  ~Server();

  /// host:port, with the port that was taken.
  const std::string& address() const { return address_; }

 private:
  class Service;
  Server(std::unique_ptr<Service> service, std::string address);

  std::unique_ptr<Service> service_;
  const std::string address_;
};

}  // namespace swarm::enrol
