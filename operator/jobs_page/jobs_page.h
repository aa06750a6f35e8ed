// Serves the page on which people watch all jobs: its files of web/, and the jobs as JSON
// (docs/page.md). The operator serves that of the jobs that it watches; swarmctl that of those
// that its user may list.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "base/web/web_server.h"

namespace swarm::jobs_page {

struct JobsPageOptions {
  std::string listen;  ///< as web::ServerOptions
  /// The jobs as ToJson(JobsView) writes them. Called on the server's threads, one call at a time,
  /// at most once a second, and only while somebody looks. Errors are shown in the browser.
  std::function<Result<std::string>()> jobs;
  /// The address (host:port) at which a browser of this machine finds the page of a job; null: from
  /// here no way leads there. Called as `jobs`, for each /jobs/NAMESPACE/NAME that is asked for,
  /// with what may be names. Errors are shown in the browser.
  std::function<Result<std::string>(const std::string& ns, const std::string& job)> open = nullptr;
  /// A proxy before it decides who may ask, and passes on the host that its readers ask for. Else a
  /// page on loopback answers to this machine alone.
  bool behind_proxy = false;
};

/// A browser asks again every two seconds, and each answer is short: a viewer holds no thread.
class JobsPage {
 public:
  /// Errors: as web::Server::Start.
  static Result<std::unique_ptr<JobsPage>> Start(JobsPageOptions options);

  const std::string& address() const { return server_->address(); }

 private:
  explicit JobsPage(JobsPageOptions options) : options_(std::move(options)) {}
  web::Answer Respond(const web::Request& request);
  web::Answer Jobs();
  web::Answer Open(std::string_view path);

  const JobsPageOptions options_;
  std::mutex mutex_;
  std::mutex opening_;                       // one call of `open` at a time
  std::optional<Result<std::string>> jobs_;  // guarded, as is looked_; none: nobody has looked
  Timepoint looked_{};
  std::unique_ptr<web::Server> server_;  // last: its threads use all else
};

}  // namespace swarm::jobs_page
