#include "operator/jobs_page/jobs_page.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/web/loopback.h"
#include "base/web/page_files.h"
#include "operator/jobs_page/files.h"

namespace swarm::jobs_page {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);
constexpr int kThreads = 4;
constexpr std::string_view kOpen = "/jobs/";

/// Whether an object may be called so: of another text nothing is asked.
bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 253 && text.find("..") == text.npos &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == text.npos;
}

web::Answer NotNow(const Status& why) {
  return {.code = 503,
          .text = why.message() + "\n",
          .headers = std::string(web::kPageHeaders) + "Retry-After: 2\r\n"};
}

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
  if (options_.open && request.path.starts_with(kOpen)) return Open(request.path);
  return web::FileAt(WebFiles(), request.path == "/" ? "/jobs.html" : request.path);
}

web::Answer JobsPage::Jobs() {
  const std::lock_guard lock(mutex_);
  if (!jobs_ || Clock::now() - looked_ > kPeriod) {
    jobs_ = options_.jobs();
    looked_ = Clock::now();
  }
  return jobs_->ok() ? web::JsonOf(**jobs_) : NotNow(jobs_->status());
}

web::Answer JobsPage::Open(std::string_view path) {
  const std::string_view names = path.substr(kOpen.size());
  const std::size_t slash = std::min(names.find('/'), names.size());
  const std::string ns(names.substr(0, slash));
  const std::string job(names.substr(std::min(slash + 1, names.size())));
  if (!IsName(ns) || !IsName(job)) {
    return {.code = 404, .text = "not found\n", .headers = web::kPageHeaders};
  }
  const std::lock_guard lock(opening_);
  const Result<std::string> address = options_.open(ns, job);
  if (!address.ok()) return NotNow(address.status());
  return {.code = 302,
          .headers = std::string(web::kPageHeaders) + "Location: http://" + *address + "/\r\n"};
}

}  // namespace swarm::jobs_page
