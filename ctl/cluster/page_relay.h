// Shows on this machine the page that a trainer serves in a cluster: a web server on loopback,
// which asks for each file and stream through the API server.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "base/web/web_server.h"
#include "operator/kube/transport/http.h"

namespace swarm::ctl {

/// Where the page is now. A job that has a new trainer has it in another pod.
struct PagePlace {
  std::shared_ptr<kube::HttpTransport> transport;
  std::string prefix;  ///< of the path at the API server; the page's own path comes behind it
  std::string authorization;  ///< header; may be empty
};

/// Why a page that is asked for with the user's rights does not listen there.
Status NotOnLoopback(const std::string& listen);

/// The prefix of the page that this pod serves, as the API server writes it into documents: with
/// the colon as it is.
std::string PagePrefix(const std::string& ns, const std::string& pod);

class PageRelay {
 public:
  /// Called on the threads of the server. Errors are shown in the browser.
  using Find = std::function<Result<PagePlace>()>;

  /// Errors: as web::Server::Start; kInvalidArgument, `listen` is not on loopback: whoever reaches
  /// the relay reads with the user's rights.
  static Result<std::unique_ptr<PageRelay>> Start(const std::string& listen, Find find);
  /// Ends the streams.
  ~PageRelay();

  const std::string& address() const { return server_->address(); }

 private:
  explicit PageRelay(Find find) : find_(std::move(find)) {}
  web::Answer Respond(const web::Request& request) const;
  web::Answer Stream(const PagePlace& place, const kube::HttpRequest& request) const;

  const Find find_;
  std::stop_source ended_;
  std::unique_ptr<web::Server> server_;  // last: its threads use all else
};

}  // namespace swarm::ctl
