#include "operator/jobs_page/jobs_page.h"

#include <chrono>
#include <utility>

#include "base/web/loopback.h"
#include "base/web/page_files.h"
#include "operator/jobs_page/files.h"

namespace swarm::jobs_page {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);
constexpr int kThreads = 4;

}  // namespace

Result<std::unique_ptr<JobsPage>> JobsPage::Start(JobsPageOptions options) {
  std::unique_ptr<JobsPage> page(new JobsPage(std::move(options)));
  const web::ServerOptions server{
      .listen = page->options_.listen, .serves = "the page of all jobs", .threads = kThreads};
  ASSIGN_OR_RETURN(page->server_,
                   web::Server::Start(server, [page = page.get()](const web::Request& request) {
                     return page->Respond(request);
                   }));
  return page;
}

web::Answer JobsPage::Respond(const web::Request& request) {
  if (!options_.behind_proxy && web::IsLoopback(options_.listen) &&
      !web::IsOfThisMachine(request.host)) {
    return web::NotOfThisMachine();
  }
  if (request.path == "/jobs") return Jobs();
  return web::FileAt(WebFiles(), request.path == "/" ? "/jobs.html" : request.path);
}

web::Answer JobsPage::Jobs() {
  const std::lock_guard lock(mutex_);
  if (!jobs_ || Clock::now() - looked_ > kPeriod) {
    jobs_ = options_.jobs();
    looked_ = Clock::now();
  }
  if (jobs_->ok()) return web::JsonOf(**jobs_);
  return {.code = 503,
          .text = jobs_->status().message() + "\n",
          .headers = std::string(web::kPageHeaders) + "Retry-After: 2\r\n"};
}

}  // namespace swarm::jobs_page
