#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/format/wall_time.h"
#include "base/signals.h"
#include "base/time.h"
#include "base/web/loopback.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/cluster_commands.h"
#include "ctl/cluster/page_relay.h"
#include "operator/jobs_page/jobs_page.h"
#include "operator/jobs_page/jobs_view.h"
#include "operator/kube/object/resource.h"
#include "operator/objects/read.h"

namespace swarm::ctl {
namespace {

/// So long a trainer's pod is taken to be the same.
constexpr Duration kKnown = std::chrono::seconds(2);

/// Finds the page of a job. Thread-safe.
class Finder {
 public:
  Finder(Cluster cluster, std::string job) : cluster_(std::move(cluster)), job_(std::move(job)) {}

  Result<PagePlace> Find() {
    const std::lock_guard lock(mutex_);
    const Timepoint now = Clock::now();
    if (place_.transport == nullptr || now - found_ > kKnown) {
      RETURN_IF_ERROR(Look());
      found_ = now;
    }
    return place_;
  }

 private:
  Status Look() {
    place_ = {};
    RETURN_IF_ERROR(Renew(&cluster_));
    ASSIGN_OR_RETURN(const kube::Object object,
                     cluster_.client->Get(kube::resources::SwarmJobs(), {cluster_.ns, job_}));
    ASSIGN_OR_RETURN(const objects::JobView job, objects::ReadJob(*object));
    const std::string& pod = job.status.trainer.podName;
    if (pod.empty()) {
      return Unavailable("the job " + cluster_.ns + "/" + job_ +
                         " has no trainer now; its page comes with it");
    }
    ASSIGN_OR_RETURN(std::string authorization, cluster_.config.credentials->Authorization());
    place_ = {cluster_.transport, PagePrefix(job.ns, pod), std::move(authorization)};
    return Status();
  }

  std::mutex mutex_;
  Cluster cluster_;
  const std::string job_;
  PagePlace place_;
  Timepoint found_{};
};

/// Lists the jobs.
class Lister {
 public:
  Lister(Cluster cluster, bool all_namespaces)
      : cluster_(std::move(cluster)), ns_(all_namespaces ? "" : cluster_.ns) {}

  Result<std::string> Jobs() {
    RETURN_IF_ERROR(Renew(&cluster_));
    ASSIGN_OR_RETURN(const kube::ObjectList list,
                     cluster_.client->List(kube::resources::SwarmJobs(), {.ns = ns_}));
    jobs_page::JobsView view{.opens = true};
    view.now = api::WholeSeconds(std::chrono::system_clock::now());
    for (const kube::Object& job : list.Unpack()) jobs_page::AddJob(*job, &view);
    return jobs_page::ToJson(view);
  }

 private:
  Cluster cluster_;
  const std::string ns_;
};

/// Shows the pages of jobs that a browser asks for, each at an address of its own, until the
/// command ends.
class Relays {
 public:
  Relays(const UiOptions& options, std::FILE* err, std::stop_token stop)
      : options_(options), err_(err), stop_(std::move(stop)) {}

  /// The address of the job's page.
  Result<std::string> Open(const std::string& ns, const std::string& job) {
    const std::string key = ns + "/" + job;
    if (!ways_.contains(key)) {
      if (ways_.size() == kWaysMax) {
        return Unavailable(std::to_string(kWaysMax) +
                           " pages are open; start this command again, or use: swarmctl ui " + job +
                           " -n " + ns);
      }
      ASSIGN_OR_RETURN(std::unique_ptr<Way> way, Make(ns, job));
      ways_.emplace(key, std::move(way));
    }
    return ways_.at(key)->relay->address();
  }

 private:
  /// A relay has some threads.
  static constexpr std::size_t kWaysMax = 16;
  struct Way {
    std::unique_ptr<Finder> finder;
    std::unique_ptr<PageRelay> relay;  // last: its threads ask the finder
  };

  Result<std::unique_ptr<Way>> Make(const std::string& ns, const std::string& job) {
    ClusterOptions options = options_.cluster;
    options.ns = ns;
    ASSIGN_OR_RETURN(Cluster cluster, Connect(options, err_, stop_));
    auto way = std::make_unique<Way>();
    way->finder = std::make_unique<Finder>(std::move(cluster), job);
    RETURN_IF_ERROR(way->finder->Find().status());
    const std::string host = options_.listen.substr(0, options_.listen.rfind(':'));
    ASSIGN_OR_RETURN(way->relay, PageRelay::Start(host + ":0", [finder = way->finder.get()] {
                       return finder->Find();
                     }));
    return way;
  }

  const UiOptions options_;
  std::FILE* const err_;
  const std::stop_token stop_;
  std::map<std::string, std::unique_ptr<Way>> ways_;  // by the namespace and the name of the job
};

ExitCode Tell(const std::string& address, Signals& signals, std::FILE* out) {
  std::fprintf(out, "Page: http://%s/ (Ctrl-C ends it)\n", address.c_str());
  std::fflush(out);
  signals.Wait();
  return ExitCode::kOk;
}

ExitCode ShowJobs(const UiOptions& options, Cluster cluster, Signals& signals, std::FILE* out,
                  std::FILE* err) {
  if (!web::IsLoopback(options.listen)) return Refuse(NotOnLoopback(options.listen), err);
  Lister lister(std::move(cluster), options.all_namespaces);
  // What fails at first, as a right that the user lacks, will hardly mend itself.
  if (const Status status = lister.Jobs().status(); !status.ok()) return Refuse(status, err);
  Relays relays(options, err, signals.token());
  const auto page = jobs_page::JobsPage::Start(
      {.listen = options.listen,
       .jobs = [&lister] { return lister.Jobs(); },
       .open = [&relays](const std::string& ns,
                         const std::string& job) { return relays.Open(ns, job); }});
  if (!page.ok()) return Refuse(page.status(), err);
  return Tell((*page)->address(), signals, out);
}

ExitCode ShowJob(const UiOptions& options, Cluster cluster, Signals& signals, std::FILE* out,
                 std::FILE* err) {
  Finder finder(std::move(cluster), options.job);
  // A job that is not there will hardly come; a trainer may.
  if (const Status status = finder.Find().status();
      !status.ok() && status.code() != StatusCode::kUnavailable) {
    return Refuse(status, err);
  }
  const auto relay = PageRelay::Start(options.listen, [&finder] { return finder.Find(); });
  if (!relay.ok()) return Refuse(relay.status(), err);
  return Tell((*relay)->address(), signals, out);
}

}  // namespace

ExitCode ShowPage(const UiOptions& options, std::FILE* out, std::FILE* err) {
  Signals signals({SIGINT, SIGTERM, SIGHUP});  // before the client has threads
  auto cluster = Connect(options.cluster, err, signals.token());
  if (!cluster.ok()) return Refuse(cluster.status(), err);
  return options.job.empty() ? ShowJobs(options, *std::move(cluster), signals, out, err)
                             : ShowJob(options, *std::move(cluster), signals, out, err);
}

}  // namespace swarm::ctl
