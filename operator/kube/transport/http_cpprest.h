// The HttpTransport that uses cpprestsdk. Only http_cpprest.cc includes the library.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "operator/kube/transport/http.h"
#include "operator/kube/transport/tls.h"

namespace swarm::kube {

struct CpprestOptions {
  std::string server;  ///< https://host:port, perhaps with a path; http:// for tests
  TlsSource tls;       ///< may be empty for http://
  std::string proxy;   ///< http:// URL, perhaps with user:password@; empty: none
  /// The name that the server is asked for and that its certificate must have; empty: its host.
  std::string tls_server_name;
};

/// Errors: kInvalidArgument, a URL is malformed.
Result<std::shared_ptr<HttpTransport>> MakeCpprestTransport(const CpprestOptions& options);

}  // namespace swarm::kube
